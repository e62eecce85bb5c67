#pragma once
/* serve/transfers: the last hand-offs and where their time went, for people
 * (GET /transfers). Open; the loop's thread. */
#include <stdint.h>

#include "base/buf.h"
#include "engine/port.h"

enum { SERVE_TRANSFER_COUNT_MAX = 64 };

struct serve_transfer {
    uint64_t id;
    int64_t rid;
    enum engine_kind kind;
    bool is_failed;
    bool is_open; /* answered; its KV waits for the other worker, or goes */
    uint64_t ended_wall_ms;
    char reason[120]; /* of a failure; "" where it is not known */
    struct engine_journey journey;
};
struct serve_transfers {
    /* private */
    uint64_t count; /* ever */
    struct serve_transfer ring[SERVE_TRANSFER_COUNT_MAX];
};
void serve_transfers_add(struct serve_transfers *transfers,
                         const struct serve_transfer *transfer);
/* Of a hand-off that is open, when it ends; nothing when it is not kept any
 * more. */
void serve_transfers_note_sent(struct serve_transfers *transfers, uint64_t id,
                               uint64_t now_wall_ms,
                               const struct engine_event *event);
/* Newest first. `writes` is a JSON list of the single writes below them. */
void serve_transfers_print(const struct serve_transfers *transfers,
                           struct span writes, struct buf *out);
