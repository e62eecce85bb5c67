#include "serve/transfers.h"

#include <inttypes.h>
#include <stdio.h>

void serve_transfers_add(struct serve_transfers *transfers,
                         const struct serve_transfer *transfer)
{
    transfers->ring[transfers->count % SERVE_TRANSFER_COUNT_MAX] = *transfer;
    transfers->count++;
}

void serve_transfers_note_sent(struct serve_transfers *transfers, uint64_t id,
                               uint64_t now_wall_ms,
                               const struct engine_event *event)
{
    for (uint32_t i = 0; i < SERVE_TRANSFER_COUNT_MAX; i++) {
        struct serve_transfer *transfer = &transfers->ring[i];
        if (transfer->id == id && transfer->is_open) {
            transfer->is_open = false;
            transfer->is_failed = event->error != OK;
            transfer->ended_wall_ms = now_wall_ms;
            transfer->journey = event->journey;
            snprintf(transfer->reason, sizeof(transfer->reason), "%s",
                     event->reason);
            return;
        }
    }
}

static void add_text(struct buf *out, const char *key, const char *text)
{
    buf_printf(out, ",\"%s\":", key);
    buf_add_json_string(out, span_of_string(text));
}

static void add_ms(struct buf *out, const char *key, uint64_t ns)
{
    buf_printf(out, ",\"%s_ms\":%.9g", key, (double)ns / 1e6);
}

/* With the phases that its half of the request has. */
static void add_transfer(const struct serve_transfer *transfer, struct buf *out)
{
    const struct engine_journey *journey = &transfer->journey;
    buf_printf(out, "{\"id\":%" PRIu64 ",\"disagg_request_id\":%" PRId64,
               transfer->id, transfer->rid);
    add_text(out, "role",
             transfer->kind == ENGINE_CONTEXT_ONLY ? "context" : "generation");
    add_text(out, "result",
             transfer->is_open     ? "sending"
             : transfer->is_failed ? "failed"
                                   : "ok");
    if (transfer->is_failed && transfer->reason[0] != 0) {
        add_text(out, "reason", transfer->reason);
    }
    buf_printf(out, ",\"ended_ms\":%" PRIu64, transfer->ended_wall_ms);
    add_text(out, "backend", journey->backend);
    add_text(out, "lane", journey->lane);
    buf_printf(out,
               ",\"bytes\":%" PRIu64 ",\"blocks\":%" PRIu32
               ",\"prompt_tokens\":%" PRIu32 ",\"cached_tokens\":%" PRIu32
               ",\"chunks\":%" PRIu32 ",\"bounced_bytes\":%" PRIu64,
               journey->moved_bytes, journey->moved_blocks,
               journey->prompt_tokens, journey->cached_tokens,
               journey->chunk_count, journey->bounced_bytes);
    add_ms(out, "queue", journey->queue_ns);
    if (transfer->kind == ENGINE_CONTEXT_ONLY) {
        add_ms(out, "prefill", journey->prefill_ns);
    }
    add_ms(out, "handoff", journey->handoff_ns);
    if (transfer->kind == ENGINE_GENERATION_ONLY) {
        add_ms(out, "decode", journey->decode_ns);
    }
    buf_add_byte(out, '}');
}

void serve_transfers_print(const struct serve_transfers *transfers,
                           struct span writes, struct buf *out)
{
    uint64_t count = transfers->count < SERVE_TRANSFER_COUNT_MAX
                         ? transfers->count
                         : SERVE_TRANSFER_COUNT_MAX;
    buf_printf(out, "{\"total\":%" PRIu64 ",\"transfers\":[", transfers->count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = (transfers->count - 1 - i) % SERVE_TRANSFER_COUNT_MAX;
        buf_add_string(out, i == 0 ? "" : ",");
        add_transfer(&transfers->ring[at], out);
    }
    buf_add_string(out, "],\"writes\":");
    buf_add_span(out, writes);
    buf_add_byte(out, '}');
}
