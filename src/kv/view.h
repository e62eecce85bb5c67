#pragma once
/* kv/view: what the model and the transfer see of the cache: where the pages
 * lie and how a page is laid out. Tables are handed in; nobody here allocates.
 *
 *   page = one block of `tokens_per_block` tokens, all layers of a life cycle:
 *
 *     for each layer: | K (kv_head, token, head_dim) | V (kv_head, token, head_dim) |
 *
 * Elements are F16. Layer l starts at l * layer_bytes; V follows K at
 * layer_bytes / 2; head h at h * tokens_per_block * head_dim elements. */
#include <stddef.h>
#include <stdint.h>

#include "kv/ids.h"

/* A life cycle: the layers whose pages live and die together (engine.md 1.2).
 * Layers of equal values share one. */
enum { KV_LIFE_COUNT_MAX = 4 };
struct kv_life {
    uint32_t window; /* a query at p sees keys from p + 1 - window on; 0: all */
    uint32_t sink_tokens; /* first tokens that stay visible; 0 without window */
};

struct kv_layout {
    uint32_t layer_count; /* of this life cycle */
    uint32_t kv_head_count;
    uint32_t head_dim;
    uint32_t tokens_per_block;
    uint32_t element_bytes; /* 2 */
};

static inline size_t kv_layout_layer_bytes(const struct kv_layout *layout)
{
    return (size_t)2 * layout->kv_head_count * layout->tokens_per_block *
           layout->head_dim * layout->element_bytes;
}

static inline size_t kv_layout_page_bytes(const struct kv_layout *layout)
{
    return layout->layer_count * kv_layout_layer_bytes(layout);
}

/* Bytes from the page's start to K of one head; V lies `layer_bytes / 2` on. */
static inline size_t kv_layout_key_offset(const struct kv_layout *layout,
                                          uint32_t layer, uint32_t head)
{
    return layer * kv_layout_layer_bytes(layout) +
           (size_t)head * layout->tokens_per_block * layout->head_dim *
               layout->element_bytes;
}

/* What a model asks of the cache. */
struct kv_shape {
    uint32_t life_count; /* 1 .. KV_LIFE_COUNT_MAX */
    struct kv_life lives[KV_LIFE_COUNT_MAX];
    struct kv_layout layouts[KV_LIFE_COUNT_MAX];
};

/* Pages of one life cycle. Two of equal page size may lie in one pool: then
 * base and count are the same, and so is who hands the pages out. */
struct kv_pool_view {
    uint8_t *base; /* page_count * page_bytes, 64-byte aligned */
    size_t page_bytes;
    uint32_t page_count;
    struct kv_layout layout;
};
