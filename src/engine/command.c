#include "base/check.h"
#include "engine/core.h"
#include "engine/overlap.h"
#include "engine/state.h"

static struct item *find(const struct engine_core *core, uint64_t id)
{
    struct item *item = core->oldest;
    while (item != NULL && (item->id != id || item_is_answered(item))) {
        item = item->younger;
    }
    return item;
}

/* Every request of this rid, whichever half it is and wherever it stands. */
static void abort_rid(struct engine_core *core, uint64_t now_ns,
                      const struct engine_command *command)
{
    bool is_found = false;
    struct item *item = core->oldest;
    while (item != NULL) {
        struct item *next = item->younger;
        if (item->kind != ENGINE_AGGREGATED && item->rid == command->rid) {
            is_found = true;
            if (item_is_answered(item)) {
                item_let_go(core, item, AGREE_CANCEL, AGREE_REASON_ABORTED);
            } else {
                item_cancel(core, item, AGREE_REASON_ABORTED, now_ns);
            }
        }
        item = next;
    }
    struct item asked = {.id = command->id};
    item_event(core, &asked, ENGINE_EVENT_ABORTED)->found = is_found;
}

void engine_core_command(struct engine_core *core, uint64_t now_ns,
                         const struct engine_command *command)
{
    CHECK(core->batch_count < overlap_depth(core));
    struct item *item = find(core, command->id);
    switch (command->kind) {
    case ENGINE_SUBMIT:
        admit_submit(core, now_ns, command->request);
        return;
    case ENGINE_CANCEL:
        if (item != NULL) {
            item_cancel(core, item,
                        command->is_shutdown ? AGREE_REASON_SHUTDOWN
                                             : AGREE_REASON_CALLER_LEFT,
                        now_ns);
        }
        return;
    case ENGINE_CANCEL_CHOICE:
        if (item != NULL) {
            item_cancel_choice(core, item, command->choice, now_ns);
        }
        return;
    case ENGINE_ABORT_RID:
        abort_rid(core, now_ns, command);
        return;
    case ENGINE_CACHE_EVENTS:
        cache_events_answer(core, now_ns, command);
        return;
    case ENGINE_DRAIN:
        core->is_draining = true;
        return;
    case ENGINE_STOP:
        core->is_stopping = true;
        return;
    }
    CHECK_UNREACHABLE();
}
