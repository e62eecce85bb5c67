#include "transfer/bounce_body.h"

#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/log.h"

static const struct bounce_in_chunk *chunk_of(const struct bounce *bounce,
                                              uint32_t flow, uint32_t slot)
{
    return &bounce->receive.flows[flow].chunks[slot];
}

static struct bounce_arrived *arrived_of(const struct bounce *bounce,
                                         uint32_t flow, uint32_t slot)
{
    return &bounce->arrived[(size_t)flow * BOUNCE_WINDOW + slot];
}

/* -------- telling -------- */

static void tell(struct bounce *bounce, const struct bounce_key *key,
                 uint16_t type)
{
    CHECK(!buf_error(&bounce->body));
    struct link *link = control_find_sender(bounce->control, key->sender);
    if (link != NULL) {
        /* A failure has dropped the link, which the session hears of. */
        IGNORE(control_send(link, type, key->rid, key->attempt,
                            buf_span(&bounce->body)));
    }
}

void bounce_flush_acks(struct bounce *bounce)
{
    struct bounce_acks *acks = &bounce->acks;
    if (acks->ack.count > 0) {
        buf_reset(&bounce->body);
        wire_bounce_ack_encode(&acks->ack, &bounce->body);
        acks->ack.count = 0;
        tell(bounce, &acks->key, WIRE_BOUNCE_ACK);
    }
}

/* Those of one write that come together go in one message. */
static void add_ack(struct bounce *bounce,
                    const struct bounce_receive_action *action)
{
    struct bounce_acks *acks = &bounce->acks;
    const struct bounce_in_flow *flow = &bounce->receive.flows[action->flow];
    bool is_same =
        bounce_key_is(&acks->key, &flow->key) && acks->ack.write == flow->write;
    if (!is_same || acks->ack.count == BOUNCE_ACKS_MAX) {
        bounce_flush_acks(bounce);
    }
    acks->key = flow->key;
    acks->ack.write = flow->write;
    acks->ack.chunks[acks->ack.count++] =
        (struct wire_bounce_done){action->chunk, action->handle};
}

/* -------- granting -------- */

static void grant(struct bounce *bounce,
                  const struct bounce_receive_action *action, uint64_t now)
{
    const struct transfer_options *transfer = bounce->options.transfer;
    const struct bounce_in_flow *flow = &bounce->receive.flows[action->flow];
    const struct bounce_in_chunk *chunk = &flow->chunks[action->slot];
    struct transfer_range range = {transfer->bounce.offset + chunk->offset,
                                   chunk->size};
    if (transfer_backend_authorise(
            transfer->backend, flow->key.sender,
            bounce_token(chunk->handle, flow->key.attempt), &range, 1)) {
        struct bounce_receive_event event = {.kind = BOUNCE_RECEIVE_REFUSED,
                                             .now = now,
                                             .flow = action->flow,
                                             .slot = action->slot};
        IGNORE(bounce_receive_event(bounce, &event)); /* our own: never odd */
        return;
    }
    struct wire_bounce_grant grant = {.write = flow->write, .count = 1};
    grant.credits[0] = (struct wire_bounce_credit){chunk->index, range.offset,
                                                   chunk->size, chunk->handle};
    buf_reset(&bounce->body);
    wire_bounce_grant_encode(&grant, &bounce->body);
    tell(bounce, &flow->key, WIRE_BOUNCE_GRANT);
}

static void revoke(struct bounce *bounce,
                   const struct bounce_receive_action *action)
{
    const struct bounce_in_flow *flow = &bounce->receive.flows[action->flow];
    transfer_backend_revoke(bounce->options.transfer->backend, flow->key.sender,
                            bounce_token(action->handle, flow->key.attempt));
}

bool bounce_receive_event(struct bounce *bounce,
                          struct bounce_receive_event *event)
{
    struct bounce_receive_actions actions;
    event->is_lower_closed = bounce_send_is_hungry(&bounce->send);
    bounce_receive_step(&bounce->receive, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct bounce_receive_action *action = &actions.items[i];
        switch (action->kind) {
        case BOUNCE_GRANT:
            grant(bounce, action, event->now);
            break;
        case BOUNCE_REVOKE:
            revoke(bounce, action);
            break;
        case BOUNCE_SCATTER:
            CHECK(!bounce->scatter.is_due);
            bounce->scatter = (struct bounce_copy){
                .is_due = true, .flow = action->flow, .slot = action->slot};
            bounce->options.wake(bounce->options.context);
            break;
        case BOUNCE_ACK:
            add_ack(bounce, action);
            break;
        case BOUNCE_EXPIRED:
            log_warn_rare(
                "transfer", "rid %lld: its sender lets granted memory lie",
                (long long)bounce->receive.flows[action->flow].key.rid);
            break;
        }
    }
    return !actions.is_odd;
}

/* -------- scattering -------- */

enum step { STEP_ON, STEP_DONE, STEP_BROKEN };

