#include "base/log.h"
#include "engine/state.h"

/* Of the time a transfer may take: a pull under way is through by then. */
enum { PATIENCE_SHARE = 20 };

/* Context-first a hand-off holds pages until its peer pulls it, and the peer
 * pulls once it has pages, which it may hold for a hand-off to us.
 * Generation-first a receive holds pages until its peer has computed the prompt,
 * which wants pages that a receive from us may hold; an offer holds a session
 * until the peer has pages. Rids order all requests of a cluster: who waits
 * makes younger holders give way and waits for older ones. Any ring of workers
 * that wait for each other has a place where an older request waits for a
 * younger one, so none lasts. Those of a kind are admitted in order of arrival:
 * the oldest of them lends its age to those before it. (Offers keep no session
 * from each other: offers.c.) */

enum claim {
    CLAIM_STREAM, /* a hand-off that its receiver holds pages for */
    CLAIM_PULL, /* a receive of what its sender holds: context-first */
    CLAIM_RECEIVE, /* one of what its sender has not begun */
    CLAIM_COUNT
};

/* Waits for pages, lanes or a session while others that hold some wait for a
 * peer. A context-first hand-off that waits holds up nobody. */
static bool is_claimant(const struct item *item, enum claim claim)
{
    bool is_waiting =
        item->state == ITEM_WAITING ||
        (item->state == ITEM_CONTEXT_WAIT && item->session == NULL);
    bool is_receive = item->kind == ENGINE_GENERATION_ONLY;
    enum claim its = !is_receive                  ? CLAIM_STREAM
                     : !item->is_generation_first ? CLAIM_PULL
                                                  : CLAIM_RECEIVE;
    return is_waiting && its == claim && (is_receive || item_streams(item));
}

static const struct item *oldest_claimant(const struct engine_core *core,
                                          enum claim claim)
{
    const struct item *oldest = NULL;
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        if (is_claimant(item, claim) &&
            (oldest == NULL || item->rid < oldest->rid)) {
            oldest = item;
        }
    }
    return oldest;
}

static bool awaits_prefill(const struct item *item)
{
    return item->state == ITEM_RECEIVING && item->is_generation_first;
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

/* Holds something until a peer has done its part; an offer, a session. A receive
 * does not end for one whose sender holds nothing yet: its own prompt, wherever
 * that waits, makes room there. */
static bool is_holder(const struct engine_core *core, const struct item *item,
                      enum claim claim)
{
    bool is_offer = item->state == ITEM_CONTEXT_WAIT && item->session != NULL &&
                    is_out_of_sessions(core);
    return item->state == ITEM_SENDING || is_offer ||
           (claim != CLAIM_RECEIVE && awaits_prefill(item));
}

/* Will somebody give back what a claimant lacks, without a peer that waits? */
static bool is_moving(const struct engine_core *core)
{
    bool needs_session = is_out_of_sessions(core);
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        bool is_busy = item->state == ITEM_PREFILL ||
                       item->state == ITEM_DECODE ||
                       item->state == ITEM_RECEIVED ||
                       (item->state == ITEM_RECEIVING && !awaits_prefill(item));
        if (is_busy && (!needs_session || item->session != NULL)) {
            return true;
        }
    }
    return false;
}

/* Not older: a receive of what we hold ourselves cannot wait for it either. */
static struct item *youngest_holder(const struct engine_core *core,
                                    int64_t oldest, enum claim claim)
{
    struct item *youngest = NULL;
    for (struct item *item = core->oldest; item != NULL; item = item->younger) {
        if (is_holder(core, item, claim) && item->rid >= oldest &&
            (youngest == NULL || item->rid > youngest->rid)) {
            youngest = item;
        }
    }
    return youngest;
}

static struct item *find_victim(const struct engine_core *core)
{
    struct item *victim = NULL;
    for (enum claim claim = CLAIM_STREAM;
         claim < CLAIM_COUNT && victim == NULL && !is_moving(core); claim++) {
        const struct item *oldest = oldest_claimant(core, claim);
        if (oldest != NULL) {
            victim = youngest_holder(core, oldest->rid, claim);
        }
    }
    return victim;
}

static void end(struct engine_core *core, struct item *victim, uint64_t now_ns)
{
    log_info("engine", "KV of request %lld gives way to another's",
             (long long)victim->rid);
    item_say_failed(core, victim, now_ns, ERR_NOT_FOUND,
                    "KV transfer failed: it held what older requests wait for");
    item_let_go(core, victim, AGREE_CANCEL, AGREE_REASON_REFUSED);
}

void give_way(struct engine_core *core, uint64_t now_ns)
{
    struct item *victim = find_victim(core);
    if (victim == NULL || item_room(core) < STEP_EVENTS) {
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
    end(core, victim, now_ns);
    core->stuck_since_ns = 0;
}
