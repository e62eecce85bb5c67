#include "transfer/layout_view.h"

#include <stdio.h>

#include "base/check.h"

/* -------- names -------- */

const char *transfer_view_kind_name(enum transfer_view_kind kind)
{
    switch (kind) {
    case TRANSFER_VIEW_HEADS_FIRST:
        return "heads first";
    case TRANSFER_VIEW_TOKENS_FIRST:
        return "tokens first";
    case TRANSFER_VIEW_WHOLE:
        return "whole";
    case TRANSFER_VIEW_SECTIONED:
        return "sectioned";
    }
    CHECK_UNREACHABLE();
}

static const struct {
    const char *name;
    uint32_t bits;
} elements[TRANSFER_ELEMENT_COUNT] = {
    [TRANSFER_ELEMENT_F16] = {"f16", 16},
    [TRANSFER_ELEMENT_BF16] = {"bf16", 16},
    [TRANSFER_ELEMENT_F32] = {"f32", 32},
    [TRANSFER_ELEMENT_F8_E4M3] = {"f8_e4m3", 8},
    [TRANSFER_ELEMENT_F8_E5M2] = {"f8_e5m2", 8},
    [TRANSFER_ELEMENT_I8] = {"i8", 8},
    [TRANSFER_ELEMENT_F4] = {"f4", 4},
};

const char *transfer_element_name(enum transfer_element element)
{
    CHECK(element < TRANSFER_ELEMENT_COUNT);
    return elements[element].name;
}

void transfer_roles_text(uint32_t roles, char text[TRANSFER_ROLES_TEXT_SIZE])
{
    static const char *const names[TRANSFER_ROLE_COUNT] = {
        "key", "value", "latent", "index_key", "state", "conv"};
    int size = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < TRANSFER_ROLE_COUNT; i++) {
        if ((roles >> i & 1) != 0) {
            size += snprintf(text + size, TRANSFER_ROLES_TEXT_SIZE - size,
                             "%s%s", size > 0 ? "+" : "", names[i]);
        }
    }
}

/* -------- sizes -------- */

uint64_t transfer_view_unit_bytes(const struct transfer_view *view)
{
    uint64_t bits = (uint64_t)view->head_dim * elements[view->element].bits;
    return bits % 8 == 0 ? bits / 8 : 0;
}

static uint64_t sections_bytes(const struct transfer_view *view)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < view->section_count; i++) {
        bytes += view->sections[i].size;
    }
    return bytes;
}

uint64_t transfer_view_entry_bytes(const struct transfer_view *view)
{
    if (view->kind == TRANSFER_VIEW_SECTIONED) {
        return sections_bytes(view);
    }
    return (uint64_t)view->tokens_per_block * view->head_count *
           view->head_dim * elements[view->element].bits / 8;
}

struct transfer_share transfer_view_section_share(
    const struct transfer_view *view, uint32_t index)
{
    return view->sections[index].is_whole ? transfer_share_whole(&view->share)
                                          : view->share;
}

/* -------- validity -------- */

static enum err check_limit(const char *name, uint64_t value, uint64_t least,
                            uint64_t most, struct why *why)
{
    if (value < least || value > most) {
        return why_say(why, ERR_INVALID, "%s: %llu is not in %llu to %llu",
                       name, (unsigned long long)value,
                       (unsigned long long)least, (unsigned long long)most);
    }
    return OK;
}

/* Limits whose product, in bits, stays below 2^63. */
enum { TOKENS_MAX = 1 << 16, HEADS_MAX = 1 << 16, DIM_MAX = 1 << 24 };

