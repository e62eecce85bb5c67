#include "transfer/bounce_body.h"

#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/mem.h"

static struct bounce_move *move_of(const struct bounce *bounce,
                                   const struct bounce_out_chunk *chunk)
{
    return &bounce->moves[chunk->staging / bounce->granule];
}

static const struct bounce_out_chunk *chunk_of(const struct bounce *bounce,
                                               uint32_t flow, uint32_t slot)
{
    return &bounce->send.flows[flow].chunks[slot];
}

/* -------- is it worth it, and how is it cut -------- */

/* Tiny pieces cost a NIC, which moves each by itself. Where a thread copies
 * them anyway, two more copies of each are no gain (bench/bounce_bench.c). */
static bool is_worth_it(const struct bounce *bounce,
                        const struct bounce_job *job, uint64_t bytes)
{
    const struct transfer_options *transfer = bounce->options.transfer;
    const struct link *link = *job->link;
    if (link->bounce.bytes == 0 || job->piece_count == 0) {
        return false;
    }
    if (transfer->bounce.is_forced) {
        return true;
    }
    enum transfer_toucher toucher = transfer_backend_toucher(
        transfer->backend, transfer_backend_peer_lane(link->backend_peer));
    return toucher == TRANSFER_NIC && job->piece_count >= BOUNCE_PIECES_MIN &&
           bytes / job->piece_count <= BOUNCE_PIECE_MAX;
}

static enum err reserve(struct bounce_out *out, uint32_t count)
{
    if (count <= out->capacity) {
        return OK;
    }
    void *firsts = mem_try_resize(out->firsts, count * sizeof(out->firsts[0]));
    out->firsts = firsts != NULL ? firsts : out->firsts;
    void *sizes = mem_try_resize(out->sizes, count * sizeof(out->sizes[0]));
    out->sizes = sizes != NULL ? sizes : out->sizes;
    if (firsts == NULL || sizes == NULL) {
        return ERR_NO_MEMORY;
    }
    out->capacity = count;
    return OK;
}

/* Chunks of whole pieces, as many as fit with their runs; 0: one fits in none,
 * or there would be too many chunks. Without `out` they are only counted. */
static uint32_t cut(const struct bounce_job *job, uint32_t chunk_max,
                    struct bounce_out *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->piece_count; count++) {
        uint64_t size = 0;
        uint32_t first = i;
        while (i < job->piece_count &&
               job->pieces[i].size + WIRE_BOUNCE_RUN_SIZE + size <= chunk_max) {
            size += job->pieces[i++].size + WIRE_BOUNCE_RUN_SIZE;
        }
        if (i == first || count == WIRE_BOUNCE_CHUNKS_MAX) {
            return 0;
        }
        if (out != NULL) {
            out->firsts[count] = first;
            out->sizes[count] = (uint32_t)size;
            out->firsts[count + 1] = i;
        }
    }
    return count;
}

static uint32_t chunk_max_to(const struct bounce *bounce,
                             const struct link *link)
{
    return link->bounce.chunk_bytes < bounce->chunk_max
               ? link->bounce.chunk_bytes
               : bounce->chunk_max;
}

bool bounce_begin(struct bounce *bounce, const struct bounce_job *job,
                  uint64_t now)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < job->piece_count; i++) {
        bytes += job->pieces[i].size;
    }
    if (!is_worth_it(bounce, job, bytes)) {
        return false;
    }
    uint32_t chunk_max = chunk_max_to(bounce, *job->link);
    uint32_t count = cut(job, chunk_max, NULL), flow = 0;
    while (flow < bounce->send.options.flow_max &&
           bounce->send.flows[flow].is_used) {
        flow++;
    }
    if (count == 0 || flow == bounce->send.options.flow_max ||
        reserve(&bounce->outs[flow], count + 1)) {
        return false;
    }
    struct bounce_out *out = &bounce->outs[flow];
    out->job = *job;
    cut(job, chunk_max, out);
    uint32_t opened;
    enum err err =
        bounce_send_open(&bounce->send, out->sizes, count, now, &opened);
    CHECK(!err);
    CHECK(opened == flow);
    bounce->options.wake(bounce->options.context);
    return true;
}

