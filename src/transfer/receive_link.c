#include <stdio.h>
#include <string.h>

#include "agree/word.h"
#include "base/log.h"
#include "base/mem.h"
#include "transfer/aux.h"
#include "transfer/receive_slot.h"

static const uint64_t RETRY_NS = 500000000u;

/* The sender's blocks are known. False: they do not do, and it has failed. */
static bool take_parts(struct receive_side *side, struct receive_slot *slot,
                       const struct link *link, uint64_t now)
{
    if (!receive_slot_is_waiting(slot) ||
        link->tokens_per_block == receive_side_block(side)) {
        return true;
    }
    if (receive_parts(side, slot, link->tokens_per_block)) {
        char text[96];
        snprintf(text, sizeof(text),
                 "the prompt has too many blocks of %u tokens, as many as the "
                 "sender's",
                 link->tokens_per_block);
        receive_side_fail(side, slot, AGREE_REASON_REFUSED, text, now);
        return false;
    }
    rx_session_regroup(&slot->session);
    return true;
}

void receive_side_connected(struct receive_side *side,
                            struct receive_slot *slot, const struct link *link,
                            uint64_t now)
{
    if (slot->session.sender_incarnation == 0) {
        if (receive_side_find(side, link->incarnation, slot->session.rid) !=
            NULL) {
            receive_side_fail(side, slot, AGREE_REASON_REFUSED,
                              "this rid is being received", now);
            return;
        }
        slot->session.sender_incarnation = link->incarnation;
    }
    slot->lane = link->lane;
    if (!take_parts(side, slot, link, now)) {
        return;
    }
    if (receive_slot_is_waiting(slot) && receive_grant(side, slot)) {
        receive_side_fail(side, slot, AGREE_REASON_REFUSED,
                          "too many receives for the backend", now);
        return;
    }
    receive_side_simple_step(side, slot, RX_CONNECTED, now);
}

void receive_side_registered(struct receive_side *side, struct link *link,
                             uint64_t now)
{
    bool is_other = link->incarnation != link->wanted;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (!receive_slot_is_live(slot)) {
            continue;
        }
        if (slot->session.sender_incarnation == 0 &&
            strcmp(slot->endpoint, link->endpoint) == 0) {
            receive_side_connected(side, slot, link, now);
            continue;
        }
        if (slot->session.sender_incarnation != link->wanted) {
            continue;
        }
        if (!is_other) {
            receive_side_connected(side, slot, link, now);
        } else if (receive_slot_is_waiting(slot) &&
                   strcmp(slot->endpoint, link->endpoint) == 0) {
            receive_side_fail(side, slot, AGREE_REASON_PEER_EPOCH,
                              "another process serves there now", now);
        }
    }
    if (is_other) {
        control_drop(link, "another process serves %s now", link->endpoint);
    }
}

static void on_result(struct receive_side *side, struct link *link,
                      const struct wire_header *header, struct span body,
                      uint64_t now)
{
    struct wire_result result;
    struct why why = {0};
    bool is_odd = false;
    if (wire_result_decode(body, &why, &result, &is_odd)) {
        control_drop(link, "%s", why.text);
        return;
    }
    struct receive_slot *slot =
        receive_side_find(side, link->incarnation, result.prefix.rid);
    if (slot == NULL || header->rid != result.prefix.rid ||
        header->attempt != slot->session.attempt) {
        side->options.stats->frames_dropped++;
        return;
    }
    if (is_odd) {
        log_warn_rare("transfer", "rid %lld: result with an unknown code",
                      (long long)result.prefix.rid);
    }
    side->options.stats->received_slices +=
        result.prefix.code == WIRE_RESULT_SUCCESS;
    struct rx_event event = {.kind = RX_RESULT, .now = now, .result = &result};
    receive_side_step(side, slot, &event);
}

#ifdef MUTATION_AUX_OF_ANOTHER
/* What must not be done: whoever waits takes the next first tokens. */
static struct receive_slot *find_waiting(struct receive_side *side)
{
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_live(slot) &&
            rx_session_awaits_aux(&slot->session)) {
            return slot;
        }
    }
    return NULL;
}
#endif

/* Only of the attempt that waits for it, and once: the tokens of another one
 * never get to the engine (transfer.md I25). */
