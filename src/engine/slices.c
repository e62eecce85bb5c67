/* engine/slices: the sender's half of a hand-off, chunk by chunk (transfer.md 3,
 * 2.4; engine.md 5.2 steps 4 and 25).
 *
 *   CONTEXT_WAIT --OFFER--> is awaited --> WAITING --> PREFILL  [0, c1) SEND 0
 *                                                       chunk   [c1, c2) SEND 1
 *                                                       last    [.., N) SEND k + aux
 *
 * A cursor tiles [0, N): the first slice reaches back to block 0, so that what
 * was found in our own cache is delivered; a block that a chunk has not filled
 * waits for the next; the last slice takes what is left. Context-first is the
 * same with one slice: nobody can know the receiver before the answer, so there
 * is nothing to gain.
 *
 * Who streams is never rewound: it starts with all the pages of its prompt set
 * aside and neither gives way nor is suspended (transfer.md 3.10 G12, 6.4), so
 * it does not wait for pages while others wait for it. */
#include "base/check.h"
#include "base/mem.h"
#include "engine/state.h"

bool item_streams(const struct item *item)
{
    return item->kind == ENGINE_CONTEXT_ONLY && item->is_generation_first;
}

/* ---- posting ---- */

/* A slice that nobody has posted yet takes the next one in: a session has at
 * most one in the outbox. */
static struct transfer_command *pending_slice(struct engine_core *core,
                                              const struct session *session)
{
    for (uint32_t i = 0; i < core->order_count; i++) {
        struct transfer_command *order = &core->orders[i];
        if (order->request == session->ticket && order->kind == TRANSFER_SEND) {
            return order;
        }
    }
    return NULL;
}

uint64_t slices_deadline(const struct engine_core *core,
                         const struct item *item, uint64_t now_ns)
{
    uint64_t deadline_ns = now_ns + core->options.kv_transfer_timeout_ns;
    uint64_t asked_ns = item_streams(item) ? item->request->deadline_ns : 0;
    return asked_ns != 0 && asked_ns < deadline_ns ? asked_ns : deadline_ns;
}

static struct transfer_command *new_slice(struct engine_core *core,
                                          struct session *session)
{
    struct transfer_command *slice =
        session_order(core, session, TRANSFER_SEND);
    CHECK(session->slice_count < SLICE_COUNT_MAX);
    for (uint32_t i = 0; i < core->options.life_count; i++) {
        slice->pages[i] = session->pages[i];
    }
    slice->group_count = core->options.life_count;
    slice->block_count = session->block_count;
    slice->prompt_tokens = session->item->request->prompt_count;
    slice->slice_index = session->slice_count++;
    slice->first_block = session->cursor;
    return slice;
}

/* A windowed life cycle travels whole with the last slice: before that its
 * pages come and go. */
static void lease_slice(struct engine_core *core, struct session *session,
                        uint32_t end, bool is_last)
{
    for (uint32_t life = 0; life < core->options.life_count; life++) {
        if (session->streaming_lives & 1u << life) {
            session_lease(core, session, life, session->cursor, end);
        } else if (is_last) {
            session_lease(core, session, life, 0, end);
        }
    }
}

/* Blocks [cursor, end): all computed and committed. */
static struct transfer_command *post(struct engine_core *core,
                                     struct item *item, uint32_t end,
                                     bool is_last, uint64_t now_ns)
{
    struct session *session = item->session;
    CHECK(session_is_live(item));
    CHECK(session->cursor < end);
    lease_slice(core, session, end, is_last);
    struct transfer_command *slice = pending_slice(core, session);
    if (slice == NULL) {
        slice = new_slice(core, session);
    }
    session->cursor = end;
    session->slice_ends[slice->slice_index] = end;
    slice->end_block = end;
    slice->deadline_ns = slices_deadline(core, item, now_ns);
    return slice;
}

/* Of a very long prompt a slice is several blocks: their number is bounded. */
static uint32_t least_blocks(const struct session *session)
{
    uint32_t slices = SLICE_COUNT_MAX - 1;
    return (session->block_count + slices - 1) / slices;
}

void slices_after_chunk(struct engine_core *core, struct item *item,
                        uint64_t now_ns)
{
    if (!item_streams(item) || item->session->streaming_lives == 0) {
        return;
    }
    uint32_t end = item->computed / core->options.tokens_per_block;
    if (end >= item->session->cursor + least_blocks(item->session)) {
        post(core, item, end, false, now_ns);
    }
}

void slices_send_last(struct engine_core *core, struct item *item,
                      struct transfer_aux *aux, uint64_t now_ns)
{
    struct transfer_command *slice =
        post(core, item, item->session->block_count, true, now_ns);
    slice->is_last = true;
    slice->aux = aux;
}

/* ---- the head of a turn ---- */

/* Proof that nobody reads these pages any more ends their lease, whatever else
 * is still under way. */
static void unlease_drained(struct engine_core *core, struct session *session)
{
    uint32_t done = session->unleased_count;
    uint32_t first = done == 0 ? 0 : session->slice_ends[done - 1];
    uint32_t end = session->slice_ends[session->drained_count - 1];
    for (uint32_t life = 0; life < core->options.life_count; life++) {
        if (session->streaming_lives & 1u << life) {
            session_unlease(core, session, life, first, end);
        }
    }
    session->unleased_count = session->drained_count;
}

static void promote(struct engine_core *core, struct item *item)
{
    if (session_is_live(item) && item->session->is_awaited) {
        item->state = ITEM_WAITING;
        units_join_waits(core, item);
    }
}

void slices_turn(struct engine_core *core, uint64_t now_ns)
{
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        struct session *session = &core->sessions[i];
        if (session->item != NULL && session->ticket != 0 &&
            session->drained_count > session->unleased_count) {
            unlease_drained(core, session);
        }
    }
    if (!core->has_seen_streams) {
        return;
    }
    offers_turn(core, now_ns);
    for (struct item *item = core->oldest; item != NULL; item = item->younger) {
        if (item->state == ITEM_CONTEXT_WAIT) {
            promote(core, item);
        }
    }
}
