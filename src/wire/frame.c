#include "wire/frame.h"

#include "base/digest.h"
#include "wire/bytes.h"

static const char *const type_names[WIRE_TYPE_END] = {
    [0] = "none",
    [WIRE_REGISTER] = "register",
    [WIRE_REGISTERED] = "registered",
    [WIRE_REFUSED] = "refused",
    [WIRE_REQUEST_DATA] = "request data",
    [WIRE_KV_RESULT] = "kv result",
    [WIRE_CANCEL_SESSION] = "cancel session",
    [WIRE_HEARTBEAT] = "heartbeat",
    [WIRE_AUX_RESULT] = "aux result",
    [WIRE_BOUNCE_WANT] = "bounce want",
    [WIRE_BOUNCE_GRANT] = "bounce grant",
    [WIRE_BOUNCE_DATA] = "bounce data",
    [WIRE_BOUNCE_ACK] = "bounce ack",
    [WIRE_GREET] = "greet",
    [WIRE_GREETED] = "greeted",
    [WIRE_PROOF] = "proof",
};

enum {
    BODY_SIZE_OFFSET = WIRE_HEADER_SIZE - 8,
    CRC_OFFSET = WIRE_HEADER_SIZE - 4
};

const char *wire_type_name(uint16_t type)
{
    return type < WIRE_TYPE_END ? type_names[type] : "unknown";
}

static uint32_t frame_crc(const uint8_t *header, struct span body)
{
    uint32_t crc = digest_crc32c(0, span_of(header, CRC_OFFSET));
    return digest_crc32c(crc, body);
}

enum err wire_frame_encode(const struct wire_header *header, struct span body,
                           struct buf *out)
{
    if (body.size > WIRE_BODY_SIZE_MAX || buf_error(out)) {
        return ERR_FULL;
    }
    size_t start = out->size;
    wire_write_u32(out, WIRE_MAGIC);
    wire_write_u16(out, WIRE_VERSION);
    wire_write_u16(out, header->type);
    wire_write_u64(out, header->source_incarnation);
    wire_write_u64(out, header->target_incarnation);
    wire_write_u64(out, (uint64_t)header->rid);
    wire_write_u32(out, header->attempt);
    wire_write_u32(out, (uint32_t)body.size);
    if (buf_error(out)) {
        return ERR_FULL;
    }
    wire_write_u32(out, frame_crc(out->data + start, body));
    buf_add_span(out, body);
    return buf_error(out) ? ERR_FULL : OK;
}

static enum err check_start(struct span input, struct why *why)
{
    struct wire_reader reader = wire_reader_of(input);
    if (input.size >= 4 && wire_read_u32(&reader) != WIRE_MAGIC) {
        return why_say(why, ERR_CORRUPT, "frame: magic is wrong");
    }
    if (input.size >= 6) {
        uint16_t version = wire_read_u16(&reader);
        if (version != WIRE_VERSION) {
            return why_say(why, ERR_UNSUPPORTED,
                           "frame: version %u, this side speaks %d", version,
                           WIRE_VERSION);
        }
    }
    return OK;
}

static uint32_t read_header(struct span input, struct wire_header *header)
{
    struct wire_reader reader = wire_reader_of(input);
    IGNORE(wire_read_span(&reader, 6).size); /* checked before */
    header->type = wire_read_u16(&reader);
    header->source_incarnation = wire_read_u64(&reader);
    header->target_incarnation = wire_read_u64(&reader);
    header->rid = (int64_t)wire_read_u64(&reader);
    header->attempt = wire_read_u32(&reader);
    header->body_size = wire_read_u32(&reader);
    return wire_read_u32(&reader);
}

size_t wire_frame_size(struct span input)
{
    struct span size = span_slice(input, BODY_SIZE_OFFSET, CRC_OFFSET);
    struct wire_reader reader = wire_reader_of(size);
    return input.size < WIRE_HEADER_SIZE
               ? WIRE_HEADER_SIZE
               : WIRE_HEADER_SIZE + (size_t)wire_read_u32(&reader);
}

enum err wire_frame_decode(struct span input, struct why *why,
                           struct wire_header *header_out,
                           struct span *body_out, size_t *used_out)
{
    enum err err = check_start(input, why);
    if (err) {
        return err;
    }
    if (input.size < WIRE_HEADER_SIZE) {
        return ERR_BUSY;
    }
    struct wire_header header;
    uint32_t crc = read_header(input, &header);
    if (header.body_size > WIRE_BODY_SIZE_MAX) {
        return why_say(why, ERR_CORRUPT, "frame: body_size %u is over %d",
                       header.body_size, WIRE_BODY_SIZE_MAX);
    }
    size_t size = WIRE_HEADER_SIZE + (size_t)header.body_size;
    if (input.size < size) {
        return ERR_BUSY;
    }
    struct span body = span_slice(input, WIRE_HEADER_SIZE, size);
    if (crc != frame_crc(input.data, body)) {
        return why_say(why, ERR_CORRUPT, "frame: digest is wrong");
    }
    *header_out = header;
    *body_out = body;
    *used_out = size;
    return OK;
}
