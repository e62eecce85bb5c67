#include "transfer/bounce_turns.h"

#include "base/check.h"
#include "base/mem.h"

void bounce_turns_init(struct bounce_turns *turns, uint32_t count)
{
    *turns = (struct bounce_turns){
        .count = count,
        .drain = BOUNCE_NOBODY,
        .turns = mem_new_array(count, sizeof(turns->turns[0])),
    };
}

void bounce_turns_finish(struct bounce_turns *turns)
{
    mem_free(turns->turns);
    *turns = (struct bounce_turns){0};
}

uint32_t bounce_turns_at(const struct bounce_turns *turns, uint32_t i)
{
    if (turns->drain != BOUNCE_NOBODY) {
        return i == 0 ? turns->drain : BOUNCE_NOBODY;
    }
    return i < turns->count ? (turns->next + i) % turns->count : BOUNCE_NOBODY;
}

void bounce_turns_pass(struct bounce_turns *turns, uint32_t flow)
{
    turns->turns[flow].is_waiting = true;
}

static void count_bypass(struct bounce_turns *turns, uint32_t flow,
                         uint32_t limit)
{
    struct bounce_turn *turn = &turns->turns[flow];
    if (!turn->is_waiting) {
        return;
    }
    turn->bypass_count++;
    bool is_longest =
        turns->drain == BOUNCE_NOBODY ||
        turn->bypass_count > turns->turns[turns->drain].bypass_count;
    if (turn->bypass_count >= limit && is_longest) {
        turns->drain = flow;
    }
}

void bounce_turns_serve(struct bounce_turns *turns, uint32_t flow,
                        uint32_t flow_count)
{
    CHECK(flow < turns->count);
    bounce_turns_forget(turns, flow);
    turns->next = (flow + 1) % turns->count;
    uint32_t limit =
        2 * flow_count > BOUNCE_BYPASS_MIN ? 2 * flow_count : BOUNCE_BYPASS_MIN;
    for (uint32_t i = 0; i < turns->count; i++) {
        count_bypass(turns, i, limit);
    }
}

void bounce_turns_forget(struct bounce_turns *turns, uint32_t flow)
{
    turns->turns[flow] = (struct bounce_turn){0};
    if (turns->drain == flow) {
        turns->drain = BOUNCE_NOBODY;
    }
}

bool bounce_turns_has_waiting(const struct bounce_turns *turns)
{
    bool has = false;
    for (uint32_t i = 0; i < turns->count; i++) {
        has |= turns->turns[i].is_waiting;
    }
    return has;
}
