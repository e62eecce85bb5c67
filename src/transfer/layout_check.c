#include "transfer/layout_check.h"

#include <stdio.h>
#include <string.h>

#include "base/blockers.h"
#include "base/check.h"
#include "transfer/layout_helix.h"

/* -------- one party -------- */

static enum err check_share_stands(const struct transfer_party *party,
                                   const struct transfer_view *view,
                                   struct why *why)
{
    struct transfer_place place =
        transfer_layout_place(party->layout, party->rank);
    struct transfer_share share;
    enum err err = transfer_share_of(party->layout, &place,
                                     view->share.shard_count, why, &share);
    if (err) {
        return err;
    }
    const struct transfer_share *said = &view->share;
    if (said->replica_count != share.replica_count ||
        said->shard_index != share.shard_index ||
        said->replica_index != share.replica_index) {
        return why_say(why, ERR_INVALID,
                       "share: shard %u, replica %u of %u, but rank %u has "
                       "shard %u, replica %u of %u",
                       said->shard_index, said->replica_index,
                       said->replica_count, party->rank, share.shard_index,
                       share.replica_index, share.replica_count);
    }
    return OK;
}

static enum err check_view_layers(const struct transfer_party *party,
                                  const struct transfer_view *view,
                                  struct why *why)
{
    uint32_t pp = transfer_layout_place(party->layout, party->rank).pp;
    for (uint32_t i = 0; i < view->entry_count; i++) {
        uint32_t layer = view->entries[i].layer;
        if (!transfer_layers_have(&party->layout->stages[pp], layer)) {
            return why_say(why, ERR_INVALID,
                           "entries[%u]: layer %u is not in stage %u", i, layer,
                           pp);
        }
    }
    return OK;
}

/* Against those before it: the same life cycle has one block size, and no
 * layer has a role twice. */
static enum err check_beside(const struct transfer_view *view,
                             const struct transfer_view *before,
                             struct why *why)
{
    if (view->life == before->life &&
        view->tokens_per_block != before->tokens_per_block) {
        return why_say(
            why, ERR_INVALID, "tokens_per_block: %u and %u in life cycle %u",
            before->tokens_per_block, view->tokens_per_block, view->life);
    }
    bool may_meet = (view->roles & before->roles) != 0;
    for (uint32_t i = 0; may_meet && i < view->entry_count; i++) {
        const struct transfer_entry *entry = &view->entries[i];
        if (transfer_view_find(before, entry->layer, entry->role) != NULL) {
            return why_say(why, ERR_INVALID,
                           "entries[%u]: layer %u has role %u twice", i,
                           entry->layer, entry->role);
        }
    }
    return OK;
}

static enum err check_view(const struct transfer_party *party, uint32_t index,
                           struct why *why)
{
    const struct transfer_view *view = &party->views[index];
    enum err err = transfer_view_validate(view, why);
    if (!err && view->life >= party->life_count) {
        err = why_say(why, ERR_INVALID, "life: %u of %u", view->life,
                      party->life_count);
    }
    if (!err && view->kind == TRANSFER_VIEW_SECTIONED && !party->is_recurrent) {
        err = why_say(why, ERR_INVALID,
                      "kind: sectioned, but is_recurrent is "
                      "not set");
    }
    err = err ? err : check_share_stands(party, view, why);
    err = err ? err : check_view_layers(party, view, why);
    for (uint32_t i = 0; !err && i < index; i++) {
        err = check_beside(view, &party->views[i], why);
    }
    return err ? why_prefix(why, err, "views[%u]", index) : OK;
}

enum err transfer_party_validate(const struct transfer_party *party,
                                 struct why *why)
{
    enum err err = transfer_layout_validate(party->layout, why);
    if (err) {
        return err;
    }
    if (party->rank >= transfer_layout_rank_count(party->layout)) {
        return why_say(why, ERR_INVALID, "rank: %u of %u", party->rank,
                       transfer_layout_rank_count(party->layout));
    }
    if (party->view_count > TRANSFER_VIEW_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "view_count: %u is over %u",
                       party->view_count, TRANSFER_VIEW_COUNT_MAX);
    }
    for (uint32_t i = 0; !err && i < party->view_count; i++) {
        err = check_view(party, i, why);
    }
    return err;
}

/* -------- two of them -------- */

struct check {
    const struct transfer_party *sender, *receiver;
    bool can_regrain;
    struct blockers blockers;
    struct transfer_check result;
    char view[TRANSFER_ROLES_TEXT_SIZE + 24]; /* "key+value of layer 3, " */
};

static void same_number(struct check *check, const char *name, uint64_t sender,
                        uint64_t receiver)
{
    if (sender != receiver) {
        blockers_add(&check->blockers,
                     "%s%s: %llu at the sender, %llu at the receiver",
                     check->view, name, (unsigned long long)sender,
                     (unsigned long long)receiver);
    }
}

static void same_text(struct check *check, const char *name, const char *sender,
                      const char *receiver)
{
    if (strcmp(sender, receiver) != 0) {
        blockers_add(&check->blockers,
                     "%s%s: %s at the sender, %s at the receiver", check->view,
                     name, sender, receiver);
    }
}