static struct span runs_of(const struct bounce *bounce,
                           const struct bounce_in_chunk *chunk,
                           const struct bounce_arrived *arrived)
{
    return span_of(bounce->base + chunk->offset + arrived->payload_size,
                   (size_t)WIRE_BOUNCE_RUN_SIZE * arrived->run_count);
}

/* Sums that a sender may have got wrong, or that were changed on their way. */
static bool is_whole(const struct bounce *bounce,
                     const struct bounce_in_chunk *chunk,
                     const struct bounce_arrived *arrived)
{
    uint64_t size = (uint64_t)arrived->run_count * WIRE_BOUNCE_RUN_SIZE +
                    arrived->payload_size;
    return size == chunk->size &&
           digest_crc32c(0, runs_of(bounce, chunk, arrived)) ==
               arrived->run_crc32c;
}

/* One run, or as much of it as the budget allows. It is read once and then
 * judged: where the sender writes by itself it could change it meanwhile. */
static bool scatter_run(struct bounce *bounce, const struct tcp_grant *wanted,
                        const struct bounce_in_chunk *chunk,
                        const struct bounce_arrived *arrived, uint64_t *budget)
{
    struct bounce_copy *scatter = &bounce->scatter;
    struct wire_bounce_run run =
        wire_bounce_run_get(runs_of(bounce, chunk, arrived).data +
                            (size_t)WIRE_BOUNCE_RUN_SIZE * scatter->at);
    uint64_t left = run.size - scatter->at_done;
    if (run.size < scatter->at_done ||
        left > arrived->payload_size - scatter->done ||
        !tcp_grant_covers(wanted, run.offset, run.size)) {
        return false;
    }
    uint64_t size = left < *budget ? left : *budget;
    memcpy(bounce->options.transfer->memory + run.offset + scatter->at_done,
           bounce->base + chunk->offset + scatter->done, size);
    scatter->done += (uint32_t)size;
    scatter->at_done += size;
    *budget -= size;
    if (size == left) {
        scatter->at++;
        scatter->at_done = 0;
    }
    return true;
}

static enum step scatter_step(struct bounce *bounce)
{
    struct bounce_copy *scatter = &bounce->scatter;
    const struct bounce_in_chunk *chunk =
        chunk_of(bounce, scatter->flow, scatter->slot);
    const struct bounce_arrived *arrived =
        arrived_of(bounce, scatter->flow, scatter->slot);
    if (chunk->state == BOUNCE_IN_ORPHAN) {
        return STEP_DONE; /* nobody wants it: not a byte more */
    }
    const struct bounce_key *key = &bounce->receive.flows[scatter->flow].key;
    const struct tcp_grant *wanted =
        tcp_grants_find(&bounce->wanted, key->sender,
                        (struct transfer_token){key->rid, key->attempt});
    bool is_first = scatter->at == 0 && scatter->at_done == 0;
    if (wanted == NULL || (is_first && !is_whole(bounce, chunk, arrived))) {
        return STEP_BROKEN;
    }
    uint64_t budget = TRANSFER_STEP_SIZE;
    while (scatter->at < arrived->run_count && budget > 0) {
        if (!scatter_run(bounce, wanted, chunk, arrived, &budget)) {
            return STEP_BROKEN;
        }
    }
    if (scatter->at < arrived->run_count) {
        return STEP_ON;
    }
    return scatter->done == arrived->payload_size ? STEP_DONE : STEP_BROKEN;
}

static void end_flow(struct bounce *bounce, uint32_t flow,
                     enum bounce_receive_event_kind kind, uint64_t now)
{
    struct bounce_receive_event event = {
        .kind = kind, .now = now, .flow = flow};
    IGNORE(bounce_receive_event(bounce, &event)); /* our own: never odd */
}

bool bounce_scatter_some(struct bounce *bounce, uint64_t now)
{
    struct bounce_copy *scatter = &bounce->scatter;
    if (!scatter->is_due) {
        return false;
    }
    enum step step = scatter_step(bounce);
    if (step == STEP_ON) {
        return true;
    }
    struct bounce_key key = bounce->receive.flows[scatter->flow].key;
    const struct bounce_in_chunk *chunk =
        chunk_of(bounce, scatter->flow, scatter->slot);
    if (step == STEP_BROKEN) {
        log_error_rare("transfer",
                       "rid %lld: a chunk is not what its sender said",
                       (long long)key.rid);
        bounce->options.on_broken(bounce->options.context, &key, now);
        end_flow(bounce, scatter->flow, BOUNCE_RECEIVE_RECLAIM, now);
    } else if (chunk->state == BOUNCE_IN_SCATTERING) {
        bounce->options.stats->received_bounced_bytes += scatter->done;
        bounce->options.on_received(bounce->options.context, &key,
                                    scatter->done);
    }
    scatter->is_due = false;
    struct bounce_receive_event event = {.kind = BOUNCE_RECEIVE_SCATTERED,
                                         .now = now,
                                         .flow = scatter->flow,
                                         .slot = scatter->slot};
    IGNORE(bounce_receive_event(bounce, &event)); /* our own: never odd */
    return true;
}

/* -------- what the sender says -------- */

