#pragma once
/* transfer/peers: what has become of the links to other workers, for people who
 * ask why KV does not move. One line a peer and direction, the newest word. Any
 * thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { TRANSFER_PEER_COUNT_MAX = 64 };

enum transfer_peer_state {
    TRANSFER_PEER_CONNECTED,
    TRANSFER_PEER_REFUSED, /* it does not fit, or its key is not ours */
    TRANSFER_PEER_FAILED, /* never got so far */
    TRANSFER_PEER_ENDED
};

struct transfer_peer {
    const char *endpoint; /* where it can be met, as far as that is known */
    bool is_sender; /* its KV comes to us; else ours goes to it */
    enum transfer_peer_state state;
    uint64_t incarnation; /* 0: not known */
    const char *lane; /* CONNECTED: by what its memory, or ours, is reached */
    const char *why; /* else: what went wrong */
};

struct transfer_peers;
struct transfer_peers *transfer_peers_create(void);
void transfer_peers_destroy(struct transfer_peers *peers); /* NULL is fine */
/* In place of what was known of it. Of more than fit, connected ones stay and of
 * the rest the newest. NULL `peers`: nobody wants to know. */
void transfer_peers_note(struct transfer_peers *peers,
                         const struct transfer_peer *peer);
/* Adds a JSON list, the newest first. */
void transfer_peers_print(const struct transfer_peers *peers, struct buf *out);