void bounce_stop(struct bounce *bounce, const void *owner, uint64_t now)
{
    for (uint32_t i = 0; i < bounce->send.options.flow_max; i++) {
        if (bounce->send.flows[i].is_used &&
            bounce->outs[i].job.owner == owner) {
            bounce_send_event(
                bounce, &(struct bounce_send_event){
                            .kind = BOUNCE_SEND_STOP, .now = now, .flow = i});
            return;
        }
    }
}

/* -------- gathering -------- */

/* Copies on from where it stopped; the digest of a piece grows with it. */
static uint32_t gather_piece(struct bounce *bounce,
                             struct transfer_piece *piece, uint8_t *to,
                             uint64_t budget)
{
    struct bounce_copy *gather = &bounce->gather;
    uint64_t left = piece->size - gather->at_done;
    uint64_t size = left < budget ? left : budget;
    const uint8_t *from = bounce->options.transfer->memory +
                          piece->source_offset + gather->at_done;
    piece->crc32c = digest_crc32c(gather->at_done == 0 ? 0 : piece->crc32c,
                                  span_of(from, size));
    memcpy(to, from, size);
    gather->at_done += size;
    return (uint32_t)size;
}

static void end_gather(struct bounce *bounce, uint64_t now)
{
    bounce->gather.is_due = false;
    bounce_send_event(bounce,
                      &(struct bounce_send_event){.kind = BOUNCE_SEND_GATHERED,
                                                  .now = now,
                                                  .flow = bounce->gather.flow,
                                                  .slot = bounce->gather.slot});
}

bool bounce_gather_some(struct bounce *bounce, uint64_t now)
{
    struct bounce_copy *gather = &bounce->gather;
    if (!gather->is_due) {
        return false;
    }
    const struct bounce_out_chunk *chunk =
        chunk_of(bounce, gather->flow, gather->slot);
    struct bounce_out *out = &bounce->outs[gather->flow];
    struct bounce_move *move = move_of(bounce, chunk);
    uint32_t first = out->firsts[chunk->index];
    uint32_t end = out->firsts[chunk->index + 1];
    uint8_t *staging = bounce->base + chunk->staging;
    uint8_t *runs =
        staging + chunk->size - (size_t)WIRE_BOUNCE_RUN_SIZE * (end - first);
    uint64_t budget = TRANSFER_STEP_SIZE;
    bool is_stopping = bounce->send.flows[gather->flow].is_stopping;
    while (!is_stopping && gather->at < end && budget > 0) {
        struct transfer_piece *piece = &out->job.pieces[gather->at];
        uint32_t size =
            gather_piece(bounce, piece, staging + gather->done, budget);
        gather->done += size;
        budget -= size;
        if (gather->at_done == piece->size) {
            struct wire_bounce_run run = {piece->target_offset,
                                          (uint32_t)piece->size};
            wire_bounce_run_put(&run, runs + (size_t)WIRE_BOUNCE_RUN_SIZE *
                                                 (gather->at - first));
            gather->at++;
            gather->at_done = 0;
        }
    }
    if (!is_stopping && gather->at < end) {
        return true;
    }
    move->payload_size = gather->done;
    move->run_count = end - first;
    move->run_crc32c = digest_crc32c(
        0, span_of(runs, (size_t)WIRE_BOUNCE_RUN_SIZE * (end - first)));
    end_gather(bounce, now);
    return true;
}

static void start_gather(struct bounce *bounce, uint32_t flow, uint32_t slot)
{
    CHECK(!bounce->gather.is_due);
    bounce->gather = (struct bounce_copy){
        .is_due = true,
        .flow = flow,
        .slot = slot,
        .at = bounce->outs[flow].firsts[chunk_of(bounce, flow, slot)->index],
    };
    bounce->options.wake(bounce->options.context);
}

/* -------- writing -------- */