static enum err check_sections(const struct transfer_view *view,
                               struct why *why)
{
    enum err err = check_limit("section_count", view->section_count, 1,
                               TRANSFER_SECTION_COUNT_MAX, why);
    err = err ? err
              : check_limit("tokens_per_block", view->tokens_per_block, 0, 0,
                            why);
    err = err ? err : check_limit("head_count", view->head_count, 0, 0, why);
    if (err) {
        return err;
    }
    uint64_t unit = transfer_view_unit_bytes(view);
    if (unit == 0) {
        return why_say(why, ERR_INVALID, "head_dim: %u %s fill no whole bytes",
                       view->head_dim, transfer_element_name(view->element));
    }
    for (uint32_t i = 0; i < view->section_count; i++) {
        uint64_t size = view->sections[i].size;
        if (size == 0 || size > UINT32_MAX || size % unit != 0) {
            return why_say(why, ERR_INVALID,
                           "sections[%u]: %llu bytes are no multiple of %llu "
                           "below 4 GiB",
                           i, (unsigned long long)size,
                           (unsigned long long)unit);
        }
    }
    return OK;
}

static enum err check_tokens(const struct transfer_view *view, struct why *why)
{
    bool is_whole = view->kind == TRANSFER_VIEW_WHOLE;
    enum err err = check_limit("tokens_per_block", view->tokens_per_block, 1,
                               TOKENS_MAX, why);
    err = err ? err
              : check_limit("head_count", view->head_count, 1,
                            is_whole ? 1 : HEADS_MAX, why);
    err = err ? err
              : check_limit("section_count", view->section_count, 0, 0, why);
    if (err) {
        return err;
    }
    uint64_t bits = (uint64_t)view->tokens_per_block * view->head_count *
                    view->head_dim * elements[view->element].bits;
    if (bits % 8 != 0) {
        return why_say(why, ERR_INVALID, "head_dim: %u %s fill no whole bytes",
                       view->head_dim, transfer_element_name(view->element));
    }
    return OK;
}

static enum err check_share(const struct transfer_view *view, struct why *why)
{
    const struct transfer_share *share = &view->share;
    enum { MAX = TRANSFER_RANK_COUNT_MAX };
    bool is_whole = view->kind == TRANSFER_VIEW_WHOLE;
    enum err err = check_limit("shard_count", share->shard_count, 1,
                               is_whole ? 1 : MAX, why);
    err = err ? err
              : check_limit("replica_count", share->replica_count, 1,
                            MAX / (share->shard_count ? share->shard_count : 1),
                            why);
    err = err ? err
              : check_limit("shard_index", share->shard_index, 0,
                            share->shard_count - 1, why);
    return err ? err
               : check_limit("replica_index", share->replica_index, 0,
                             share->replica_count - 1, why);
}

static bool is_after(const struct transfer_entry *entry,
                     const struct transfer_entry *before)
{
    return entry->layer > before->layer ||
           (entry->layer == before->layer && entry->role > before->role);
}

/* In order and in as many layers as entries: each layer has each role. */
static enum err check_entry(const struct transfer_view *view, uint32_t index,
                            struct why *why)
{
    const struct transfer_entry *entry = &view->entries[index];
    uint32_t role_count = (uint32_t)__builtin_popcount(view->roles);
    uint64_t size = transfer_view_entry_bytes(view);
    if (__builtin_popcount(entry->role) != 1 ||
        (entry->role & view->roles) == 0) {
        return why_say(why, ERR_INVALID, "role: %u is none of the view's",
                       entry->role);
    }
    if (index > 0 && !is_after(entry, entry - 1)) {
        return why_say(why, ERR_INVALID, "layer: %u is out of order",
                       entry->layer);
    }
    if (index % role_count > 0 && entry->layer != (entry - 1)->layer) {
        return why_say(why, ERR_INVALID, "layer: %u lacks a role of the view's",
                       (entry - 1)->layer);
    }
    if (entry->offset > view->slot_bytes ||
        size > view->slot_bytes - entry->offset) {
        return why_say(why, ERR_INVALID,
                       "offset: %llu and %llu bytes are not inside a slot of "
                       "%llu",
                       (unsigned long long)entry->offset,
                       (unsigned long long)size,
                       (unsigned long long)view->slot_bytes);
    }
    return OK;
}

