#include "base/log.h"
#include "engine/state.h"

/* Of the time a transfer may take: a pull under way is through by then. */
enum { PATIENCE_SHARE = 20 };

/* A hand-off holds pages until its peer pulls it; the peer pulls once it has
 * pages, and may hold them for a hand-off to us. Rids order all requests of a
 * cluster: a receive makes younger hand-offs give way and waits for older ones.
 * Any ring of workers that wait for each other has a place where an older
 * request waits for a younger one, so none lasts. Receives are admitted in
 * order of arrival: the oldest of them lends its age to those before it. */
static int64_t oldest_receive(const struct engine_core *core)
{
    int64_t oldest = INT64_MAX;
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        bool is_receive =
            item->state == ITEM_WAITING && item->kind == ENGINE_GENERATION_ONLY;
        oldest = is_receive && item->rid < oldest ? item->rid : oldest;
    }
    return oldest;
}

static bool is_out_of_sessions(const struct engine_core *core)
{
    for (uint32_t i = 0; i < core->options.session_max; i++) {
        if (core->sessions[i].item == NULL) {
            return false;
        }
    }
    return true;
}

/* Will somebody give back what a receive lacks, without a peer that waits? */
static bool is_moving(const struct engine_core *core)
{
    bool needs_session = is_out_of_sessions(core);
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        bool is_busy =
            item->state == ITEM_PREFILL || item->state == ITEM_DECODE ||
            item->state == ITEM_RECEIVING || item->state == ITEM_RECEIVED;
        if (is_busy && (!needs_session || item->session != NULL)) {
            return true;
        }
    }
    return false;
}

/* Not older: a receive of what we hold ourselves cannot wait for it either. */
static struct item *youngest_handoff(const struct engine_core *core,
                                     int64_t oldest)
{
    struct item *youngest = NULL;
    for (struct item *item = core->oldest; item != NULL; item = item->younger) {
        if (item->state == ITEM_SENDING && item->rid >= oldest &&
            (youngest == NULL || item->rid > youngest->rid)) {
            youngest = item;
        }
    }
    return youngest;
}

static struct item *find_victim(const struct engine_core *core)
{
    int64_t oldest = oldest_receive(core);
    return oldest == INT64_MAX || is_moving(core)
               ? NULL
               : youngest_handoff(core, oldest);
}

void give_way(struct engine_core *core, uint64_t now_ns)
{
    struct item *victim = find_victim(core);
    if (victim == NULL) {
        core->stuck_since_ns = 0;
        return;
    }
    if (core->stuck_since_ns == 0) {
        core->stuck_since_ns = now_ns;
    }
    uint64_t due_ns = core->stuck_since_ns +
                      core->options.kv_transfer_timeout_ns / PATIENCE_SHARE;
    if (now_ns < due_ns) {
        core->wake_ns = due_ns < core->wake_ns ? due_ns : core->wake_ns;
        return;
    }
    log_info("engine", "KV of request %lld gives way to a receive",
             (long long)victim->rid);
    item_let_go(core, victim, AGREE_CANCEL, AGREE_REASON_REFUSED);
    core->stuck_since_ns = 0;
}
