#include "agree/domain.h"

#include "base/check.h"
#include "base/mem.h"

enum stage { FREE, ACTIVE, DECIDED, QUARANTINED, RETIRED };

struct slot {
    enum stage stage;
    uint32_t turn;
    uint32_t owner;
    enum agree_outcome outcome; /* fixed by DECIDE */
    uint8_t reason;
    uint8_t *words; /* (rank_count) */
    uint8_t *reasons; /* (rank_count) */
};

struct agree_domain {
    uint32_t slot_count;
    uint32_t rank_count;
    uint32_t active_count;
    uint32_t quarantined_count;
    uint64_t stale_count;
    struct slot *slots;
    uint8_t *words; /* (slot, word or reason, rank) */
};

struct agree_domain *agree_domain_create(uint32_t slot_count,
                                         uint32_t rank_count)
{
    CHECK(slot_count <= AGREE_SLOT_COUNT_MAX);
    CHECK(rank_count > 0);
    struct agree_domain *domain = mem_new(sizeof(*domain));
    domain->slot_count = slot_count;
    domain->rank_count = rank_count;
    domain->slots = mem_new_array(slot_count, sizeof(domain->slots[0]));
    domain->words = mem_new_array((size_t)slot_count * 2, rank_count);
    for (size_t i = 0; i < slot_count; i++) {
        domain->slots[i].words = domain->words + i * 2 * rank_count;
        domain->slots[i].reasons = domain->slots[i].words + rank_count;
    }
    return domain;
}

void agree_domain_destroy(struct agree_domain *domain)
{
    if (domain == NULL) {
        return;
    }
    mem_free(domain->words);
    mem_free(domain->slots);
    mem_free(domain);
}

static agree_ticket ticket_of(const struct agree_domain *domain,
                              const struct slot *slot)
{
    return (uint64_t)slot->turn << 16 | (uint64_t)(slot - domain->slots);
}

enum err agree_domain_start(struct agree_domain *domain, uint32_t owner,
                            agree_ticket *ticket_out)
{
    for (uint32_t i = 0; i < domain->slot_count; i++) {
        struct slot *slot = &domain->slots[i];
        if (slot->stage != FREE) {
            continue;
        }
        slot->stage = ACTIVE;
#ifdef MUTATION_SHARED_TURN
        slot->turn = 1;
#else
        slot->turn++;
#endif
        slot->owner = owner;
        slot->outcome = AGREE_PENDING;
        slot->reason = AGREE_REASON_NONE;
        for (uint32_t rank = 0; rank < domain->rank_count; rank++) {
            slot->words[rank] = 0;
            slot->reasons[rank] = AGREE_REASON_NONE;
        }
        domain->active_count++;
        *ticket_out = ticket_of(domain, slot);
        return OK;
    }
    return ERR_FULL;
}

/* The slot that a ticket names, NULL when its attempt is over. */
static struct slot *slot_of(const struct agree_domain *domain,
                            agree_ticket ticket)
{
    uint32_t index = (uint32_t)(ticket & 0xffff);
    if (index >= domain->slot_count) {
        return NULL;
    }
    struct slot *slot = &domain->slots[index];
    bool is_live = slot->stage != FREE && slot->stage != RETIRED;
    return is_live && slot->turn == ticket >> 16 ? slot : NULL;
}

static bool never_began(const struct agree_domain *domain, agree_ticket ticket)
{
    uint32_t index = (uint32_t)(ticket & 0xffff);
    return index >= domain->slot_count ||
           ticket >> 16 > domain->slots[index].turn || ticket >> 16 == 0;
}

