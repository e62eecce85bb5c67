#include "transfer/bounce_send.h"

#include "base/check.h"
#include "base/mem.h"

void bounce_send_init(struct bounce_send *role,
                      const struct bounce_send_options *options)
{
    *role = (struct bounce_send){
        .options = *options,
        .flows = mem_new_array(options->flow_max, sizeof(role->flows[0])),
    };
    bounce_turns_init(&role->turns, options->flow_max);
}

void bounce_send_abandon(struct bounce_send *role)
{
    for (uint32_t i = 0; i < role->options.flow_max; i++) {
        role->flows[i].is_used = false;
        bounce_turns_forget(&role->turns, i);
    }
    role->flow_count = 0;
    role->is_gathering = false;
}

void bounce_send_finish(struct bounce_send *role)
{
    CHECK(role->flow_count == 0);
    bounce_turns_finish(&role->turns);
    mem_free(role->flows);
    *role = (struct bounce_send){0};
}

static struct bounce_send_action *act(struct bounce_send_actions *actions,
                                      enum bounce_send_action_kind kind,
                                      uint32_t flow, uint32_t slot)
{
    CHECK(actions->count < BOUNCE_SEND_ACTION_COUNT_MAX);
    struct bounce_send_action *action = &actions->items[actions->count++];
    *action = (struct bounce_send_action){kind, flow, slot, BOUNCE_DONE};
    return action;
}

enum err bounce_send_open(struct bounce_send *role, const uint32_t *sizes,
                          uint32_t chunk_count, uint64_t now,
                          uint32_t *flow_out)
{
    CHECK(chunk_count > 0);
    uint32_t flow = 0;
    while (flow < role->options.flow_max && role->flows[flow].is_used) {
        flow++;
    }
    if (flow == role->options.flow_max) {
        return ERR_FULL;
    }
    role->flows[flow] = (struct bounce_out_flow){
        .is_used = true,
        .sizes = sizes,
        .chunk_count = chunk_count,
        .opened_ns = now,
        .moved_ns = now,
    };
    role->flow_count++;
    *flow_out = flow;
    return OK;
}

static uint32_t find_slot(const struct bounce_out_flow *flow, uint8_t state,
                          uint32_t index)
{
    uint32_t slot = 0;
    while (slot < BOUNCE_WINDOW && (flow->chunks[slot].state != state ||
                                    flow->chunks[slot].index != index)) {
        slot++;
    }
    return slot;
}

static uint32_t count_slots(const struct bounce_out_flow *flow, uint8_t state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BOUNCE_WINDOW; i++) {
        count += flow->chunks[i].state == state;
    }
    return count;
}

/* -------- what happened -------- */

static void drop_staging(struct bounce_send *role,
                         struct bounce_out_chunk *chunk)
{
    transfer_arena_give(role->options.arena, chunk->staging);
    chunk->state = BOUNCE_OUT_NONE;
}

static void on_gathered(struct bounce_send *role,
                        const struct bounce_send_event *event,
                        struct bounce_send_actions *actions)
{
    struct bounce_out_flow *flow = &role->flows[event->flow];
    struct bounce_out_chunk *chunk = &flow->chunks[event->slot];
    CHECK(role->is_gathering);
    CHECK(chunk->state == BOUNCE_OUT_GATHERING);
    role->is_gathering = false;
    if (flow->is_stopping) {
        drop_staging(role, chunk);
        return;
    }
    chunk->state = BOUNCE_OUT_GATHERED;
    flow->moved_ns = event->now;
    act(actions, BOUNCE_WANT, event->flow, event->slot);
}

static void on_grant(struct bounce_out_flow *flow,
                     const struct bounce_send_event *event,
                     struct bounce_send_actions *actions)
{
    uint32_t slot = find_slot(flow, BOUNCE_OUT_GATHERED, event->chunk);
    if (slot == BOUNCE_WINDOW || flow->is_stopping ||
        event->size < flow->chunks[slot].size) {
        return;
    }
    struct bounce_out_chunk *chunk = &flow->chunks[slot];
    chunk->state = BOUNCE_OUT_WRITING;
    chunk->target = event->target;
    chunk->handle = event->handle;
    flow->is_served = true;
    flow->moved_ns = event->now;
    act(actions, BOUNCE_WRITE, event->flow, slot);
}

