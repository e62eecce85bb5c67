#pragma once
/* kv/events: what the cache tells routers about itself (engine.md 1.12).
 *
 *   facts --> [ batch: all STORED, or all REMOVED ] --> log --> one reader
 *
 * Facts of one kind gather until one of another kind or the turn's end comes;
 * then they go out grouped by life cycle, each group in its order: blocks of one
 * chain merge into one wire event, so do removals. Other kinds go out at once,
 * after what gathered. Nothing merges across a flush.
 *
 * The log keeps the latest `event_max` records. When it is full the oldest wire
 * event goes as a whole, and a GAP at the front says how many are missing; ids go
 * on counting, so a reader sees that too. Whether a block is to be told at all is
 * kv/events_tree's affair. Pure, nothing allocates after creation, one thread:
 * the reader's side is emptied by the owner at a turn's end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv/store.h"
#include "prefix/keys.h"

enum kv_event_kind {
    KV_EVENT_CREATED, /* blocks a level */
    KV_EVENT_STORED,
    KV_EVENT_REMOVED,
    KV_EVENT_UPDATED, /* level or priority */
    KV_EVENT_GAP, /* `lost` events are missing before this one */
};

/* One block of one life cycle; consecutive ones with `is_continued` belong to
 * one event of the wire form. */
struct kv_event {
    uint64_t
        id; /* of the wire event, from 1 on; a GAP has the last lost one's */
    enum kv_event_kind kind;
    bool is_continued; /* merged with the record before */
    bool has_parent;
    uint8_t life;
    uint8_t level, level_before;
    uint8_t priority, priority_before;
    uint32_t ordinal; /* of the block */
    uint32_t token_count;
    uint64_t lost; /* GAP: wire events */
    uint64_t salt; /* of the scope, when has_salt */
    bool has_salt;
    struct prefix_key key, parent; /* private tags: whoever tells the outside
                                    * turns tokens into public digests. Of the
                                    * first block `parent` is the scope's root,
                                    * though it has no parent */
    uint32_t blocks[KV_LEVEL_COUNT_MAX]; /* CREATED */
    /* STORED: where kv_events_tokens finds the ids; private. */
    uint32_t tokens_at; /* row of the log, unless ... */
    const int32_t *tokens; /* of a listing (kv/events_tree.h) */
};

struct kv_events;
/* NULL: the system has no memory for it. */
struct kv_events *kv_events_create(uint32_t event_max,
                                   uint32_t tokens_per_block);
void kv_events_destroy(struct kv_events *events); /* NULL is fine */

void kv_events_created(struct kv_events *events, uint8_t life,
                       const uint32_t blocks[KV_LEVEL_COUNT_MAX]);
/* A full block. `parent`: tag of the block before; of the first block (ordinal 0)
 * the scope's root or NULL. `tokens` (tokens_per_block) are copied. */
void kv_events_stored(struct kv_events *events, uint8_t life, uint8_t level,
                      uint8_t priority, uint32_t ordinal,
                      const struct prefix_key *key,
                      const struct prefix_key *parent, const int32_t *tokens);
void kv_events_removed(struct kv_events *events, uint8_t life,
                       const struct prefix_key *key);
void kv_events_updated(struct kv_events *events, uint8_t life,
                       const struct prefix_key *key, uint8_t level_before,
                       uint8_t level, uint8_t priority_before,
                       uint8_t priority);
/* Once a turn: what gathers goes out. */
void kv_events_flush(struct kv_events *events);

/* Records from the oldest on, valid until the next call that is not a question;
 * `kv_events_taken` frees them. Whole wire events only: the record after the last
 * one is not continued. When the first wire event alone has more than `max`
 * records, all of it is handed out. 0: nothing went out yet. */
uint32_t kv_events_peek(const struct kv_events *events, uint32_t max,
                        const struct kv_event **events_out);
/* The first `count` records of what was peeked are done with. */
void kv_events_taken(struct kv_events *events, uint32_t count);
/* The ids of a STORED record that the log holds or a listing shows. */
const int32_t *kv_events_tokens(const struct kv_events *events,
                                const struct kv_event *event);

struct kv_events_stats {
    uint64_t events, lost; /* wire events since creation */
    uint32_t records; /* in the log now */
};
struct kv_events_stats kv_events_stats(const struct kv_events *events);
size_t kv_events_bytes(const struct kv_events *events);