enum err agree_domain_publish(struct agree_domain *domain, agree_ticket ticket,
                              uint32_t rank, uint8_t bits, uint8_t reason)
{
    CHECK(rank < domain->rank_count);
    if (never_began(domain, ticket)) {
        return ERR_INVALID;
    }
    struct slot *slot = slot_of(domain, ticket);
    if (slot == NULL) {
        domain->stale_count++;
        return OK;
    }
    uint8_t word = slot->words[rank] | bits;
    if (reason >= AGREE_REASON_COUNT ||
        !agree_word_may_become(slot->words[rank], word)) {
        return ERR_INTERNAL;
    }
    slot->words[rank] = word;
    uint8_t known = slot->reasons[rank];
    if (known == AGREE_REASON_NONE || (reason > 0 && reason < known)) {
        slot->reasons[rank] = reason;
    }
    return OK;
}

/* Words were checked one by one when they were published. */
static struct agree_verdict verdict_of(const struct agree_domain *domain,
                                       const struct slot *slot)
{
    struct agree_verdict verdict = {.outcome = AGREE_PENDING};
    CHECK(agree_reduce(slot->words, slot->reasons, domain->rank_count,
                       &verdict) == OK);
    return verdict;
}

enum err agree_domain_look(const struct agree_domain *domain,
                           agree_ticket ticket,
                           struct agree_verdict *verdict_out)
{
    const struct slot *slot = slot_of(domain, ticket);
    if (slot == NULL) {
        return ERR_NOT_FOUND;
    }
    *verdict_out = verdict_of(domain, slot);
    return OK;
}

static bool try_decide(struct slot *slot, const struct agree_verdict *verdict)
{
    if (slot->stage != ACTIVE || !verdict->is_decided) {
        return false;
    }
    slot->stage = DECIDED;
    slot->outcome = verdict->outcome;
    slot->reason = verdict->reason;
    return true;
}

static bool try_quarantine(struct agree_domain *domain, struct slot *slot,
                           const struct agree_verdict *verdict)
{
    if (slot->stage != DECIDED || !verdict->needs_quarantine) {
        return false;
    }
    slot->stage = QUARANTINED;
    domain->quarantined_count++;
    return true;
}

/* A slot whose turns are used up is never lent again. */
static bool try_release(struct agree_domain *domain, struct slot *slot,
                        const struct agree_verdict *verdict)
{
    bool is_waiting = slot->stage == DECIDED || slot->stage == QUARANTINED;
    if (!is_waiting || !verdict->is_reclaimable) {
        return false;
    }
    domain->quarantined_count -= slot->stage == QUARANTINED;
    domain->active_count--;
    slot->stage = slot->turn == UINT32_MAX ? RETIRED : FREE;
    return true;
}

static bool try_op(struct agree_domain *domain, struct slot *slot,
                   enum agree_op_kind kind)
{
    if (slot->stage == FREE || slot->stage == RETIRED) {
        return false;
    }
    struct agree_verdict verdict = verdict_of(domain, slot);
    switch (kind) {
    case AGREE_DECIDE:
        return try_decide(slot, &verdict);
    case AGREE_QUARANTINE:
        return try_quarantine(domain, slot, &verdict);
    case AGREE_RELEASE:
        return try_release(domain, slot, &verdict);
    }
    CHECK_UNREACHABLE();
}

bool agree_domain_next(struct agree_domain *domain, struct agree_op *op_out)
{
    if (domain->active_count == 0) {
        return false;
    }
    for (int kind = AGREE_DECIDE; kind <= AGREE_RELEASE; kind++) {
        for (uint32_t i = 0; i < domain->slot_count; i++) {
            struct slot *slot = &domain->slots[i];
            if (!try_op(domain, slot, (enum agree_op_kind)kind)) {
                continue;
            }
            *op_out = (struct agree_op){.kind = (enum agree_op_kind)kind,
                                        .ticket = ticket_of(domain, slot),
                                        .owner = slot->owner,
                                        .outcome = slot->outcome,
                                        .reason = slot->reason};
            return true;
        }
    }
    return false;
}

uint32_t agree_domain_active_count(const struct agree_domain *domain)
{
    return domain->active_count;
}

uint32_t agree_domain_quarantined_count(const struct agree_domain *domain)
{
    return domain->quarantined_count;
}

uint64_t agree_domain_stale_count(const struct agree_domain *domain)
{
    return domain->stale_count;
}