static void on_written(struct bounce_send *role,
                       const struct bounce_send_event *event,
                       struct bounce_send_actions *actions)
{
    struct bounce_out_flow *flow = &role->flows[event->flow];
    struct bounce_out_chunk *chunk = &flow->chunks[event->slot];
    CHECK(chunk->state == BOUNCE_OUT_WRITING);
    if (event->outcome == TRANSFER_IN_DOUBT) {
        transfer_arena_quarantine(role->options.arena, chunk->staging);
        chunk->state = BOUNCE_OUT_NONE;
        flow->is_in_doubt = true;
    } else {
        drop_staging(role, chunk);
    }
    bool is_done = event->outcome == TRANSFER_DONE;
    flow->is_stopping |= !is_done;
    if (!flow->is_stopping) {
        chunk->state = BOUNCE_OUT_SENT;
        flow->moved_ns = event->now;
        act(actions, BOUNCE_DATA, event->flow, event->slot);
    }
}

static void on_ack(struct bounce_out_flow *flow,
                   const struct bounce_send_event *event)
{
    uint32_t slot = find_slot(flow, BOUNCE_OUT_SENT, event->chunk);
    if (slot == BOUNCE_WINDOW || flow->chunks[slot].handle != event->handle) {
        return;
    }
    flow->chunks[slot].state = BOUNCE_OUT_NONE;
    flow->done_count++;
    flow->moved_ns = event->now;
}

static void on_time(const struct bounce_send *role,
                    struct bounce_out_flow *flow, uint64_t now)
{
    const struct bounce_send_options *options = &role->options;
    bool is_silent = now - flow->moved_ns >= options->silence_ns;
    bool is_unserved = options->patience_ns != 0 && !flow->is_served &&
                       now - flow->opened_ns >= options->patience_ns;
    if ((is_silent || is_unserved) && !flow->is_stopping) {
        flow->is_stopping = flow->is_late = true;
    }
}

static void apply(struct bounce_send *role,
                  const struct bounce_send_event *event,
                  struct bounce_send_actions *actions)
{
    struct bounce_out_flow *flow = &role->flows[event->flow];
    switch (event->kind) {
    case BOUNCE_SEND_TURN:
        break;
    case BOUNCE_SEND_GATHERED:
        on_gathered(role, event, actions);
        break;
    case BOUNCE_SEND_GRANT:
        on_grant(flow, event, actions);
        break;
    case BOUNCE_SEND_WRITTEN:
        on_written(role, event, actions);
        break;
    case BOUNCE_SEND_ACK:
        on_ack(flow, event);
        break;
    case BOUNCE_SEND_STOP:
        flow->is_stopping = true;
        break;
    case BOUNCE_SEND_TIME:
        on_time(role, flow, event->now);
        break;
    }
}

/* -------- what follows -------- */

static enum bounce_outcome outcome_of(const struct bounce_out_flow *flow)
{
    if (flow->done_count == flow->chunk_count) {
        return BOUNCE_DONE;
    }
    if (flow->is_in_doubt) {
        return BOUNCE_IN_DOUBT;
    }
    return flow->is_late && !flow->is_served ? BOUNCE_UNSERVED : BOUNCE_STOPPED;
}

static void end(struct bounce_send *role, uint32_t index,
                struct bounce_send_actions *actions)
{
    struct bounce_out_flow *flow = &role->flows[index];
    for (uint32_t i = 0; i < BOUNCE_WINDOW; i++) {
        if (flow->chunks[i].state == BOUNCE_OUT_GATHERED) {
            drop_staging(role, &flow->chunks[i]);
        }
    }
    bool is_done = flow->done_count == flow->chunk_count;
    if (!is_done && flow->next > 0) {
        act(actions, BOUNCE_CANCEL, index, 0);
    }
    bounce_turns_forget(&role->turns, index);
    flow->is_used = false;
    role->flow_count--;
    act(actions, BOUNCE_END, index, 0)->outcome = outcome_of(flow);
}

