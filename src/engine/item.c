#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "engine/state.h"

struct item *item_take(struct engine_core *core)
{
    struct item *item = core->free_items;
    if (item == NULL) {
        return NULL;
    }
    core->free_items = item->wait_next;
    *item = (struct item){.older = core->youngest};
    if (core->youngest == NULL) {
        core->oldest = item;
    } else {
        core->youngest->younger = item;
    }
    core->youngest = item;
    return item;
}

void item_free(struct engine_core *core, struct item *item)
{
    CHECK(item->session == NULL);
    CHECK(item->seq == NULL);
    CHECK(item->lanes_held == 0);
    *(item->older == NULL ? &core->oldest : &item->older->younger) =
        item->younger;
    *(item->younger == NULL ? &core->youngest : &item->younger->older) =
        item->older;
    engine_request_free(item->request);
    *item = (struct item){.state = ITEM_FREE, .wait_next = core->free_items};
    core->free_items = item;
}

bool item_is_answered(const struct item *item)
{
    return item->open_choices == 0;
}

bool item_ends_with(const struct item *item, int32_t token)
{
    for (uint32_t i = 0; i < item->end_count; i++) {
        if (item->ends[i] == token) {
            return true;
        }
    }
    return false;
}

uint32_t item_room(const struct engine_core *core)
{
    return core->event_max - core->event_count;
}

struct engine_event *item_event(struct engine_core *core,
                                const struct item *item,
                                enum engine_event_kind kind)
{
    CHECK(core->event_count < core->event_max);
    struct engine_event *event = &core->events[core->event_count++];
    *event = (struct engine_event){.kind = kind, .id = item->id};
    return event;
}

static struct engine_journey journey_of(const struct item *item,
                                        uint64_t now_ns)
{
    struct engine_journey journey = item->journey;
    if (item->first_token_ns != 0) {
        journey.decode_ns = now_ns - item->first_token_ns;
    }
    return journey;
}

void item_say_finished(struct engine_core *core, struct item *item,
                       uint32_t choice, enum engine_finish finish,
                       int32_t token, uint64_t now_ns)
{
    CHECK(item->open_choices & 1u << choice);
    struct engine_event *event = item_event(core, item, ENGINE_EVENT_FINISHED);
    event->choice = choice;
    event->finish = finish;
    event->token = token;
    event->journey = journey_of(item, now_ns);
    item->open_choices &= ~(1u << choice);
    if (item->open_choices == 0 && finish != ENGINE_FINISH_CANCELLED) {
        core->stats.requests_finished++;
    }
}

void item_say_failed(struct engine_core *core, struct item *item,
                     uint64_t now_ns, enum err error, const char *reason)
{
    if (item_is_answered(item)) {
        return;
    }
    struct engine_event *event = item_event(core, item, ENGINE_EVENT_FAILED);
    event->error = error;
    snprintf(event->reason, sizeof(event->reason), "%.119s", reason);
    event->journey = journey_of(item, now_ns);
    item->open_choices = 0;
    core->stats.requests_failed++;
}

struct lane *lane_take(struct engine_core *core, struct item *item,
                       uint32_t choice)
{
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        struct lane *lane = &core->lanes[i];
        if (lane->item == NULL) {
            lane->item = item;
            lane->choice = choice;
            return lane;
        }
    }
    CHECK_UNREACHABLE();
}

/* Ends the choice's sequence, and gives its lane back. */
void lane_free(struct engine_core *core, struct lane *lane)
{
    kv_cache_close(core->cache, lane->seq);
    CHECK(lane->item->lanes_held > 0);
    lane->item->lanes_held--;
    core->lanes_free++;
    *lane = (struct lane){.history = lane->history};
}

static void leave_queue(struct engine_core *core, struct item *item)
{
    struct item *before = NULL;
    struct item *at = core->wait_head;
    while (at != item) {
        CHECK(at != NULL);
        before = at;
        at = at->wait_next;
    }
    *(before == NULL ? &core->wait_head : &before->wait_next) = item->wait_next;
    if (core->wait_tail == item) {
        core->wait_tail = before;
    }
    item->wait_next = NULL;
    core->waiting_count--;
}

