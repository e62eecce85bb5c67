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
 * The SEND of a request is posted before anybody hears of its answer: who pulls
 * after that answer and finds no session is told at once that none will come. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/mailbox.h"
#include "kv/ids.h"

enum transfer_command_kind {
    TRANSFER_SEND, /* one slice; the first one of a rid opens the session */
    TRANSFER_RECEIVE, /* whole prompt; opens the session */
    TRANSFER_CANCEL /* of a session: idempotent, unknown ones are ignored */
};

struct transfer_command {
    enum transfer_command_kind kind;
    uint64_t request; /* the engine's id of the session; echoed in reports */
    int64_t rid;
    uint64_t deadline_ns;
    /* (block_count) slots of ordinals first_block ..; KV_PAGE_NONE: not here,
     * not wanted. The engine's memory, unchanged until Q. */
    const kv_page_id *pages;
    uint32_t first_block;
    uint32_t block_count;
    uint32_t prompt_tokens;
    /* SEND */
    uint32_t slice_index;
    bool is_last;
    /* RECEIVE */
    bool is_generation_first; /* the sender may not have the request yet; else
                                 one that it does not have fails at once */
    uint64_t sender_incarnation;
    char sender_endpoint[280];
};

struct transfer_report {
    uint64_t request;
    uint8_t word; /* AGREE_* bits, cumulative */
    uint8_t reason; /* enum agree_reason */
    uint32_t slice_index; /* SEND: slices below this one have drained */
    uint64_t moved_bytes;
    uint32_t moved_blocks;
    uint64_t started_ns, ended_ns;
    const char *backend; /* static text */
    const char *lane; /* static text */
    char text[120]; /* with F: what went wrong, for a person */
};

struct transfer_port {
    struct io_mailbox *commands; /* struct transfer_command */
    struct io_mailbox *reports; /* struct transfer_report */
};