/* Nobody reads our pages or its staging. */
static bool is_over(const struct bounce_out_flow *flow)
{
    bool is_done = flow->done_count == flow->chunk_count;
    return is_done ||
           (flow->is_stopping && count_slots(flow, BOUNCE_OUT_GATHERING) == 0 &&
            count_slots(flow, BOUNCE_OUT_WRITING) == 0);
}

static bool wants_room(const struct bounce_out_flow *flow)
{
    return flow->is_used && !flow->is_stopping &&
           flow->next < flow->chunk_count &&
           count_slots(flow, BOUNCE_OUT_NONE) > 0;
}

static void gather(struct bounce_send *role, uint32_t index, uint64_t staging,
                   struct bounce_send_actions *actions)
{
    struct bounce_out_flow *flow = &role->flows[index];
    uint32_t slot = 0;
    while (flow->chunks[slot].state != BOUNCE_OUT_NONE) {
        slot++;
    }
    flow->chunks[slot] = (struct bounce_out_chunk){
        .state = BOUNCE_OUT_GATHERING,
        .index = flow->next,
        .size = flow->sizes[flow->next],
        .staging = staging,
    };
    flow->next++;
    role->is_gathering = true;
    act(actions, BOUNCE_GATHER, index, slot);
}

static void gather_next(struct bounce_send *role,
                        struct bounce_send_actions *actions)
{
    for (uint32_t i = 0; !role->is_gathering; i++) {
        uint32_t index = bounce_turns_at(&role->turns, i);
        if (index == BOUNCE_NOBODY) {
            return;
        }
        const struct bounce_out_flow *flow = &role->flows[index];
        if (!wants_room(flow)) {
            continue;
        }
        uint64_t staging;
        enum err err =
            transfer_arena_take(role->options.arena, TRANSFER_ARENA_LOWER,
                                flow->sizes[flow->next], &staging);
        CHECK(err != ERR_INVALID);
        if (err) {
            bounce_turns_pass(&role->turns, index);
        } else {
            bounce_turns_serve(&role->turns, index, role->flow_count);
            gather(role, index, staging, actions);
        }
    }
}

void bounce_send_step(struct bounce_send *role,
                      const struct bounce_send_event *event,
                      struct bounce_send_actions *actions_out)
{
    actions_out->count = 0;
    CHECK(event->flow < role->options.flow_max);
    struct bounce_out_flow *flow = &role->flows[event->flow];
    if (flow->is_used) {
        apply(role, event, actions_out);
        if (flow->is_stopping) {
            bounce_turns_forget(&role->turns, event->flow);
        }
        if (is_over(flow)) {
            end(role, event->flow, actions_out);
        }
    }
    gather_next(role, actions_out);
}

bool bounce_send_is_hungry(const struct bounce_send *role)
{
    return bounce_turns_has_waiting(&role->turns);
}

bool bounce_send_is_valid(const struct bounce_send *role)
{
    uint32_t flow_count = 0, gathering = 0;
    for (uint32_t i = 0; i < role->options.flow_max; i++) {
        const struct bounce_out_flow *flow = &role->flows[i];
        if (!flow->is_used) {
            continue;
        }
        flow_count++;
        gathering += count_slots(flow, BOUNCE_OUT_GATHERING);
        uint32_t open = BOUNCE_WINDOW - count_slots(flow, BOUNCE_OUT_NONE);
        bool is_right =
            flow->next <= flow->chunk_count &&
            (flow->is_stopping || flow->done_count + open == flow->next);
        if (!is_right) {
            return false;
        }
    }
    return flow_count == role->flow_count && gathering == role->is_gathering;
}
