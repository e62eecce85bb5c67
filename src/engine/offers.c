/* engine/offers: which prompts may say that their KV is to be had (transfer.md
 * 2.4; generation-first).
 *
 *   CONTEXT_WAIT --OFFER--> offered --is awaited--> WAITING (slices.c)
 *        ^                     |
 *        +-----WITHDRAW--------+   others want a session, nobody has asked
 *
 * An offer holds a session and nothing else until its receiver has pages. That
 * receiver may hold what it has for a prompt that finds no session here, so no
 * offer keeps one while others wait: they go round, those offered least first,
 * until one is found that is awaited. */
#include "engine/state.h"

/* A receiver that has pages is found within a turn of the transfer loop. */
static const uint64_t OFFER_TURN_NS = 20000000;

static uint32_t count_streams(const struct engine_core *core)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        const struct item *item = core->sessions[i].item;
        count += item != NULL && item->kind == ENGINE_CONTEXT_ONLY;
    }
    return count;
}

/* On a worker that receives too some sessions are left to that. */
static uint32_t share(const struct engine_core *core)
{
    uint32_t all = core->options.session_max;
    uint32_t kept = all / 4 == 0 ? 1 : all / 4;
    kept = core->has_seen_generation ? kept : 0;
    return all > kept ? all - kept : 1;
}

/* False: no session is left. */
static bool offer(struct engine_core *core, struct item *item, uint64_t now_ns)
{
    if (count_streams(core) >= share(core) ||
        session_reserve(core, item) == NULL) {
        return false;
    }
    session_begin(core, item, now_ns);
    struct transfer_command *order =
        session_order(core, item->session, TRANSFER_OFFER);
    order->deadline_ns = slices_deadline(core, item, now_ns);
    order->group_count = core->options.life_count;
    order->block_count = item->session->block_count;
    order->prompt_tokens = item->request->prompt_count;
    item->offer_count++;
    return true;
}

/* The oldest of those offered least often. */
static struct item *next_to_offer(const struct engine_core *core)
{
    struct item *next = NULL;
    for (struct item *item = core->oldest; item != NULL; item = item->younger) {
        if (item->state == ITEM_CONTEXT_WAIT && item->session == NULL &&
            (next == NULL || item->offer_count < next->offer_count)) {
            next = item;
        }
    }
    return next;
}

/* What comes too late finds the session awaited and has no effect. */
static void withdraw_if_due(struct engine_core *core, struct session *session,
                            uint64_t now_ns)
{
    uint64_t due_ns = session->started_ns + OFFER_TURN_NS;
    if (now_ns >= due_ns) {
        session->is_withdrawal_posted = true;
        session_order(core, session, TRANSFER_WITHDRAW);
    } else if (due_ns < core->wake_ns) {
        core->wake_ns = due_ns;
    }
}

static void make_turns(struct engine_core *core, uint64_t now_ns)
{
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        struct session *session = &core->sessions[i];
        if (session->item != NULL && session->ticket != 0 &&
            session->item->state == ITEM_CONTEXT_WAIT && !session->is_awaited &&
            !session->is_withdrawal_posted) {
            withdraw_if_due(core, session, now_ns);
        }
    }
}

void offers_turn(struct engine_core *core, uint64_t now_ns)
{
    struct item *item = NULL;
    while (!core->is_stopping && (item = next_to_offer(core)) != NULL &&
           offer(core, item, now_ns)) {
    }
    bool are_too_many = count_streams(core) > share(core);
    if (!core->is_stopping && (item != NULL || are_too_many)) {
        make_turns(core, now_ns);
    }
}
