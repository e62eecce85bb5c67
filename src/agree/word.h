#pragma once
/* agree/word: the local status word of one rank for one transfer, and the pure
 * reduction over all ranks of a domain (consensus.md 2.2, 2.4).
 *
 * A word is monotone within a turn: bits are only ever set. 0 is the pending
 * sentinel: a zeroed or never written word can never decide anything. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum agree_bit {
    AGREE_READY = 0x01, /* R: all that this rank needs from the peer is here */
    AGREE_TERMINAL = 0x02, /* T: the local logical result is final */
    AGREE_FAILED = 0x04, /* F: it is not success */
    AGREE_CANCEL = 0x08, /* C: a cancel for this attempt reached this rank */
    AGREE_DEADLINE = 0x10, /* X: set by the sequencer only */
    AGREE_QUIET = 0x20, /* Q: proof that nobody touches the pages any more */
    AGREE_UNSAFE = 0x40, /* U: the grace time ended without that proof */
    AGREE_SETTLED = 0x80 /* S: in aggregates only */
};

enum agree_reason {
    AGREE_REASON_NONE,
    AGREE_REASON_CALLER_LEFT, /* who asked this worker hung up (spec: user) */
    AGREE_REASON_PEER_CANCEL,
    AGREE_REASON_DEADLINE,
    AGREE_REASON_TRANSPORT,
    AGREE_REASON_INTEGRITY,
    AGREE_REASON_REFUSED,
    AGREE_REASON_PEER_EPOCH,
    AGREE_REASON_WORKER_DEAD,
    AGREE_REASON_INTERNAL,
    AGREE_REASON_EXPIRED, /* the sender has no such KV, or not any more */
    AGREE_REASON_ABORTED, /* the front end said so */
    AGREE_REASON_NOT_NEEDED, /* the answer ended without it */
    AGREE_REASON_SHUTDOWN, /* the worker ends */
    AGREE_REASON_COUNT
};
const char *agree_reason_name(uint8_t reason);
/* Somebody gave it up; nothing went wrong with it. */
bool agree_reason_is_cancel(uint8_t reason);

/* Legal word of a single rank: F, Q, U need T; T without F needs Q. */
bool agree_word_is_legal(uint8_t word);
/* May `before` become `after` in one step? Bits only grow; F is fixed after T. */
bool agree_word_may_become(uint8_t before, uint8_t after);

enum agree_outcome {
    AGREE_PENDING,
    AGREE_COMPLETED,
    AGREE_FAILED_OUTCOME,
    AGREE_CANCELLED
};

struct agree_verdict {
    enum agree_outcome outcome;
    bool is_ready, is_doomed, is_decided, is_reclaimable, needs_quarantine;
    uint8_t reason; /* smallest non-zero one */
};

/* `words` and `reasons`: one a participant, count > 0. ERR_INTERNAL when a word
 * is illegal: inside a domain that is fail-stop. */
MUST_USE enum err agree_reduce(const uint8_t *words, const uint8_t *reasons,
                               uint32_t count,
                               struct agree_verdict *verdict_out);
