#pragma once
/* serve/block_names: what blocks of the cache are called outside. The cache
 * names a block by a tag that means nothing to others; routers know it by a
 * digest of its tokens, which hangs on the digest of the block before. Tokens
 * come once, with the STORED event; the name is kept for as long as the block,
 * or one after it, is announced, so that what comes later can be told too.
 *
 *   tag --> entry: digest, announced in which life cycles, entry of the parent
 *
 *   an entry lives  <=>  announced somewhere, or parent of one that lives
 *
 * A batch of events is read twice, because the life cycles of a model tell the
 * same blocks one after the other, in any order: first all names are learnt
 * (`learn`), then the events are gone through in theirs (`store`, `remove`);
 * `settle` ends the batch. Names nobody can derive, since what came before is
 * lost, are missing: the caller leaves such blocks out. Pure, one thread,
 * allocates nothing after creation. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/port.h"
#include "prefix/digests.h"

struct serve_block_names;
/* NULL: the system has no memory for it. */
struct serve_block_names *serve_block_names_create(enum prefix_hash_algo algo,
                                                   uint32_t block_count_max);
void serve_block_names_destroy(
    struct serve_block_names *names); /* NULL: fine */

/* Derives the names of the STORED ones among `events` as far as they can be
 * known. More than there is room for stay unknown. */
void serve_block_names_learn(struct serve_block_names *names,
                             const struct kv_event *events, uint32_t count);
/* NULL: unknown. Valid until the next settle. */
const struct prefix_digest *serve_block_names_find(
    const struct serve_block_names *names, const struct prefix_key *key);
/* Announced in `life` from here on, or no longer; the name, or NULL where it is
 * unknown, or was not announced there. */
const struct prefix_digest *serve_block_names_store(
    struct serve_block_names *names, uint32_t life,
    const struct prefix_key *key);
const struct prefix_digest *serve_block_names_remove(
    struct serve_block_names *names, uint32_t life,
    const struct prefix_key *key);
/* Nothing is announced: a listing of all that is follows, by `store`. */
void serve_block_names_forget(struct serve_block_names *names);
/* Entries that nobody needs any more go. */
void serve_block_names_settle(struct serve_block_names *names);

uint32_t serve_block_names_count(const struct serve_block_names *names);
