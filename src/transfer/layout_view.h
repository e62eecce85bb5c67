#pragma once
/* transfer/layout_view: what lies where in a page (transfer.md 1.3). A slot is
 * one block, or one request's recurrent state, of all layers of a life cycle;
 * an entry is one role of one layer in it, at an offset that is told and never
 * reckoned from a stride. A view describes the entries that are cut alike.
 *
 *   HEADS_FIRST   (head, token, dim)     a head's block is one run
 *   TOKENS_FIRST  (token, head, dim)     some of the heads: a run a token
 *   WHOLE         (token, dim)           latents, index keys: each rank has all
 *   SECTIONED     section | section |..  a state: sections follow each other,
 *                                        each is cut alone, or whole
 *
 * K and V of unequal head_dim are two views. Views may share slots. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/view.h"
#include "transfer/layout_share.h"

enum transfer_view_kind {
    TRANSFER_VIEW_HEADS_FIRST,
    TRANSFER_VIEW_TOKENS_FIRST,
    TRANSFER_VIEW_WHOLE,
    TRANSFER_VIEW_SECTIONED
};

/* Bits: a view has a set of them. */
enum transfer_role {
    TRANSFER_ROLE_KEY = 1,
    TRANSFER_ROLE_VALUE = 2,
    TRANSFER_ROLE_LATENT = 4, /* of MLA: one for all heads, no values beside */
    TRANSFER_ROLE_INDEX_KEY = 8,
    TRANSFER_ROLE_STATE = 16, /* of a recurrent layer */
    TRANSFER_ROLE_CONV = 32, /* the rows its convolution still needs */
    TRANSFER_ROLE_ALL = 63
};
enum { TRANSFER_ROLE_COUNT = 6 };

/* Nothing is ever converted: both sides must have the same. */
enum transfer_element {
    TRANSFER_ELEMENT_F16,
    TRANSFER_ELEMENT_BF16,
    TRANSFER_ELEMENT_F32,
    TRANSFER_ELEMENT_F8_E4M3,
    TRANSFER_ELEMENT_F8_E5M2,
    TRANSFER_ELEMENT_I8,
    TRANSFER_ELEMENT_F4, /* two a byte */
    TRANSFER_ELEMENT_COUNT
};

struct transfer_entry {
    uint16_t layer; /* global id */
    uint16_t role; /* one bit */
    uint64_t offset; /* in the slot */
};

struct transfer_section {
    uint64_t size; /* bytes this rank has of it */
    bool is_whole; /* each rank has all of it, though others are cut */
};

enum {
    TRANSFER_ENTRY_COUNT_MAX = 2 * TRANSFER_LAYER_COUNT_MAX,
    TRANSFER_SECTION_COUNT_MAX = 256,
    TRANSFER_VIEW_COUNT_MAX = 16 /* of a rank */
};

struct transfer_view {
    enum transfer_view_kind kind;
    enum transfer_element element;
    uint32_t roles;
    uint32_t life; /* its block list: which of the rank's life cycles */
    uint32_t tokens_per_block; /* SECTIONED: 0 */
    uint32_t head_count; /* of this rank; WHOLE: 1; SECTIONED: 0 */
    uint32_t head_dim; /* SECTIONED: elements that must stay together */
    uint32_t section_count;
    const struct transfer_section *sections;
    struct transfer_share share; /* WHOLE: one shard */
    uint64_t slot_bytes;
    uint32_t entry_count; /* each layer has each role once */
    const struct transfer_entry *entries; /* ascending (layer, role) */
};

const char *transfer_view_kind_name(enum transfer_view_kind kind);
const char *transfer_element_name(enum transfer_element element);
/* "key+value" */
enum { TRANSFER_ROLES_TEXT_SIZE = 48 };
void transfer_roles_text(uint32_t roles, char text[TRANSFER_ROLES_TEXT_SIZE]);

/* Bytes of head_dim elements; 0: they fill no whole bytes, and can only go
 * together with their neighbours. */
uint64_t transfer_view_unit_bytes(const struct transfer_view *view);
uint64_t transfer_view_entry_bytes(const struct transfer_view *view);
/* How that section is cut: as the view, or each rank has it whole. */
struct transfer_share transfer_view_section_share(
    const struct transfer_view *view, uint32_t index);

/* ERR_INVALID names the field: entries in order, complete and inside the slot,
 * sizes whole, the share's indices in range. For views of peers too: sums do
 * not overflow. */
MUST_USE enum err transfer_view_validate(const struct transfer_view *view,
                                         struct why *why);

/* Entry of that layer and role; NULL: there is none. */
const struct transfer_entry *transfer_view_find(
    const struct transfer_view *view, uint32_t layer, uint32_t role);
/* The same role set and a layer in common. */
bool transfer_views_pair(const struct transfer_view *a,
                         const struct transfer_view *b);
/* Of what both have, the bytes a slot of `view` holds: what its rank waits for
 * a block, from all senders of a stage together. */
uint64_t transfer_view_common_bytes(const struct transfer_view *view,
                                    const struct transfer_view *other);

/* The pages of kv/view: K then V of each layer, heads first. `entries` has room
 * for two a layer and stays the view's; `layers` (layout->layer_count) are their
 * global ids, ascending. Life and slot_bytes are set by the page. */
void transfer_view_of_pages(const struct kv_layout *layout,
                            const uint16_t *layers,
                            const struct transfer_share *share,
                            struct transfer_entry *entries,
                            struct transfer_view *view_out);