void item_leave_prefills(struct engine_core *core, const struct item *item)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < core->prefill_count; i++) {
        if (core->prefills[i] != item) {
            core->prefills[kept++] = core->prefills[i];
        }
    }
    core->prefill_count = kept;
}

static void free_lanes_of(struct engine_core *core, const struct item *item)
{
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        if (core->lanes[i].item == item) {
            lane_free(core, &core->lanes[i]);
        }
    }
}

void item_let_go(struct engine_core *core, struct item *item, uint8_t agree_bit,
                 uint8_t agree_reason)
{
    switch (item->state) {
    case ITEM_WAITING:
        leave_queue(core, item);
        break;
    case ITEM_PREFILL:
        item_leave_prefills(core, item);
        break;
    case ITEM_DECODE:
        free_lanes_of(core, item);
        break;
    case ITEM_SENDING:
    case ITEM_DRAINING:
        session_cancel(core, item->session, agree_bit, agree_reason);
        item->state = ITEM_DRAINING;
        return;
    case ITEM_RECEIVING:
    case ITEM_RECEIVED:
        break;
    case ITEM_FREE:
        CHECK_UNREACHABLE();
    }
    core->lanes_free += item->lanes_held;
    item->lanes_held = 0;
    if (item->seq != NULL) {
        kv_cache_close(core->cache, item->seq); /* waits for leases */
    }
    if (item->session != NULL && item->session->ticket != 0) {
        session_cancel(core, item->session, agree_bit, agree_reason);
        item->state = ITEM_DRAINING;
        engine_request_free(item->request);
        item->request = NULL;
        return;
    }
    if (item->session != NULL) {
        session_free(core, item->session);
    }
    item->seq = NULL;
    item_free(core, item);
}

void item_cancel(struct engine_core *core, struct item *item, uint64_t now_ns)
{
    if (item_is_answered(item)) {
        return;
    }
    for (uint32_t i = 0; i < ENGINE_CHOICE_COUNT_MAX; i++) {
        if (item->open_choices & 1u << i) {
            item_say_finished(core, item, i, ENGINE_FINISH_CANCELLED, 0,
                              now_ns);
        }
    }
    core->stats.requests_cancelled++;
    item_let_go(core, item, AGREE_CANCEL, AGREE_REASON_USER_CANCEL);
}

void item_cancel_choice(struct engine_core *core, struct item *item,
                        uint32_t choice, uint64_t now_ns)
{
    uint32_t bit = choice < ENGINE_CHOICE_COUNT_MAX ? 1u << choice : 0;
    if ((item->open_choices & bit) == 0) {
        return;
    }
    if (item->open_choices == bit) {
        item_cancel(core, item, now_ns);
        return;
    }
    item_say_finished(core, item, choice, ENGINE_FINISH_CANCELLED, 0, now_ns);
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        struct lane *lane = &core->lanes[i];
        if (lane->item == item && lane->choice == choice) {
            lane_free(core, lane);
        }
    }
}

void item_fail(struct engine_core *core, struct item *item, uint64_t now_ns,
               enum err error, const char *reason)
{
    bool is_late = error == ERR_TIMEOUT;
    item_say_failed(core, item, now_ns, error, reason);
    item_let_go(core, item, is_late ? AGREE_DEADLINE : AGREE_CANCEL,
                is_late ? AGREE_REASON_DEADLINE : AGREE_REASON_USER_CANCEL);
}

void item_commit(struct engine_core *core, const struct item *item,
                 struct kv_seq *seq, const int32_t *tokens)
{
    uint32_t block = core->options.tokens_per_block;
    while (kv_cache_wants_key(core->cache, seq)) {
        struct prefix_key key = prefix_key_next(
            &item->scope, seq->committed == 0 ? NULL : &seq->key,
            tokens + (size_t)seq->committed * block, block);
        kv_cache_commit(core->cache, seq, &key);
    }
}