static void check_models(struct check *check)
{
    const struct transfer_party *sender = check->sender;
    const struct transfer_party *receiver = check->receiver;
    same_number(check, "is_mla", sender->is_mla, receiver->is_mla);
    same_number(check, "is_recurrent", sender->is_recurrent,
                receiver->is_recurrent);
    same_number(check, "beam_width", sender->beam_width, receiver->beam_width);
    same_number(check, "draft_length_max", sender->draft_length_max,
                receiver->draft_length_max);
}

static void check_axes(struct check *check)
{
    const struct transfer_layout *sender = check->sender->layout;
    const struct transfer_layout *receiver = check->receiver->layout;
    uint32_t from = transfer_layout_part_count(sender);
    uint32_t to = transfer_layout_part_count(receiver);
    if (!transfer_axis_divides(from, to)) {
        blockers_add(&check->blockers,
                     "tp_size / dp_size: %u / %u at the sender, %u / "
                     "%u at the receiver, neither divides the other",
                     sender->tp_size, sender->dp_size, receiver->tp_size,
                     receiver->dp_size);
    }
    const struct transfer_helix_use use = {
        .sender_cp_size = sender->cp_size,
        .receiver_cp_size = receiver->cp_size,
        .is_pipelined = check->sender->is_pipelined,
        .has_bounce = check->sender->has_bounce || check->receiver->has_bounce,
    };
    transfer_helix_check(&use, &check->blockers);
}

/* Who meets nobody would be waited for, or wait, for ever. */
static void check_stages(struct check *check,
                         const struct transfer_layout *layout,
                         const struct transfer_layout *peer, const char *side,
                         uint32_t *alone_out)
{
    uint32_t alone = 0;
    for (uint32_t i = 0; i < layout->pp_size; i++) {
        const struct transfer_layers *stage = &layout->stages[i];
        uint32_t found = 0;
        for (uint32_t at = 0; at < stage->count; at++) {
            bool has = false;
            for (uint32_t j = 0; !has && j < peer->pp_size; j++) {
                has = transfer_layers_have(&peer->stages[j], stage->ids[at]);
            }
            found += has;
        }
        if (found == 0) {
            blockers_add(&check->blockers,
                         "stages[%u] of the %s: layers %u to %u, none "
                         "on the other side",
                         i, side, stage->ids[0], stage->ids[stage->count - 1]);
        }
        alone += stage->count - found;
    }
    *alone_out = alone;
}

static void check_block_size(struct check *check,
                             const struct transfer_view *from,
                             const struct transfer_view *to)
{
    uint32_t sender = from->tokens_per_block;
    uint32_t receiver = to->tokens_per_block;
    bool is_helix = check->sender->layout->cp_size > 1 ||
                    check->receiver->layout->cp_size > 1;
    if (!check->can_regrain || is_helix || sender == 0 || receiver == 0 ||
        !transfer_axis_divides(sender, receiver)) {
        same_number(check, "tokens_per_block", sender, receiver);
    }
}

static void check_share(struct check *check, const char *name,
                        const struct transfer_share *from,
                        const struct transfer_share *to)
{
    struct why why;
    if (transfer_share_match(from, to, &why)) {
        blockers_add(&check->blockers, "%s%s%s", check->view, name, why.text);
    }
}

static void check_heads(struct check *check, const struct transfer_view *from,
                        const struct transfer_view *to)
{
    same_number(check, "heads of all shards",
                (uint64_t)from->head_count * from->share.shard_count,
                (uint64_t)to->head_count * to->share.shard_count);
    check_share(check, "", &from->share, &to->share);
    bool is_cut = from->share.shard_count != to->share.shard_count;
    bool goes_whole = !is_cut && from->tokens_per_block == to->tokens_per_block;
    if (!goes_whole && (transfer_view_unit_bytes(from) == 0 ||
                        transfer_view_unit_bytes(to) == 0)) {
        blockers_add(&check->blockers,
                     "%shead_dim: %u %s at the sender, %u %s at the "
                     "receiver, no whole bytes and so never cut",
                     check->view, from->head_dim,
                     transfer_element_name(from->element), to->head_dim,
                     transfer_element_name(to->element));
    }
    if (is_cut && from->kind == TRANSFER_VIEW_TOKENS_FIRST) {
        check->result.cuts_tokens = true;
    }
}

static void check_sections(struct check *check,
                           const struct transfer_view *from,
                           const struct transfer_view *to)
{
    same_number(check, "section_count", from->section_count, to->section_count);
    bool is_alike = from->section_count == to->section_count;
    for (uint32_t i = 0; is_alike && i < from->section_count; i++) {
        struct transfer_share sender = transfer_view_section_share(from, i);
        struct transfer_share receiver = transfer_view_section_share(to, i);
        char name[48];
        snprintf(name, sizeof(name), "sections[%u] of all shards", i);
        same_number(check, name, from->sections[i].size * sender.shard_count,
                    to->sections[i].size * receiver.shard_count);
        snprintf(name, sizeof(name), "sections[%u] ", i);
        check_share(check, name, &sender, &receiver);
    }
    if (check->sender->layout->cp_size > 1 ||
        check->receiver->layout->cp_size > 1) {
        blockers_add(&check->blockers,
                     "%scp_size: %u at the sender, %u at the "
                     "receiver, a state has no blocks to deal out",
                     check->view, check->sender->layout->cp_size,
                     check->receiver->layout->cp_size);
    }
}

