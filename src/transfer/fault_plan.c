#include "transfer/fault_plan.h"

#include <string.h>

#include "base/digest.h"
#include "base/mem.h"

enum { CORRUPT_PARTS = 2, TRIES = 4096 };

void fault_plan_copy(struct fault_plan *plan,
                     const struct transfer_write *write)
{
    if (plan->pieces != NULL) {
        return;
    }
    plan->count = write->piece_count;
    /* A corrupt piece becomes three. */
    plan->pieces =
        mem_new_array(plan->count + CORRUPT_PARTS, sizeof(plan->pieces[0]));
    if (plan->count > 0) {
        memcpy(plan->pieces, write->pieces,
               plan->count * sizeof(plan->pieces[0]));
    }
}

void fault_plan_reverse(struct fault_plan *plan)
{
    for (size_t i = 0; i < plan->count / 2; i++) {
        struct transfer_piece *other = &plan->pieces[plan->count - 1 - i];
        struct transfer_piece kept = plan->pieces[i];
        plan->pieces[i] = *other;
        *other = kept;
    }
}

bool fault_plan_drop(struct fault_plan *plan, struct rng *rng)
{
    if (plan->count == 0) {
        return false;
    }
    size_t at = rng_below(rng, plan->count);
    plan->pieces[at] = plan->pieces[--plan->count];
    return true;
}

/* Where a byte other than `byte` is. */
static bool find_other(uint8_t byte, const uint8_t *source, size_t source_size,
                       struct rng *rng, uint64_t *offset_out)
{
    uint64_t begin = rng_below(rng, source_size);
    for (size_t i = 0; i < TRIES && i < source_size; i++) {
        uint64_t offset = (begin + i) % source_size;
        if (source[offset] != byte) {
            *offset_out = offset;
            return true;
        }
    }
    return false;
}

bool fault_plan_corrupt(struct fault_plan *plan, struct rng *rng,
                        const uint8_t *source, size_t source_size)
{
    if (plan->count == 0) {
        return false;
    }
    struct transfer_piece *piece = &plan->pieces[rng_below(rng, plan->count)];
    uint64_t offset;
    if (piece->size == 0) {
        return false;
    }
    uint64_t at = rng_below(rng, piece->size);
    if (!find_other(source[piece->source_offset + at], source, source_size, rng,
                    &offset)) {
        return false;
    }
    struct transfer_piece whole = *piece;
    piece->size = at;
    plan->pieces[plan->count++] =
        (struct transfer_piece){offset, whole.target_offset + at, 1, 0};
    plan->pieces[plan->count++] = (struct transfer_piece){
        whole.source_offset + at + 1, whole.target_offset + at + 1,
        whole.size - at - 1, 0};
    return true;
}

void fault_plan_digest(const struct transfer_write *write,
                       const uint8_t *source)
{
    for (size_t i = 0; i < write->piece_count; i++) {
        struct transfer_piece *piece = &write->pieces[i];
        piece->crc32c = digest_crc32c(
            0, span_of(source + piece->source_offset, piece->size));
    }
}
