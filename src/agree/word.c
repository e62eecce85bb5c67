#include "agree/word.h"

#include "base/check.h"

const char *agree_reason_name(uint8_t reason)
{
    static const char *const NAMES[AGREE_REASON_COUNT] = {
        [AGREE_REASON_NONE] = "none",
        [AGREE_REASON_CALLER_LEFT] = "caller-left",
        [AGREE_REASON_PEER_CANCEL] = "peer-cancel",
        [AGREE_REASON_DEADLINE] = "deadline",
        [AGREE_REASON_TRANSPORT] = "transport",
        [AGREE_REASON_INTEGRITY] = "integrity",
        [AGREE_REASON_REFUSED] = "refused",
        [AGREE_REASON_PEER_EPOCH] = "peer-epoch-changed",
        [AGREE_REASON_WORKER_DEAD] = "worker-dead",
        [AGREE_REASON_INTERNAL] = "internal",
        [AGREE_REASON_EXPIRED] = "expired",
        [AGREE_REASON_ABORTED] = "aborted",
        [AGREE_REASON_NOT_NEEDED] = "not-needed",
        [AGREE_REASON_SHUTDOWN] = "shutting-down",
    };
    return reason < AGREE_REASON_COUNT ? NAMES[reason] : "unknown";
}

bool agree_reason_is_cancel(uint8_t reason)
{
    return reason == AGREE_REASON_CALLER_LEFT ||
           reason == AGREE_REASON_PEER_CANCEL ||
           reason == AGREE_REASON_ABORTED ||
           reason == AGREE_REASON_NOT_NEEDED || reason == AGREE_REASON_SHUTDOWN;
}

bool agree_word_is_legal(uint8_t word)
{
    if (word & AGREE_SETTLED) {
        return false;
    }
    if (word & AGREE_TERMINAL) {
        return (word & (AGREE_FAILED | AGREE_QUIET)) != 0;
    }
    return (word & (AGREE_FAILED | AGREE_QUIET | AGREE_UNSAFE)) == 0;
}

bool agree_word_may_become(uint8_t before, uint8_t after)
{
    bool is_growing = (before & after) == before;
    bool is_failing_late =
        (before & AGREE_TERMINAL) && ((before ^ after) & AGREE_FAILED);
    return is_growing && !is_failing_late && agree_word_is_legal(after);
}

static uint8_t merge_reason(uint8_t a, uint8_t b)
{
    if (a == AGREE_REASON_NONE || b == AGREE_REASON_NONE) {
        return a | b;
    }
    return a < b ? a : b;
}

static enum agree_outcome outcome_of(uint8_t any, uint8_t all)
{
    if (!(all & AGREE_TERMINAL)) {
        return AGREE_PENDING;
    }
    if (any & AGREE_CANCEL) {
        return AGREE_CANCELLED;
    }
    return any & (AGREE_FAILED | AGREE_DEADLINE) ? AGREE_FAILED_OUTCOME
                                                 : AGREE_COMPLETED;
}

enum err agree_reduce(const uint8_t *words, const uint8_t *reasons,
                      uint32_t count, struct agree_verdict *verdict_out)
{
    CHECK(count > 0);
    uint8_t any = 0;
    uint8_t all = 0xff;
    bool all_settled = true;
    uint8_t reason = AGREE_REASON_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!agree_word_is_legal(words[i]) ||
            reasons[i] >= AGREE_REASON_COUNT) {
            return ERR_INTERNAL;
        }
        any |= words[i];
        all &= words[i];
        all_settled &= (words[i] & (AGREE_QUIET | AGREE_UNSAFE)) != 0;
        reason = merge_reason(reason, reasons[i]);
    }
    enum agree_outcome outcome = outcome_of(any, all);
    bool is_decided = outcome != AGREE_PENDING;
    bool is_quiet = (all & AGREE_QUIET) != 0;
    *verdict_out = (struct agree_verdict){
        .outcome = outcome,
        .is_ready = (all & AGREE_READY) != 0,
        .is_doomed =
            (any & (AGREE_CANCEL | AGREE_FAILED | AGREE_DEADLINE)) != 0,
        .is_decided = is_decided,
#ifdef MUTATION_RELEASE_AT_TERMINAL
        .is_reclaimable = is_decided,
#else
        .is_reclaimable = is_decided && is_quiet,
#endif
        .needs_quarantine = is_decided && !is_quiet && all_settled,
        .reason = reason,
    };
    return OK;
}
