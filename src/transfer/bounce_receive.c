#include "transfer/bounce_receive_part.h"

#include "base/check.h"
#include "base/mem.h"

bool bounce_key_is(const struct bounce_key *a, const struct bounce_key *b)
{
    return a->sender == b->sender && a->rid == b->rid &&
           a->attempt == b->attempt;
}

void bounce_receive_init(struct bounce_receive *role,
                         const struct bounce_receive_options *options)
{
    *role = (struct bounce_receive){
        .options = *options,
        .flows = mem_new_array(options->flow_max, sizeof(role->flows[0])),
    };
    bounce_turns_init(&role->turns, options->flow_max);
}

void bounce_receive_abandon(struct bounce_receive *role)
{
    for (uint32_t i = 0; i < role->options.flow_max; i++) {
        role->flows[i].is_used = false;
        bounce_turns_forget(&role->turns, i);
    }
    role->flow_count = 0;
    role->is_scattering = false;
}

void bounce_receive_finish(struct bounce_receive *role)
{
    for (uint32_t i = 0; i < role->options.flow_max; i++) {
        CHECK(!role->flows[i].is_used);
    }
    bounce_turns_finish(&role->turns);
    mem_free(role->flows);
    *role = (struct bounce_receive){0};
}

struct bounce_receive_action *bounce_receive_act(
    struct bounce_receive_actions *actions,
    enum bounce_receive_action_kind kind, uint32_t flow, uint32_t slot)
{
    CHECK(actions->count < BOUNCE_RECEIVE_ACTION_COUNT_MAX);
    struct bounce_receive_action *action = &actions->items[actions->count++];
    *action = (struct bounce_receive_action){
        .kind = kind, .flow = flow, .slot = slot};
    return action;
}

static void revoke(struct bounce_receive_actions *actions, uint32_t flow,
                   uint32_t slot, const struct bounce_in_chunk *chunk)
{
    bounce_receive_act(actions, BOUNCE_REVOKE, flow, slot)->handle =
        chunk->handle;
}

uint32_t bounce_receive_find(const struct bounce_receive *role,
                             const struct bounce_key *key, uint32_t first)
{
    for (uint32_t i = first; i < role->options.flow_max; i++) {
        if (role->flows[i].is_used && bounce_key_is(&role->flows[i].key, key)) {
            return i;
        }
    }
    return BOUNCE_NOBODY;
}

/* The one of that write, closed or not. */
static uint32_t find_write(const struct bounce_receive *role,
                           const struct bounce_key *key, uint32_t write)
{
    uint32_t flow = bounce_receive_find(role, key, 0);
    while (flow != BOUNCE_NOBODY && role->flows[flow].write != write) {
        flow = bounce_receive_find(role, key, flow + 1);
    }
    return flow;
}

static uint32_t count_slots(const struct bounce_in_flow *flow, uint8_t state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < BOUNCE_WINDOW; i++) {
        count += flow->chunks[i].state == state;
    }
    return count;
}

/* -------- ending -------- */

static void give(struct bounce_receive *role, struct bounce_in_chunk *chunk)
{
    transfer_arena_give(role->options.arena, chunk->offset);
    chunk->state = BOUNCE_IN_NONE;
}

static void close_flow(struct bounce_receive *role, uint32_t index)
{
    struct bounce_in_flow *flow = &role->flows[index];
    if (!flow->is_closed) {
        flow->is_closed = true;
        role->flow_count--;
        bounce_turns_forget(&role->turns, index);
    }
}

/* One chunk of a flow that ends. `is_drained`: the sender writes it no more. */
static void drop_chunk(struct bounce_receive *role, uint32_t index,
                       uint32_t slot, bool is_drained,
                       struct bounce_receive_actions *actions)
{
    struct bounce_in_flow *flow = &role->flows[index];
    struct bounce_in_chunk *chunk = &flow->chunks[slot];
    switch (chunk->state) {
    case BOUNCE_IN_WANTED:
        chunk->state = BOUNCE_IN_NONE;
        break;
    case BOUNCE_IN_GRANTED:
        revoke(actions, index, slot, chunk);
        if (is_drained || flow->is_revocable) {
            give(role, chunk);
        } else {
            transfer_arena_quarantine(role->options.arena, chunk->offset);
            chunk->state = BOUNCE_IN_QUARANTINED;
        }
        break;
    case BOUNCE_IN_ARRIVED:
        give(role, chunk);
        break;
    case BOUNCE_IN_SCATTERING:
        chunk->state = BOUNCE_IN_ORPHAN;
        break;
    case BOUNCE_IN_QUARANTINED:
        if (is_drained) {
            transfer_arena_release(role->options.arena, chunk->offset);
            chunk->state = BOUNCE_IN_NONE;
        }
        break;
    default:
        break;
    }
}

