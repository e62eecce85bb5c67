/* What follows from the state of bounce_receive after each event: whose chunk is
 * scattered next, and who gets a grant. */
#include "base/check.h"
#include "transfer/bounce_receive_part.h"

/* The first chunk that waits for a grant, or BOUNCE_WINDOW. */
static uint32_t find_head(const struct bounce_in_flow *flow)
{
    uint32_t head = BOUNCE_WINDOW;
    for (uint32_t i = 0; i < BOUNCE_WINDOW; i++) {
        const struct bounce_in_chunk *chunk = &flow->chunks[i];
        if (chunk->state == BOUNCE_IN_WANTED &&
            (head == BOUNCE_WINDOW ||
             chunk->index < flow->chunks[head].index)) {
            head = i;
        }
    }
    return head;
}

static enum err take_room(struct bounce_receive *role, uint32_t size,
                          bool is_lower_closed, uint64_t *offset_out)
{
    struct transfer_arena *arena = role->options.arena;
    enum err err =
        transfer_arena_take(arena, TRANSFER_ARENA_UPPER, size, offset_out);
    if (err == ERR_FULL && !is_lower_closed) {
        err =
            transfer_arena_take(arena, TRANSFER_ARENA_LOWER, size, offset_out);
    }
    return err;
}

static void grant(struct bounce_receive *role, uint32_t index, uint32_t slot,
                  uint64_t offset, uint64_t now,
                  struct bounce_receive_actions *actions)
{
    struct bounce_in_flow *flow = &role->flows[index];
    struct bounce_in_chunk *chunk = &flow->chunks[slot];
    chunk->state = BOUNCE_IN_GRANTED;
    chunk->offset = offset;
    chunk->handle = ++role->handle;
    flow->moved_ns = now;
    bounce_turns_serve(&role->turns, index, role->flow_count);
    bounce_receive_act(actions, BOUNCE_GRANT, index, slot);
}

static void grant_next(struct bounce_receive *role,
                       const struct bounce_receive_event *event,
                       struct bounce_receive_actions *actions)
{
    for (uint32_t i = 0; !role->is_resting; i++) {
        uint32_t index = bounce_turns_at(&role->turns, i);
        if (index == BOUNCE_NOBODY) {
            return;
        }
        const struct bounce_in_flow *flow = &role->flows[index];
        uint32_t slot =
            flow->is_used && !flow->is_closed ? find_head(flow) : BOUNCE_WINDOW;
        if (slot == BOUNCE_WINDOW) {
            continue;
        }
        uint64_t offset;
        enum err err = take_room(role, flow->chunks[slot].size,
                                 event->is_lower_closed, &offset);
        CHECK(err != ERR_INVALID);
        if (!err) {
            grant(role, index, slot, offset, event->now, actions);
            return;
        }
        bounce_turns_pass(&role->turns, index);
    }
}

/* The next chunk that arrived; flows take turns. */
static void scatter_next(struct bounce_receive *role,
                         struct bounce_receive_actions *actions)
{
    uint32_t flow_max = role->options.flow_max;
    for (uint32_t i = 0; i < flow_max && !role->is_scattering; i++) {
        uint32_t index = (role->scatter_next + i) % flow_max;
        struct bounce_in_flow *flow = &role->flows[index];
        for (uint32_t slot = 0;
             flow->is_used && !role->is_scattering && slot < BOUNCE_WINDOW;
             slot++) {
            if (flow->chunks[slot].state == BOUNCE_IN_ARRIVED) {
                flow->chunks[slot].state = BOUNCE_IN_SCATTERING;
                role->is_scattering = true;
                role->scatter_next = (index + 1) % flow_max;
                bounce_receive_act(actions, BOUNCE_SCATTER, index, slot);
            }
        }
    }
}

void bounce_receive_sweep(struct bounce_receive *role,
                          const struct bounce_receive_event *event,
                          struct bounce_receive_actions *actions)
{
    scatter_next(role, actions);
    grant_next(role, event, actions);
}
