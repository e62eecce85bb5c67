#pragma once
/* base/mem: the one home of the heap.
 *
 * Memory is zeroed. `mem_new` and `mem_new_array` serve objects whose size we
 * choose: the process ends when the system has none, since nothing sensible is
 * left to do. `mem_try_array` serves sizes that come from a file, a peer or a
 * config: it answers NULL on overflow or refusal. Every allocation counts, so
 * that a test can prove that steady state allocates nothing. Any thread. */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

MUST_USE void *mem_new(size_t size);
MUST_USE void *mem_new_array(size_t count, size_t size);
MUST_USE void *mem_try_array(size_t count, size_t size);
/* Aligned to `alignment`, a power of two; NULL when refused. */
MUST_USE void *mem_try_aligned(size_t alignment, size_t size);
/* Grows or shrinks; new bytes are not zeroed; NULL when refused. */
MUST_USE void *mem_try_resize(void *memory, size_t size);
MUST_USE char *mem_copy_string(const char *text);
MUST_USE void *mem_copy(const void *data, size_t size);
/* Ends memory of any call above. NULL is fine. */
void mem_free(void *memory);

/* Allocations made by this process so far. */
uint64_t mem_allocation_count(void);
