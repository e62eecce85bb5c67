#pragma once
/* agree/domain: the transfers in flight of one domain, as its sequencer sees
 * them: slots, turns, status words, and what becomes of them (consensus.md 2.6,
 * 5.2, mode A).
 *
 *   start -> [ slot, turn+1: words 0 ] -- publish, any time --> words grow
 *                     |
 *        head of a turn: agree_domain_next gives, once each and in this order,
 *                     |
 *                  DECIDE      the logical state changes; no memory moves
 *                QUARANTINE    proof is overdue: pages stay withheld
 *                  RELEASE     nobody touches the pages any more; slot free
 *
 * `(slot, turn)` names an attempt: what still comes under an older turn is
 * stale, dropped and counted. Words are published by one call a rank; in a
 * domain of one that is the engine with its transfer loop's reports, in a larger
 * one also the votes of the other ranks (agree/word.h reduces them alike). Pure,
 * one thread. */
#include <stdbool.h>
#include <stdint.h>

#include "agree/word.h"
#include "base/err.h"

/* turn << 16 | slot; never 0, since turns start at 1. */
typedef uint64_t agree_ticket;
enum { AGREE_SLOT_COUNT_MAX = 1 << 16 };

struct agree_domain;
struct agree_domain *agree_domain_create(uint32_t slot_count,
                                         uint32_t rank_count);
void agree_domain_destroy(struct agree_domain *domain); /* NULL is fine */

/* ERR_FULL: every slot is in flight. `owner` is handed back with each op. */
MUST_USE enum err agree_domain_start(struct agree_domain *domain,
                                     uint32_t owner, agree_ticket *ticket_out);
/* Adds bits to the word of one rank; a word that would contradict itself or
 * grow illegal gives ERR_INTERNAL and changes nothing: fail that request. A
 * stale ticket is counted, OK. ERR_INVALID: a turn that never began. */
MUST_USE enum err agree_domain_publish(struct agree_domain *domain,
                                       agree_ticket ticket, uint32_t rank,
                                       uint8_t bits, uint8_t reason);
/* What is known now, before any decision; ERR_NOT_FOUND when released. */
MUST_USE enum err agree_domain_look(const struct agree_domain *domain,
                                    agree_ticket ticket,
                                    struct agree_verdict *verdict_out);

enum agree_op_kind { AGREE_DECIDE, AGREE_QUARANTINE, AGREE_RELEASE };
struct agree_op {
    enum agree_op_kind kind;
    agree_ticket ticket;
    uint32_t owner;
    enum agree_outcome outcome;
    uint8_t reason;
};
/* At the head of a turn, until it answers false: all DECIDE, then all
 * QUARANTINE, then all RELEASE, each by ascending slot. */
bool agree_domain_next(struct agree_domain *domain, struct agree_op *op_out);

uint32_t agree_domain_active_count(const struct agree_domain *domain);
uint32_t agree_domain_quarantined_count(const struct agree_domain *domain);
uint64_t agree_domain_stale_count(const struct agree_domain *domain);
