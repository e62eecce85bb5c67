#pragma once
/* prefix/item: what a media item (image, sound) is called in a run of tokens
 * (engine.md 1.7.1).
 *
 *   ... 17 4 | V  V+1  V+2  ...  V+n-1 | 99 12 ...       V = vocabulary size
 *             ^ position, and here the item's 32-byte name
 *
 * Placeholders of all items look the same, hence the name; ids above the
 * vocabulary never meet a token's, and an item that is split over blocks still
 * chains. A user's own id for an item is mixed with the content, never trusted
 * alone: name = BLAKE3(user id | content digest). Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum { PREFIX_ITEM_DIGEST_SIZE = 32 };

struct prefix_item {
    uint32_t position; /* of its first id in the run of tokens */
    bool has_user_id; /* then `name` is a mixture, else the content digest */
    uint8_t name[PREFIX_ITEM_DIGEST_SIZE];
};

struct prefix_item_source {
    uint32_t vocab_size;
    uint32_t token_count; /* ids that it takes in the prompt */
    uint8_t content[PREFIX_ITEM_DIGEST_SIZE]; /* a digest of its bytes */
    bool has_user_id;
    struct span user_id;
};

/* Names the item that begins at `position` and writes its ids (token_count) to
 * `ids_out`. ERR_INVALID: no tokens, or ids that do not fit 31 bits. */
MUST_USE enum err prefix_item_init(const struct prefix_item_source *source,
                                   uint32_t position, struct why *why,
                                   struct prefix_item *item_out,
                                   int32_t *ids_out);