static void check_lives(struct check *check, const struct transfer_view *from,
                        const struct transfer_view *to)
{
    const struct kv_life *sender = &check->sender->lives[from->life];
    const struct kv_life *receiver = &check->receiver->lives[to->life];
    same_number(check, "window", sender->window, receiver->window);
    same_number(check, "sink_tokens", sender->sink_tokens,
                receiver->sink_tokens);
}

static void check_views(struct check *check, const struct transfer_view *from,
                        const struct transfer_view *to, uint32_t layer)
{
    char roles[TRANSFER_ROLES_TEXT_SIZE];
    transfer_roles_text(from->roles, roles);
    snprintf(check->view, sizeof(check->view), "%s of layer %u, ", roles,
             layer);
    same_text(check, "kind", transfer_view_kind_name(from->kind),
              transfer_view_kind_name(to->kind));
    same_text(check, "element", transfer_element_name(from->element),
              transfer_element_name(to->element));
    same_number(check, "head_dim", from->head_dim, to->head_dim);
    if (from->kind == to->kind) {
        check_block_size(check, from, to);
        check_lives(check, from, to);
        if (from->kind == TRANSFER_VIEW_SECTIONED) {
            check_sections(check, from, to);
        } else {
            check_heads(check, from, to);
        }
    }
    check->view[0] = '\0';
}

/* The first layer that both have, by the view's first role. */
static bool first_common(const struct transfer_view *a,
                         const struct transfer_view *b, uint32_t *layer_out)
{
    for (uint32_t i = 0; a->roles == b->roles && i < a->entry_count; i++) {
        const struct transfer_entry *entry = &a->entries[i];
        if (transfer_view_find(b, entry->layer, entry->role) != NULL) {
            *layer_out = entry->layer;
            return true;
        }
    }
    return false;
}

/* A layer that the peer's stage has too must be there with the same roles: what
 * one side lacks of it would be decoded as if it were zeros. One line a view. */
static void check_is_paired(struct check *check,
                            const struct transfer_view *view,
                            const struct transfer_party *peer, const char *side,
                            const char *other)
{
    uint32_t pp = transfer_layout_place(peer->layout, peer->rank).pp;
    for (uint32_t i = 0; i < view->entry_count; i++) {
        const struct transfer_entry *entry = &view->entries[i];
        bool is_needed =
            transfer_layers_have(&peer->layout->stages[pp], entry->layer);
        for (uint32_t j = 0; is_needed && j < peer->view_count; j++) {
            const struct transfer_view *to = &peer->views[j];
            is_needed =
                to->roles != view->roles ||
                transfer_view_find(to, entry->layer, entry->role) == NULL;
        }
        if (is_needed) {
            char roles[TRANSFER_ROLES_TEXT_SIZE];
            transfer_roles_text(view->roles, roles);
            blockers_add(&check->blockers,
                         "roles of layer %u: %s at the %s, no such "
                         "set at the %s",
                         entry->layer, roles, side, other);
            return;
        }
    }
}

static void check_all_views(struct check *check)
{
    const struct transfer_party *sender = check->sender;
    const struct transfer_party *receiver = check->receiver;
    for (uint32_t i = 0; i < sender->view_count; i++) {
        for (uint32_t j = 0; j < receiver->view_count; j++) {
            uint32_t layer;
            if (first_common(&sender->views[i], &receiver->views[j], &layer)) {
                check_views(check, &sender->views[i], &receiver->views[j],
                            layer);
            }
        }
        check_is_paired(check, &sender->views[i], receiver, "sender",
                        "receiver");
    }
    for (uint32_t j = 0; j < receiver->view_count; j++) {
        check_is_paired(check, &receiver->views[j], sender, "receiver",
                        "sender");
    }
}

enum err transfer_parties_check(const struct transfer_party *sender,
                                const struct transfer_party *receiver,
                                bool can_regrain, struct why *why,
                                struct transfer_check *check_out)
{
    struct check check = {
        .sender = sender, .receiver = receiver, .can_regrain = can_regrain};
    check_models(&check);
    check_axes(&check);
    check_stages(&check, sender->layout, receiver->layout, "sender",
                 &check.result.sender_only_layers);
    check_stages(&check, receiver->layout, sender->layout, "receiver",
                 &check.result.receiver_only_layers);
    check_all_views(&check);
    enum err err = blockers_say(&check.blockers, ERR_UNSUPPORTED, why);
    if (!err) {
        *check_out = check.result;
    }
    return err;
}
