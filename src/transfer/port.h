#pragma once
/* transfer/port: the commands and reports that engine and transfer exchange.
 *
 *   engine thread --- struct transfer_command ---> transfer loop
 *   engine thread <-- struct transfer_report  ---- transfer loop
 *
 * The engine leases the pages of a command before it posts it and ends the
 * lease only when a report says so (transfer.md 6.1, 6.2). A report carries the
 * status word of consensus.md 2.2 (agree/word.h): T terminal, F failed, C
 * cancel seen, Q quiet (nobody will touch those pages again). Each session ends
 * in exactly one report with Q, after which the transfer knows it no more; the
 * place for it in the mailbox was reserved when the session was ordered.
 *
 * A prompt's KV leaves in slices while it is still computed (transfer.md 3):
 *
 *   OFFER                  generation-first: before the prefill may begin
 *     <- is_awaited        the receiver has said where the pages go
 *   SEND 0 .. SEND k(last) after each chunk, what it has completed
 *
 * An OFFER that nobody awaits yet may be taken back, so that the sessions of a
 * sender go round among the prompts that want one.
 *
 * Without an OFFER the first SEND opens the session (context-first): it is
 * posted before anybody hears of the request's answer, and who pulls after that
 * answer and finds no session is told at once that none will come. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/mailbox.h"
#include "kv/ids.h"

enum {
    TRANSFER_GROUP_COUNT_MAX = 4, /* life cycles; = WIRE_GROUP_COUNT_MAX */
    TRANSFER_CHOICE_COUNT_MAX = 16,
    TRANSFER_TOP_COUNT_MAX = 20
};

/* What the sender's engine tells the receiver's beside the pages: the first
 * token of each choice and what a client may have asked about it (transfer.md
 * 1.5). Travels with the last slice of a generation-first request. Heap
 * (base/mem), one owner at a time. */
struct transfer_aux {
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* of the prompt, found at the sender */
    uint32_t choice_count; /* 1 .. TRANSFER_CHOICE_COUNT_MAX */
    uint8_t prompt_digest[16]; /* prefix_prompt_digest of what was computed */
    struct transfer_first {
        int32_t token;
        float logprob;
        uint32_t top_count;
        struct transfer_top {
            int32_t token;
            float logprob;
        } tops[TRANSFER_TOP_COUNT_MAX];
    } firsts[TRANSFER_CHOICE_COUNT_MAX];
};

enum transfer_command_kind {
    TRANSFER_OFFER, /* opens a send session that has no slice yet */
    TRANSFER_WITHDRAW, /* of an OFFER: as if it had not been, unless its receiver
                          has advertised by then; never after a SEND */
    TRANSFER_SEND, /* one slice; opens the session if no OFFER did */
    TRANSFER_RECEIVE, /* whole prompt; opens the session */
    TRANSFER_CANCEL /* of a session: idempotent, unknown ones are ignored */
};

struct transfer_command {
    enum transfer_command_kind kind;
    uint64_t request; /* the engine's id of the session; echoed in reports */
    uint8_t reason; /* CANCEL: enum agree_reason */
    int64_t rid;
    uint64_t deadline_ns;
    /* SEND, RECEIVE: for each life cycle the (block_count) pages of ordinals 0
     * .. block_count - 1; KV_PAGE_NONE: not here, not wanted. The engine's
     * memory. RECEIVE: unchanged until Q. SEND: what a slice names is set
     * before it is posted and unchanged until Q; the same arrays in all slices
     * of a session, later entries may still be filled. */
    const kv_page_id *pages[TRANSFER_GROUP_COUNT_MAX];
    uint32_t group_count;
    uint32_t block_count; /* blocks are our own, whatever the peer's hold */
    uint32_t prompt_tokens;
    /* SEND: ordinals [first_block, end_block) of the life cycles that stream.
     * A windowed one of which something is stale (transfer.md 3.4) travels
     * whole with the last slice; what is_last does not name otherwise may be
     * empty: it still ends the transfer. */
    uint32_t slice_index; /* 0, 1, ... without a gap */
    uint32_t first_block, end_block;
    bool is_last;
    struct transfer_aux *aux; /* is_last after an OFFER: ownership moves */
    /* RECEIVE */
    bool is_generation_first; /* the sender may not have the request yet; else
                                 one that it does not have fails at once */
    uint64_t sender_incarnation; /* 0: whoever answers at the endpoint */
    char sender_endpoint[280];
};

struct transfer_report {
    uint64_t request;
    uint8_t word; /* AGREE_* bits, cumulative */
    uint8_t reason; /* enum agree_reason */
    bool is_awaited; /* OFFER, SEND: the receiver has advertised; stays set */
    bool is_withdrawn; /* with T|F|Q: the rid may be offered again */
    bool has_holes; /* RECEIVE, T without F: some tokens of the pages that were
                       asked for did not come. This prompt's decoding does not
                       read them; another's could. */
    uint32_t slice_index; /* SEND: slices below this one have drained */
    uint64_t moved_bytes;
    uint32_t moved_blocks; /* of the smaller of both sides' sizes */
    uint64_t bounced_bytes; /* of those moved, packed through the arenas */
    uint64_t started_ns, ended_ns;
    const char *backend; /* static text */
    const char *lane; /* static text */
    char text[120]; /* with F: what went wrong, for a person */
    struct transfer_aux *aux; /* RECEIVE, generation-first, T without F: the
                                 engine's from now on; else NULL */
};

struct transfer_port {
    struct io_mailbox *commands; /* struct transfer_command */
    struct io_mailbox *reports; /* struct transfer_report */
};
