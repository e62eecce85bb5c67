#pragma once
/* transfer/fault_plan: how a write is carried out wrongly on purpose, told as
 * another list of pieces. Pure. Private to backend_fault. */
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "transfer/backend.h"

/* Another list than the write's own; `pieces` is mem_free's. */
struct fault_plan {
    struct transfer_piece *pieces; /* NULL: the write's own */
    size_t count;
};

void fault_plan_copy(struct fault_plan *plan,
                     const struct transfer_write *write);
void fault_plan_reverse(struct fault_plan *plan);
/* False: there is none to leave out. */
bool fault_plan_drop(struct fault_plan *plan, struct rng *rng);
/* One byte of one piece is taken from elsewhere in the source pool, where it
 * differs. False: no such byte was found. */
bool fault_plan_corrupt(struct fault_plan *plan, struct rng *rng,
                        const uint8_t *source, size_t source_size);
/* The digests that the write would have told. */
void fault_plan_digest(const struct transfer_write *write,
                       const uint8_t *source);
