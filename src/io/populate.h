#pragma once
/* io/populate: makes the pages of a large writable mapping resident from a
 * thread of its own. A page that is first touched by use costs the user ten
 * times what one of a run costs here, at the worst moment; on virtual machines
 * 10 us and more. What is there already is left as it is, so the owner may use
 * the memory meanwhile. */
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/span.h"

/* The same on the caller's thread, for whole pages inside the range: 1 us a
 * page, up to 10 under a hypervisor. False: the kernel refuses, now and later.
 */
bool io_populate_range(void *memory, size_t size);
/* For a file mapped read only: every page that `bytes` has a part in, read from
 * its device if need be, on the caller's thread. */
bool io_populate_read(struct span bytes);

struct io_populate;

/* Begins at the low end. Pages that the kernel refuses stay as they are. The
 * memory must outlive io_populate_finish. ERR_IO: no thread; the memory works
 * as well without. */
MUST_USE enum err io_populate_start(void *memory, size_t size,
                                    struct io_populate **populate_out);
/* True once it is through, whether the kernel took part or not. */
bool io_populate_is_done(const struct io_populate *populate);
/* Stops within a few milliseconds where it is not done. NULL is fine. */
void io_populate_finish(struct io_populate *populate);