bool bounce_knows(const struct bounce *bounce, const struct bounce_key *key)
{
    return tcp_grants_find(&bounce->wanted, key->sender,
                           (struct transfer_token){key->rid, key->attempt}) !=
           NULL;
}

/* The pages that its receive lets it write. ERR_FULL, ERR_NO_MEMORY. */
static enum err note_wanted(struct bounce *bounce, const struct bounce_key *key,
                            struct span ranges)
{
    struct transfer_token token = {key->rid, key->attempt};
    if (bounce_knows(bounce, key)) {
        return OK;
    }
    return tcp_grants_add(&bounce->wanted, key->sender, token,
                          (const void *)ranges.data,
                          ranges.size / sizeof(struct transfer_range));
}

static void feed(struct bounce *bounce, struct link *link,
                 struct bounce_receive_event *event)
{
    if (!bounce_receive_event(bounce, event)) {
        control_drop(link, "bounce %s: out of turn or of bounds",
                     event->kind == BOUNCE_RECEIVE_WANT ? "want" : "data");
    }
}

static void on_want(struct bounce *bounce, struct link *link, struct span body,
                    const struct bounce_key *key, bool is_over,
                    struct span ranges, uint64_t now)
{
    struct wire_bounce_want want;
    struct why why = {0};
    if (wire_bounce_want_decode(body, &why, &want)) {
        control_drop(link, "%s", why.text);
        return;
    }
    bool is_cancel = want.chunk_count == 0;
    if (!is_cancel && (is_over || note_wanted(bounce, key, ranges))) {
        return; /* the sender goes the plain way soon */
    }
    const struct transfer_options *transfer = bounce->options.transfer;
    struct bounce_receive_event event = {
        .kind = BOUNCE_RECEIVE_WANT,
        .now = now,
        .key = *key,
        .write = want.write,
        .chunk_count = want.chunk_count,
        .first = want.first,
        .count = want.count,
        .sizes = want.sizes,
        .is_revocable =
            transfer_backend_toucher(transfer->backend, link->lane) ==
            TRANSFER_SELF_COPY,
    };
    feed(bounce, link, &event);
}

/* Before the step: a chunk that arrives may be scattered next. */
static void note_arrived(struct bounce *bounce, const struct bounce_key *key,
                         const struct wire_bounce_data *data)
{
    uint32_t flow = bounce_receive_find(&bounce->receive, key, 0);
    while (flow != BOUNCE_NOBODY) {
        for (uint32_t slot = 0; slot < BOUNCE_WINDOW; slot++) {
            const struct bounce_in_chunk *chunk = chunk_of(bounce, flow, slot);
            if (chunk->state == BOUNCE_IN_GRANTED &&
                chunk->handle == data->handle) {
                *arrived_of(bounce, flow, slot) = (struct bounce_arrived){
                    data->payload_size, data->run_count, data->run_crc32c};
            }
        }
        flow = bounce_receive_find(&bounce->receive, key, flow + 1);
    }
}

static void on_data(struct bounce *bounce, struct link *link, struct span body,
                    const struct bounce_key *key, uint64_t now)
{
    struct wire_bounce_data data;
    struct why why = {0};
    if (wire_bounce_data_decode(body, &why, &data)) {
        control_drop(link, "%s", why.text);
        return;
    }
    note_arrived(bounce, key, &data);
    struct bounce_receive_event event = {.kind = BOUNCE_RECEIVE_DATA,
                                         .now = now,
                                         .key = *key,
                                         .write = data.write,
                                         .chunk = data.chunk,
                                         .handle = data.handle};
    feed(bounce, link, &event);
}

void bounce_hear_sender(struct bounce *bounce, struct link *link,
                        const struct wire_header *header, struct span body,
                        const struct bounce_key *key, bool is_over,
                        struct span ranges, uint64_t now)
{
    if (header->type == WIRE_BOUNCE_WANT) {
        on_want(bounce, link, body, key, is_over, ranges, now);
    } else {
        on_data(bounce, link, body, key, now);
    }
}

static void end_flows(struct bounce *bounce, const struct bounce_key *key,
                      enum bounce_receive_event_kind kind, uint64_t now)
{
    uint32_t flow = bounce_receive_find(&bounce->receive, key, 0);
    while (flow != BOUNCE_NOBODY) {
        end_flow(bounce, flow, kind, now);
        flow = bounce_receive_find(&bounce->receive, key, flow + 1);
    }
}

void bounce_reclaim(struct bounce *bounce, const struct bounce_key *key,
                    uint64_t now)
{
    end_flows(bounce, key, BOUNCE_RECEIVE_RECLAIM, now);
}

void bounce_quiet(struct bounce *bounce, const struct bounce_key *key,
                  uint64_t now)
{
    end_flows(bounce, key, BOUNCE_RECEIVE_QUIET, now);
    tcp_grants_remove(&bounce->wanted, key->sender,
                      (struct transfer_token){key->rid, key->attempt});
    bounce->options.wake(bounce->options.context); /* others may have room */
}