static void on_aux(struct receive_side *side, struct link *link,
                   const struct wire_header *header, struct span body,
                   uint64_t now)
{
    struct why why = {0};
    struct transfer_aux *aux = NULL;
    enum err err = transfer_aux_decode(body, &why, &aux);
    if (err) {
        control_drop(link, "%s", why.text);
        return;
    }
    struct receive_slot *slot =
        receive_side_find(side, link->incarnation, header->rid);
    bool is_its = slot != NULL && header->attempt == slot->session.attempt;
#ifdef MUTATION_AUX_OF_ANOTHER
    slot = find_waiting(side);
    is_its = slot != NULL;
#endif
    if (!is_its || !rx_session_awaits_aux(&slot->session)) {
        side->options.stats->frames_dropped++;
        mem_free(aux);
        return;
    }
    slot->aux = aux;
    receive_side_simple_step(side, slot, RX_AUX, now);
}

void receive_side_frame(struct receive_side *side, struct link *link,
                        const struct wire_header *header, struct span body,
                        uint64_t now)
{
    if (header->type == WIRE_KV_RESULT) {
        on_result(side, link, header, body, now);
        return;
    }
    if (header->type == WIRE_AUX_RESULT) {
        on_aux(side, link, header, body, now);
        return;
    }
    if (header->type == WIRE_BOUNCE_WANT || header->type == WIRE_BOUNCE_DATA) {
        receive_bounce_frame(side, link, header, body, now);
        return;
    }
    struct receive_slot *slot =
        receive_side_find(side, link->incarnation, header->rid);
    if (header->type == WIRE_CANCEL_SESSION && slot != NULL &&
        slot->session.attempt == header->attempt) {
        receive_side_simple_step(side, slot, RX_PEER_CANCEL, now);
    } else {
        side->options.stats->frames_dropped++;
    }
}

/* The sessions that never got through to `link`. */
static void fail_waiting(struct receive_side *side, const struct link *link,
                         uint64_t now)
{
    uint8_t reason =
        link->is_refused ? AGREE_REASON_REFUSED : AGREE_REASON_TRANSPORT;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_waiting(slot) &&
            slot->session.sender_incarnation == link->wanted &&
            strcmp(slot->endpoint, link->endpoint) == 0) {
            receive_side_fail(side, slot, reason, link->text, now);
        }
    }
}

void receive_side_lost(struct receive_side *side, struct link *link,
                       uint64_t now)
{
    fail_waiting(side, link, now);
    if (link->incarnation == 0 || link->incarnation != link->wanted) {
        return;
    }
    bool is_owed = false;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_live(slot) &&
            slot->session.sender_incarnation == link->incarnation) {
            receive_side_simple_step(side, slot, RX_LOST, now);
            is_owed |= receive_slot_is_live(slot);
        }
    }
    if (is_owed) {
        mourners_add(&side->mourners, link, now);
    }
}

/* A refusal ends in a log line of the link. There may have been two links to the
 * sender, of which one is left: nobody hears of that one's registration again. */
static void ask_again(struct receive_side *side, const struct mourner *mourner,
                      uint64_t now)
{
    struct link *link;
    struct why why;
    enum err err = control_connect(side->control, mourner->endpoint,
                                   mourner->incarnation, &why, &link);
    if (err || link->state != PEER_REGISTERED) {
        return;
    }
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_live(slot) &&
            slot->session.sender_incarnation == mourner->incarnation) {
            receive_side_connected(side, slot, link, now);
        }
    }
}

/* Its process gone is proof where its thread wrote; what an adapter had been
 * given may still land. */
static bool is_quiet_by_death(const struct receive_side *side,
                              const struct receive_slot *slot)
{
    return transfer_backend_toucher(side->options.transfer->backend,
                                    slot->lane) != TRANSFER_NIC;
}

void receive_side_tick_mourner(struct receive_side *side,
                               struct mourner *mourner, uint64_t now)
{
    bool is_gone = transfer_process_is_gone(mourner->process);
    uint32_t owed = 0;
    for (uint32_t i = 0; i < side->slot_count; i++) {
        struct receive_slot *slot = &side->slots[i];
        if (receive_slot_is_live(slot) &&
            slot->session.sender_incarnation == mourner->incarnation) {
            if (is_gone && is_quiet_by_death(side, slot)) {
                receive_side_simple_step(side, slot, RX_GONE, now);
            }
            owed += receive_slot_is_live(slot);
        }
    }
    if (is_gone || owed == 0) {
        mourner_end(mourner);
        return;
    }
    if (now >= mourner->retry_ns) {
        mourner->retry_ns = now + RETRY_NS;
        ask_again(side, mourner, now);
    }
}
