#include "wire/bounce.h"

#include "base/check.h"
#include "wire/bytes.h"

static enum err corrupt(struct why *why, const char *what, struct span body)
{
    return why_say(why, ERR_CORRUPT, "bounce %s: %zu bytes", what, body.size);
}

/* -------- want -------- */

void wire_bounce_want_encode(const struct wire_bounce_want *want,
                             struct buf *out)
{
    CHECK(want->count <= WIRE_BOUNCE_ENTRIES_MAX);
    wire_write_u32(out, want->write);
    wire_write_u32(out, want->chunk_count);
    wire_write_u32(out, want->first);
    wire_write_u32(out, want->count);
    for (uint32_t i = 0; i < want->count; i++) {
        wire_write_u32(out, want->sizes[i]);
    }
}

enum err wire_bounce_want_decode(struct span body, struct why *why,
                                 struct wire_bounce_want *want_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_bounce_want want = {0};
    want.write = wire_read_u32(&reader);
    want.chunk_count = wire_read_u32(&reader);
    want.first = wire_read_u32(&reader);
    want.count = wire_read_u32(&reader);
    bool is_right = want.count <= WIRE_BOUNCE_ENTRIES_MAX &&
                    want.chunk_count <= WIRE_BOUNCE_CHUNKS_MAX &&
                    want.first <= want.chunk_count &&
                    want.count <= want.chunk_count - want.first &&
                    (want.count > 0 || want.chunk_count == 0);
    for (uint32_t i = 0; is_right && i < want.count; i++) {
        want.sizes[i] = wire_read_u32(&reader);
        is_right = want.sizes[i] > 0;
    }
    if (!is_right || !wire_reader_is_done(&reader)) {
        return corrupt(why, "want", body);
    }
    *want_out = want;
    return OK;
}

/* -------- grant -------- */

void wire_bounce_grant_encode(const struct wire_bounce_grant *grant,
                              struct buf *out)
{
    CHECK(grant->count <= WIRE_BOUNCE_ENTRIES_MAX);
    wire_write_u32(out, grant->write);
    wire_write_u32(out, grant->count);
    for (uint32_t i = 0; i < grant->count; i++) {
        const struct wire_bounce_credit *credit = &grant->credits[i];
        wire_write_u32(out, credit->chunk);
        wire_write_u64(out, credit->offset);
        wire_write_u32(out, credit->size);
        wire_write_u64(out, credit->handle);
    }
}

enum err wire_bounce_grant_decode(struct span body, struct why *why,
                                  struct wire_bounce_grant *grant_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_bounce_grant grant = {0};
    grant.write = wire_read_u32(&reader);
    grant.count = wire_read_u32(&reader);
    if (grant.count == 0 || grant.count > WIRE_BOUNCE_ENTRIES_MAX) {
        return corrupt(why, "grant", body);
    }
    for (uint32_t i = 0; i < grant.count; i++) {
        struct wire_bounce_credit *credit = &grant.credits[i];
        credit->chunk = wire_read_u32(&reader);
        credit->offset = wire_read_u64(&reader);
        credit->size = wire_read_u32(&reader);
        credit->handle = wire_read_u64(&reader);
    }
    if (!wire_reader_is_done(&reader)) {
        return corrupt(why, "grant", body);
    }
    *grant_out = grant;
    return OK;
}

/* -------- data -------- */

void wire_bounce_data_encode(const struct wire_bounce_data *data,
                             struct buf *out)
{
    wire_write_u32(out, data->write);
    wire_write_u32(out, data->chunk);
    wire_write_u64(out, data->handle);
    wire_write_u32(out, data->payload_size);
    wire_write_u32(out, data->run_count);
    wire_write_u32(out, data->run_crc32c);
}

enum err wire_bounce_data_decode(struct span body, struct why *why,
                                 struct wire_bounce_data *data_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_bounce_data data;
    data.write = wire_read_u32(&reader);
    data.chunk = wire_read_u32(&reader);
    data.handle = wire_read_u64(&reader);
    data.payload_size = wire_read_u32(&reader);
    data.run_count = wire_read_u32(&reader);
    data.run_crc32c = wire_read_u32(&reader);
    if (!wire_reader_is_done(&reader)) {
        return corrupt(why, "data", body);
    }
    *data_out = data;
    return OK;
}

/* -------- ack -------- */

void wire_bounce_ack_encode(const struct wire_bounce_ack *ack, struct buf *out)
{
    CHECK(ack->count <= WIRE_BOUNCE_ENTRIES_MAX);
    wire_write_u32(out, ack->write);
    wire_write_u32(out, ack->count);
    for (uint32_t i = 0; i < ack->count; i++) {
        wire_write_u32(out, ack->chunks[i].chunk);
        wire_write_u64(out, ack->chunks[i].handle);
    }
}

enum err wire_bounce_ack_decode(struct span body, struct why *why,
                                struct wire_bounce_ack *ack_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_bounce_ack ack = {0};
    ack.write = wire_read_u32(&reader);
    ack.count = wire_read_u32(&reader);
    if (ack.count == 0 || ack.count > WIRE_BOUNCE_ENTRIES_MAX) {
        return corrupt(why, "ack", body);
    }
    for (uint32_t i = 0; i < ack.count; i++) {
        ack.chunks[i].chunk = wire_read_u32(&reader);
        ack.chunks[i].handle = wire_read_u64(&reader);
    }
    if (!wire_reader_is_done(&reader)) {
        return corrupt(why, "ack", body);
    }
    *ack_out = ack;
    return OK;
}

/* -------- runs -------- */

void wire_bounce_run_put(const struct wire_bounce_run *run, uint8_t *out)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(run->offset >> (8 * i));
    }
    for (int i = 0; i < 4; i++) {
        out[8 + i] = (uint8_t)(run->size >> (8 * i));
    }
}

struct wire_bounce_run wire_bounce_run_get(const uint8_t *bytes)
{
    struct wire_reader reader =
        wire_reader_of(span_of(bytes, WIRE_BOUNCE_RUN_SIZE));
    struct wire_bounce_run run;
    run.offset = wire_read_u64(&reader);
    run.size = wire_read_u32(&reader);
    return run;
}