static void start_write(struct bounce *bounce, uint32_t flow, uint32_t slot)
{
    const struct transfer_options *transfer = bounce->options.transfer;
    const struct bounce_out_chunk *chunk = chunk_of(bounce, flow, slot);
    const struct bounce_job *job = &bounce->outs[flow].job;
    struct bounce_move *move = move_of(bounce, chunk);
    struct transfer_piece *parts =
        bounce->parts + (size_t)(move - bounce->moves) * bounce->part_max;
    uint32_t count = 0;
    for (uint32_t at = 0; at < chunk->size; at += TRANSFER_STEP_SIZE) {
        uint32_t left = chunk->size - at;
        parts[count++] = (struct transfer_piece){
            .source_offset = transfer->bounce.offset + chunk->staging + at,
            .target_offset = chunk->target + at,
            .size = left < TRANSFER_STEP_SIZE ? left : TRANSFER_STEP_SIZE,
        };
    }
    move->flow = flow;
    move->slot = slot;
    move->write = (struct transfer_write){
        .peer = (*job->link)->backend_peer,
        .pieces = parts,
        .piece_count = count,
        .token = bounce_token(chunk->handle, job->token.attempt),
        .without_digest = true, /* pages have theirs */
    };
    transfer_backend_write(transfer->backend, &move->write);
    bounce->options.wake(bounce->options.context);
}

bool bounce_written(struct bounce *bounce, struct transfer_write *write,
                    uint64_t now)
{
    /* A move begins with its write. */
    const struct bounce_move *move = (const struct bounce_move *)write;
    if (move < bounce->moves || move >= bounce->moves + bounce->move_count) {
        return false;
    }
    bounce_send_event(bounce,
                      &(struct bounce_send_event){.kind = BOUNCE_SEND_WRITTEN,
                                                  .now = now,
                                                  .flow = move->flow,
                                                  .slot = move->slot,
                                                  .outcome = write->outcome});
    return true;
}

/* -------- telling -------- */

static void tell(struct bounce *bounce, uint32_t flow, uint16_t type)
{
    const struct bounce_job *job = &bounce->outs[flow].job;
    CHECK(!buf_error(&bounce->body));
    if (*job->link != NULL) {
        /* A failure has dropped the link, which the session hears of. */
        IGNORE(control_send(*job->link, type, job->token.rid,
                            job->token.attempt, buf_span(&bounce->body)));
    }
}

static void tell_want(struct bounce *bounce,
                      const struct bounce_send_action *action)
{
    const struct bounce_out_chunk *chunk =
        chunk_of(bounce, action->flow, action->slot);
    struct wire_bounce_want want = {.write =
                                        bounce->outs[action->flow].job.write};
    if (action->kind == BOUNCE_WANT) {
        want.chunk_count = bounce->send.flows[action->flow].chunk_count;
        want.first = chunk->index;
        want.count = 1;
        want.sizes[0] = chunk->size;
    }
    buf_reset(&bounce->body);
    wire_bounce_want_encode(&want, &bounce->body);
    tell(bounce, action->flow, WIRE_BOUNCE_WANT);
}

static void tell_data(struct bounce *bounce,
                      const struct bounce_send_action *action)
{
    const struct bounce_out_chunk *chunk =
        chunk_of(bounce, action->flow, action->slot);
    const struct bounce_move *move = move_of(bounce, chunk);
    struct wire_bounce_data data = {
        .write = bounce->outs[action->flow].job.write,
        .chunk = chunk->index,
        .handle = chunk->handle,
        .payload_size = move->payload_size,
        .run_count = move->run_count,
        .run_crc32c = move->run_crc32c,
    };
    bounce->options.stats->sent_bounced_bytes += move->payload_size;
    buf_reset(&bounce->body);
    wire_bounce_data_encode(&data, &bounce->body);
    tell(bounce, action->flow, WIRE_BOUNCE_DATA);
}

