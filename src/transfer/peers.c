#include "transfer/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/thread.h"

struct note {
    uint64_t order; /* of all notes ever; 0: free */
    char endpoint[280];
    bool is_sender;
    enum transfer_peer_state state;
    uint64_t incarnation;
    char lane[32];
    char why[200];
};

struct transfer_peers {
    struct io_lock *lock;
    uint64_t count; /* notes ever */
    struct note notes[TRANSFER_PEER_COUNT_MAX];
};

struct transfer_peers *transfer_peers_create(void)
{
    struct transfer_peers *peers = mem_new(sizeof(*peers));
    peers->lock = io_lock_create();
    return peers;
}

void transfer_peers_destroy(struct transfer_peers *peers)
{
    if (peers != NULL) {
        io_lock_destroy(peers->lock);
        mem_free(peers);
    }
}

static bool is_of(const struct note *note, const struct transfer_peer *peer)
{
    return note->order != 0 && note->is_sender == peer->is_sender &&
           strncmp(note->endpoint, peer->endpoint,
                   sizeof(note->endpoint) - 1) == 0;
}

/* Connected ones go last, of alike ones the oldest goes first. */
static bool goes_before(const struct note *a, const struct note *b)
{
    bool is_live = a->order != 0 && a->state == TRANSFER_PEER_CONNECTED;
    bool is_other_live = b->order != 0 && b->state == TRANSFER_PEER_CONNECTED;
    return is_live != is_other_live ? !is_live : a->order < b->order;
}

static struct note *place_of(struct transfer_peers *peers,
                             const struct transfer_peer *peer)
{
    struct note *place = &peers->notes[0];
    for (uint32_t i = 0; i < TRANSFER_PEER_COUNT_MAX; i++) {
        struct note *note = &peers->notes[i];
        if (is_of(note, peer)) {
            return note;
        }
        place = goes_before(note, place) ? note : place;
    }
    return place;
}

void transfer_peers_note(struct transfer_peers *peers,
                         const struct transfer_peer *peer)
{
    if (peers == NULL) {
        return;
    }
    io_lock_take(peers->lock);
    struct note *note = place_of(peers, peer);
    *note = (struct note){
        .order = ++peers->count,
        .is_sender = peer->is_sender,
        .state = peer->state,
        .incarnation = peer->incarnation,
    };
    snprintf(note->endpoint, sizeof(note->endpoint), "%s", peer->endpoint);
    snprintf(note->lane, sizeof(note->lane), "%s",
             peer->lane == NULL ? "" : peer->lane);
    snprintf(note->why, sizeof(note->why), "%s",
             peer->why == NULL ? "" : peer->why);
    io_lock_give(peers->lock);
}

static const char *state_name(enum transfer_peer_state state)
{
    static const char *const NAMES[] = {
        [TRANSFER_PEER_CONNECTED] = "connected",
        [TRANSFER_PEER_REFUSED] = "refused",
        [TRANSFER_PEER_FAILED] = "failed",
        [TRANSFER_PEER_ENDED] = "ended",
    };
    return NAMES[state];
}

static void add_text(const char *key, const char *text, struct buf *out)
{
    if (text[0] != 0) {
        buf_printf(out, ",\"%s\":", key);
        buf_add_json_string(out, span_of_string(text));
    }
}

static void add_note(const struct note *note, struct buf *out)
{
    buf_add_string(out, "{\"endpoint\":");
    buf_add_json_string(out, span_of_string(note->endpoint));
    buf_printf(out, ",\"kv\":\"%s\",\"state\":\"%s\"",
               note->is_sender ? "from" : "to", state_name(note->state));
    if (note->incarnation != 0) {
        buf_printf(out, ",\"incarnation\":\"%" PRIu64 "\"", note->incarnation);
    }
    add_text("lane", note->lane, out);
    add_text("reason", note->why, out);
    buf_add_byte(out, '}');
}

static const struct note *newest_before(const struct transfer_peers *peers,
                                        uint64_t order)
{
    const struct note *newest = NULL;
    for (uint32_t i = 0; i < TRANSFER_PEER_COUNT_MAX; i++) {
        const struct note *note = &peers->notes[i];
        if (note->order != 0 && note->order < order &&
            (newest == NULL || note->order > newest->order)) {
            newest = note;
        }
    }
    return newest;
}

void transfer_peers_print(const struct transfer_peers *peers, struct buf *out)
{
    const char *comma = "";
    const struct note *note = NULL;
    buf_add_byte(out, '[');
    io_lock_take(peers->lock);
    while ((note = newest_before(peers, note == NULL ? UINT64_MAX
                                                     : note->order)) != NULL) {
        buf_add_string(out, comma);
        add_note(note, out);
        comma = ",";
    }
    io_lock_give(peers->lock);
    buf_add_byte(out, ']');
}