static void drop_flow(struct bounce_receive *role, uint32_t index,
                      bool is_drained, struct bounce_receive_actions *actions)
{
    for (uint32_t slot = 0; slot < BOUNCE_WINDOW; slot++) {
        drop_chunk(role, index, slot, is_drained, actions);
    }
    close_flow(role, index);
}

/* Nothing of it is left to be cleaned up. */
static void free_if_over(struct bounce_receive *role, uint32_t index)
{
    struct bounce_in_flow *flow = &role->flows[index];
    if (flow->done_count == flow->chunk_count) {
        close_flow(role, index);
    }
    if (flow->is_closed && count_slots(flow, BOUNCE_IN_NONE) == BOUNCE_WINDOW) {
        flow->is_used = false;
    }
}

/* -------- what the peer says -------- */

/* A write begins with its first chunk; one at a time of a session. */
static uint32_t open_flow(struct bounce_receive *role,
                          const struct bounce_receive_event *event,
                          struct bounce_receive_actions *actions)
{
    uint32_t other = bounce_receive_find(role, &event->key, 0);
    while (other != BOUNCE_NOBODY && role->flows[other].is_closed) {
        other = bounce_receive_find(role, &event->key, other + 1);
    }
    uint32_t index = 0;
    while (index < role->options.flow_max && role->flows[index].is_used) {
        index++;
    }
    actions->is_odd = other != BOUNCE_NOBODY;
    /* One that began before we closed it goes on at the sender for a while. */
    if (event->first != 0 || actions->is_odd ||
        index == role->options.flow_max) {
        return BOUNCE_NOBODY;
    }
    role->flows[index] = (struct bounce_in_flow){
        .is_used = true,
        .is_revocable = event->is_revocable,
        .key = event->key,
        .write = event->write,
        .chunk_count = event->chunk_count,
    };
    role->flow_count++;
    return index;
}

static bool are_sizes_right(const struct bounce_receive *role,
                            const struct bounce_receive_event *event)
{
    bool are_right = true;
    for (uint32_t i = 0; i < event->count; i++) {
        are_right &=
            event->sizes[i] > 0 && event->sizes[i] <= role->options.chunk_max;
    }
    return are_right;
}

static void add_wanted(struct bounce_in_flow *flow,
                       const struct bounce_receive_event *event)
{
    for (uint32_t i = 0; i < event->count; i++) {
        uint32_t slot = 0;
        while (flow->chunks[slot].state != BOUNCE_IN_NONE) {
            slot++;
        }
        flow->chunks[slot] = (struct bounce_in_chunk){
            .state = BOUNCE_IN_WANTED,
            .index = event->first + i,
            .size = event->sizes[i],
        };
    }
    flow->wanted_count += event->count;
    flow->moved_ns = event->now;
}

static void on_want(struct bounce_receive *role,
                    const struct bounce_receive_event *event,
                    struct bounce_receive_actions *actions)
{
    uint32_t index = find_write(role, &event->key, event->write);
    if (event->chunk_count == 0) {
        if (index != BOUNCE_NOBODY) {
            drop_flow(role, index, true, actions);
            free_if_over(role, index);
        }
        return;
    }
    if (!are_sizes_right(role, event)) {
        actions->is_odd = true;
        return;
    }
    if (index == BOUNCE_NOBODY) {
        index = open_flow(role, event, actions);
    }
    if (index == BOUNCE_NOBODY || role->flows[index].is_closed) {
        return;
    }
    struct bounce_in_flow *flow = &role->flows[index];
    actions->is_odd = event->chunk_count != flow->chunk_count ||
                      event->first != flow->wanted_count ||
                      event->count > flow->chunk_count - flow->wanted_count ||
                      event->count > count_slots(flow, BOUNCE_IN_NONE);
    if (!actions->is_odd) {
        add_wanted(flow, event);
    }
    CHECK(flow->wanted_count > 0 || actions->is_odd);
    if (flow->wanted_count == 0) {
        close_flow(role, index); /* it was opened for nothing */
        free_if_over(role, index);
    }
}

static uint32_t find_handle(const struct bounce_in_flow *flow, uint32_t chunk,
                            uint64_t handle)
{
    uint32_t slot = 0;
    while (slot < BOUNCE_WINDOW &&
           ((flow->chunks[slot].state != BOUNCE_IN_GRANTED &&
             flow->chunks[slot].state != BOUNCE_IN_QUARANTINED) ||
            flow->chunks[slot].handle != handle ||
            flow->chunks[slot].index != chunk)) {
        slot++;
    }
    return slot;
}