void bounce_send_event(struct bounce *bounce,
                       const struct bounce_send_event *event)
{
    struct bounce_send_actions actions;
    bounce_send_step(&bounce->send, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct bounce_send_action *action = &actions.items[i];
        switch (action->kind) {
        case BOUNCE_GATHER:
            start_gather(bounce, action->flow, action->slot);
            break;
        case BOUNCE_WANT:
        case BOUNCE_CANCEL:
            tell_want(bounce, action);
            break;
        case BOUNCE_WRITE:
            start_write(bounce, action->flow, action->slot);
            break;
        case BOUNCE_DATA:
            tell_data(bounce, action);
            break;
        case BOUNCE_END:
            bounce->options.stats->sent_bounced_writes +=
                action->outcome == BOUNCE_DONE;
            bounce->options.on_sent(bounce->options.context,
                                    bounce->outs[action->flow].job.owner,
                                    action->outcome, event->now);
            break;
        }
    }
}

/* -------- what the receiver says -------- */

/* The flow that it speaks of, or BOUNCE_NOBODY. */
static uint32_t find_flow(const struct bounce *bounce, const struct link *link,
                          const struct wire_header *header, uint32_t write)
{
    for (uint32_t i = 0; i < bounce->send.options.flow_max; i++) {
        const struct bounce_job *job = &bounce->outs[i].job;
        if (bounce->send.flows[i].is_used && *job->link == link &&
            job->token.rid == header->rid &&
            job->token.attempt == header->attempt && job->write == write) {
            return i;
        }
    }
    return BOUNCE_NOBODY;
}

static bool is_in_arena(const struct link *link,
                        const struct wire_bounce_credit *credit)
{
    uint64_t begin = link->bounce.offset, size = link->bounce.bytes;
    return credit->offset >= begin && credit->offset - begin <= size &&
           credit->size <= size - (credit->offset - begin);
}

static void on_grant(struct bounce *bounce, struct link *link,
                     const struct wire_header *header, struct span body,
                     uint64_t now)
{
    struct wire_bounce_grant grant;
    struct why why = {0};
    if (wire_bounce_grant_decode(body, &why, &grant)) {
        control_drop(link, "%s", why.text);
        return;
    }
    for (uint32_t i = 0; i < grant.count; i++) {
        const struct wire_bounce_credit *credit = &grant.credits[i];
        if (!is_in_arena(link, credit)) {
            control_drop(link, "bounce grant: outside its arena");
            return;
        }
        uint32_t flow = find_flow(bounce, link, header, grant.write);
        if (flow == BOUNCE_NOBODY) {
            return; /* it has ended, and the receiver hears or heard of it */
        }
        bounce_send_event(
            bounce, &(struct bounce_send_event){.kind = BOUNCE_SEND_GRANT,
                                                .now = now,
                                                .flow = flow,
                                                .chunk = credit->chunk,
                                                .target = credit->offset,
                                                .size = credit->size,
                                                .handle = credit->handle});
    }
}

static void on_ack(struct bounce *bounce, struct link *link,
                   const struct wire_header *header, struct span body,
                   uint64_t now)
{
    struct wire_bounce_ack ack;
    struct why why = {0};
    if (wire_bounce_ack_decode(body, &why, &ack)) {
        control_drop(link, "%s", why.text);
        return;
    }
    for (uint32_t i = 0; i < ack.count; i++) {
        uint32_t flow = find_flow(bounce, link, header, ack.write);
        if (flow == BOUNCE_NOBODY) {
            return;
        }
        bounce_send_event(bounce, &(struct bounce_send_event){
                                      .kind = BOUNCE_SEND_ACK,
                                      .now = now,
                                      .flow = flow,
                                      .chunk = ack.chunks[i].chunk,
                                      .handle = ack.chunks[i].handle});
    }
}

void bounce_hear_receiver(struct bounce *bounce, struct link *link,
                          const struct wire_header *header, struct span body,
                          uint64_t now)
{
    if (header->type == WIRE_BOUNCE_GRANT) {
        on_grant(bounce, link, header, body, now);
    } else {
        on_ack(bounce, link, header, body, now);
    }
}