static enum err check_entries(const struct transfer_view *view, struct why *why)
{
    uint32_t role_count = (uint32_t)__builtin_popcount(view->roles);
    for (uint32_t i = 0; i < view->entry_count; i++) {
        enum err err = check_entry(view, i, why);
        if (err) {
            return why_prefix(why, err, "entries[%u]", i);
        }
    }
    if (view->entry_count % role_count != 0) {
        return why_say(why, ERR_INVALID,
                       "entries: layer %u lacks a role of the view's",
                       view->entries[view->entry_count - 1].layer);
    }
    return OK;
}

enum err transfer_view_validate(const struct transfer_view *view,
                                struct why *why)
{
    enum err err =
        check_limit("kind", view->kind, 0, TRANSFER_VIEW_SECTIONED, why);
    err = err ? err
              : check_limit("element", view->element, 0,
                            TRANSFER_ELEMENT_COUNT - 1, why);
    err = err ? err
              : check_limit("roles", view->roles, 1, TRANSFER_ROLE_ALL, why);
    err = err ? err : check_limit("head_dim", view->head_dim, 1, DIM_MAX, why);
    if (!err) {
        err = view->kind == TRANSFER_VIEW_SECTIONED ? check_sections(view, why)
                                                    : check_tokens(view, why);
    }
    err = err ? err : check_share(view, why);
    err = err ? err
              : check_limit("entry_count", view->entry_count, 1,
                            TRANSFER_ENTRY_COUNT_MAX, why);
    return err ? err : check_entries(view, why);
}

/* -------- two views -------- */

const struct transfer_entry *transfer_view_find(
    const struct transfer_view *view, uint32_t layer, uint32_t role)
{
    uint32_t first = 0;
    uint32_t end = view->entry_count;
    const struct transfer_entry wanted = {(uint16_t)layer, (uint16_t)role, 0};
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (is_after(&wanted, &view->entries[middle])) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    const struct transfer_entry *entry = &view->entries[first];
    bool is_found = first < view->entry_count && entry->layer == layer &&
                    entry->role == role;
    return is_found ? entry : NULL;
}

bool transfer_views_pair(const struct transfer_view *a,
                         const struct transfer_view *b)
{
    return a->roles == b->roles && transfer_view_common_bytes(a, b) > 0;
}

uint64_t transfer_view_common_bytes(const struct transfer_view *view,
                                    const struct transfer_view *other)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < view->entry_count; i++) {
        const struct transfer_entry *entry = &view->entries[i];
        count += transfer_view_find(other, entry->layer, entry->role) != NULL;
    }
    return count * transfer_view_entry_bytes(view);
}

void transfer_view_of_pages(const struct kv_layout *layout,
                            const uint16_t *layers,
                            const struct transfer_share *share,
                            struct transfer_entry *entries,
                            struct transfer_view *view_out)
{
    CHECK(layout->element_bytes == 2);
    size_t layer_bytes = kv_layout_layer_bytes(layout);
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        uint64_t key = kv_layout_key_offset(layout, i, 0);
        entries[2 * i] =
            (struct transfer_entry){layers[i], TRANSFER_ROLE_KEY, key};
        entries[2 * i + 1] = (struct transfer_entry){
            layers[i], TRANSFER_ROLE_VALUE, key + layer_bytes / 2};
    }
    *view_out = (struct transfer_view){
        .kind = TRANSFER_VIEW_HEADS_FIRST,
        .element = TRANSFER_ELEMENT_F16,
        .roles = TRANSFER_ROLE_KEY | TRANSFER_ROLE_VALUE,
        .tokens_per_block = layout->tokens_per_block,
        .head_count = layout->kv_head_count,
        .head_dim = layout->head_dim,
        .share = *share,
        .slot_bytes = kv_layout_page_bytes(layout),
        .entry_count = 2 * layout->layer_count,
        .entries = entries,
    };
}
