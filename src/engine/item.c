#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/state.h"

struct item *item_take(struct engine_core *core)
{
    struct item *item = core->free_items;
    if (item == NULL) {
        return NULL;
    }
    core->free_items = item->younger;
    *item = (struct item){.older = core->youngest};
    if (core->youngest == NULL) {
        core->oldest = item;
    } else {
        core->youngest->younger = item;
    }
    core->youngest = item;
    return item;
}

static void leave_list(struct engine_core *core, struct item *item)
{
    *(item->older == NULL ? &core->oldest : &item->older->younger) =
        item->younger;
    *(item->younger == NULL ? &core->youngest : &item->younger->older) =
        item->older;
}

void item_take_place(struct engine_core *core, struct item *item)
{
    struct item *older = item->older;
    while (older != NULL && older->unit.arrival > item->unit.arrival) {
        older = older->older;
    }
    if (older == item->older) {
        return;
    }
    leave_list(core, item);
    item->older = older;
    item->younger = older == NULL ? core->oldest : older->younger;
    *(older == NULL ? &core->oldest : &older->younger) = item;
    *(item->younger == NULL ? &core->youngest : &item->younger->older) = item;
}

void item_free(struct engine_core *core, struct item *item)
{
    CHECK(item->session == NULL);
    CHECK(item->seq == NULL);
    CHECK(item->lanes_held == 0);
    leave_list(core, item);
    prefix_wait_remove(core->waits, &item->prefix);
    overlap_forget_item(core, item);
    mem_free(item->keys);
    engine_request_free(item->request);
    *item = (struct item){.state = ITEM_FREE, .younger = core->free_items};
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
    uint32_t used = core->event_count + overlap_event_reserve(core);
    return core->event_max > used ? core->event_max - used : 0;
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
    bool decodes_here = item->kind != ENGINE_CONTEXT_ONLY;
    if (decodes_here && item->first_token_ns != 0) {
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
    event->place = item->unit.arrival;
    event->journey = journey_of(item, now_ns);
    item->open_choices = 0;
    core->stats.requests_failed++;
}

void item_say_sent(struct engine_core *core, struct item *item, uint64_t now_ns,
                   enum err error, const char *reason)
{
    struct engine_event *event = item_event(core, item, ENGINE_EVENT_SENT);
    event->error = error;
    snprintf(event->reason, sizeof(event->reason), "%.119s", reason);
    event->journey = journey_of(item, now_ns);
}

struct lane *lane_take(struct engine_core *core, struct item *item,
                       uint32_t choice)
{
    for (uint32_t i = 0; i < core->options.max_batch; i++) {
        struct lane *lane = &core->lanes[i];
        if (lane->item == NULL) {
            lane->item = item;
            lane->choice = choice;
            item->lanes[choice] = lane;
            return lane;
        }
    }
    CHECK_UNREACHABLE();
}

/* Ends the choice's sequence, and gives its lane back. */
void lane_free(struct engine_core *core, struct lane *lane)
{
    if (lane->seq != NULL) {
        kv_seq_close(core->cache, lane->seq);
    }
    overlap_forget_lane(core, lane);
    CHECK(lane->item->lanes_held > 0);
    lane->item->lanes[lane->choice] = NULL;
    lane->item->lanes_held--;
    core->lanes_free++;
    *lane = (struct lane){.history = lane->history, .keys = lane->keys};
}

static void free_lanes_of(struct engine_core *core, const struct item *item)
{
    for (uint32_t i = 0; i < ENGINE_CHOICE_COUNT_MAX; i++) {
        if (item->lanes[i] != NULL) {
            lane_free(core, item->lanes[i]);
        }
    }
}

void item_let_go(struct engine_core *core, struct item *item, uint8_t agree_bit,
                 uint8_t agree_reason)
{
    overlap_forget_item(core, item);
    switch (item->state) {
    case ITEM_CONTEXT_WAIT:
    case ITEM_WAITING:
        core->waiting_count--;
        break;
    case ITEM_PREFILL:
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
    prefix_wait_remove(core->waits, &item->prefix);
    if (item->seq != NULL) {
        kv_seq_close(core->cache, item->seq); /* leases keep their pages */
        item->seq = NULL;
    }
    if (session_is_live(item)) {
        session_cancel(core, item->session, agree_bit, agree_reason);
        item->state = ITEM_DRAINING;
        engine_request_free(item->request);
        item->request = NULL;
        return;
    }
    if (item->session != NULL) {
        session_free(core, item->session);
    }
    item_free(core, item);
}

void item_cancel(struct engine_core *core, struct item *item,
                 uint8_t agree_reason, uint64_t now_ns)
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
    item_let_go(core, item, AGREE_CANCEL, agree_reason);
}

void item_cancel_choice(struct engine_core *core, struct item *item,
                        uint32_t choice, uint64_t now_ns)
{
    uint32_t bit = choice < ENGINE_CHOICE_COUNT_MAX ? 1u << choice : 0;
    if ((item->open_choices & bit) == 0) {
        return;
    }
    /* First tokens of all choices leave together, or none do. */
    if (item->open_choices == bit || item_streams(item)) {
        item_cancel(core, item, AGREE_REASON_NOT_NEEDED, now_ns);
        return;
    }
    item_say_finished(core, item, choice, ENGINE_FINISH_CANCELLED, 0, now_ns);
    if (item->lanes[choice] != NULL) {
        lane_free(core, item->lanes[choice]);
    }
}

/* What a transfer that ends with the request is told. */
static uint8_t reason_of(enum err error)
{
    switch (error) {
    case ERR_TIMEOUT:
        return AGREE_REASON_DEADLINE;
    case ERR_CLOSED:
        return AGREE_REASON_SHUTDOWN;
    case ERR_FULL:
        return AGREE_REASON_REFUSED;
    default:
        return AGREE_REASON_INTERNAL;
    }
}

void item_fail(struct engine_core *core, struct item *item, uint64_t now_ns,
               enum err error, const char *reason)
{
    bool is_late = error == ERR_TIMEOUT;
    item_say_failed(core, item, now_ns, error, reason);
    item_let_go(core, item, is_late ? AGREE_DEADLINE : AGREE_CANCEL,
                reason_of(error));
}

void item_commit(struct engine_core *core, struct item *item, uint32_t position)
{
    bool is_last = position == item->request->prompt_count;
    bool has_tail = position % core->options.tokens_per_block > 0;
    kv_seq_commit_to(core->cache, item->seq, position, item->keys,
                     item->request->prompt, is_last,
                     is_last && has_tail ? &item->tail_key : NULL);
}

/* Blocks that decoding fills get their keys one by one. */
void lane_commit(struct engine_core *core, struct lane *lane, uint32_t position)
{
    uint32_t block = core->options.tokens_per_block;
    while (lane->key_count < position / block) {
        uint32_t at = lane->key_count++;
        lane->keys[at] = prefix_key_next(
            &lane->item->scope, at == 0 ? NULL : &lane->keys[at - 1],
            lane->history + (size_t)at * block, block);
    }
    kv_seq_commit_to(core->cache, lane->seq, position, lane->keys,
                     lane->history, false, NULL);
}