static void on_data(struct bounce_receive *role,
                    const struct bounce_receive_event *event,
                    struct bounce_receive_actions *actions)
{
    uint32_t index = find_write(role, &event->key, event->write);
    if (index == BOUNCE_NOBODY) {
        return;
    }
    struct bounce_in_flow *flow = &role->flows[index];
    uint32_t slot = find_handle(flow, event->chunk, event->handle);
    if (slot == BOUNCE_WINDOW) {
        return;
    }
    if (flow->is_closed) {
        /* Its write is over: that is proof, and all it is good for. */
        drop_chunk(role, index, slot, true, actions);
        free_if_over(role, index);
        return;
    }
    revoke(actions, index, slot, &flow->chunks[slot]);
    flow->chunks[slot].state = BOUNCE_IN_ARRIVED;
    flow->moved_ns = event->now;
}

/* -------- what we did -------- */

static void on_refused(struct bounce_receive *role,
                       const struct bounce_receive_event *event)
{
    struct bounce_in_chunk *chunk =
        &role->flows[event->flow].chunks[event->slot];
    CHECK(chunk->state == BOUNCE_IN_GRANTED);
    give(role, chunk);
    chunk->state = BOUNCE_IN_WANTED;
    role->is_resting = true;
}

static void on_scattered(struct bounce_receive *role,
                         const struct bounce_receive_event *event,
                         struct bounce_receive_actions *actions)
{
    struct bounce_in_flow *flow = &role->flows[event->flow];
    struct bounce_in_chunk *chunk = &flow->chunks[event->slot];
    CHECK(role->is_scattering);
    CHECK(chunk->state == BOUNCE_IN_SCATTERING ||
          chunk->state == BOUNCE_IN_ORPHAN);
    role->is_scattering = false;
    bool is_orphan = chunk->state == BOUNCE_IN_ORPHAN;
    if (!is_orphan) {
        struct bounce_receive_action *ack =
            bounce_receive_act(actions, BOUNCE_ACK, event->flow, event->slot);
        ack->chunk = chunk->index;
        ack->handle = chunk->handle;
        flow->done_count++;
        flow->moved_ns = event->now;
    }
    give(role, chunk);
    free_if_over(role, event->flow);
}

static void on_time(struct bounce_receive *role,
                    const struct bounce_receive_event *event,
                    struct bounce_receive_actions *actions)
{
    struct bounce_in_flow *flow = &role->flows[event->flow];
    bool is_due = !flow->is_closed &&
                  count_slots(flow, BOUNCE_IN_GRANTED) > 0 &&
                  event->now - flow->moved_ns >= role->options.lease_ns;
    if (is_due) {
        bounce_receive_act(actions, BOUNCE_EXPIRED, event->flow, 0);
        drop_flow(role, event->flow, false, actions);
        free_if_over(role, event->flow);
    }
}

static void apply(struct bounce_receive *role,
                  const struct bounce_receive_event *event,
                  struct bounce_receive_actions *actions)
{
    bool is_known = event->flow < role->options.flow_max &&
                    role->flows[event->flow].is_used;
    switch (event->kind) {
    case BOUNCE_RECEIVE_TURN:
        role->is_resting = false;
        break;
    case BOUNCE_RECEIVE_WANT:
        on_want(role, event, actions);
        break;
    case BOUNCE_RECEIVE_REFUSED:
        on_refused(role, event);
        break;
    case BOUNCE_RECEIVE_DATA:
        on_data(role, event, actions);
        break;
    case BOUNCE_RECEIVE_SCATTERED:
        on_scattered(role, event, actions);
        break;
    case BOUNCE_RECEIVE_RECLAIM:
    case BOUNCE_RECEIVE_QUIET:
        if (is_known) {
            drop_flow(role, event->flow, event->kind == BOUNCE_RECEIVE_QUIET,
                      actions);
            free_if_over(role, event->flow);
        }
        break;
    case BOUNCE_RECEIVE_TIME:
        if (is_known) {
            on_time(role, event, actions);
        }
        break;
    }
}

void bounce_receive_step(struct bounce_receive *role,
                         const struct bounce_receive_event *event,
                         struct bounce_receive_actions *actions_out)
{
    actions_out->count = 0;
    actions_out->is_odd = false;
    apply(role, event, actions_out);
    bounce_receive_sweep(role, event, actions_out);
}

bool bounce_receive_is_valid(const struct bounce_receive *role)
{
    uint32_t flow_count = 0, scattering = 0;
    for (uint32_t i = 0; i < role->options.flow_max; i++) {
        const struct bounce_in_flow *flow = &role->flows[i];
        if (!flow->is_used) {
            continue;
        }
        flow_count += !flow->is_closed;
        scattering += count_slots(flow, BOUNCE_IN_SCATTERING) +
                      count_slots(flow, BOUNCE_IN_ORPHAN);
        uint32_t open = BOUNCE_WINDOW - count_slots(flow, BOUNCE_IN_NONE);
        bool is_right =
            flow->wanted_count <= flow->chunk_count &&
            (flow->is_closed || flow->done_count + open == flow->wanted_count);
        if (!is_right) {
            return false;
        }
    }
    return flow_count == role->flow_count && scattering == role->is_scattering;
}
