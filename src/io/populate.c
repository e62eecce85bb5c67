#include "io/populate.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/thread.h"

/* A step: long enough to be cheap a page, short enough to stop soon. */
enum { STEP_SIZE = 4 * 1024 * 1024 };

struct io_populate {
    struct io_thread *thread;
    uint8_t *memory; /* at the first whole page */
    size_t size;
    atomic_bool is_stopped;
    atomic_bool is_done;
};

static uintptr_t page_size(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Some hypervisors shadow the page tables, and fill the shadow only when a
 * page is really used: one byte of each is read. The owner may be writing it;
 * nobody looks at what was read, so that race is none, and ThreadSanitizer is
 * told so. */
__attribute__((no_sanitize_thread)) static void use(uintptr_t at)
{
    (void)*(const volatile uint8_t *)at;
}

static bool populate(uintptr_t at, uintptr_t end, int advice)
{
    if (at >= end) {
        return true;
    }
    if (madvise((void *)at, end - at, advice) != 0) {
        return false;
    }
    for (; at < end; at += page_size()) {
        use(at);
    }
    return true;
}

bool io_populate_range(void *memory, size_t size)
{
    uintptr_t mask = page_size() - 1;
    return populate(((uintptr_t)memory + mask) & ~mask,
                    ((uintptr_t)memory + size) & ~mask, MADV_POPULATE_WRITE);
}

bool io_populate_read(struct span bytes)
{
    uintptr_t mask = page_size() - 1;
    uintptr_t at = (uintptr_t)bytes.data & ~mask;
    uintptr_t end = ((uintptr_t)bytes.data + bytes.size + mask) & ~mask;
    if (bytes.size == 0) {
        return true;
    }
    /* The device reads ahead of us. */
    IGNORE(madvise((void *)at, end - at, MADV_WILLNEED));
    return populate(at, end, MADV_POPULATE_READ);
}

static void run(void *context)
{
    struct io_populate *populate = context;
    size_t at = 0;
    while (at < populate->size && !atomic_load(&populate->is_stopped)) {
        size_t left = populate->size - at;
        size_t size = left < STEP_SIZE ? left : STEP_SIZE;
        /* An older kernel, a limit: then use touches what is left. */
        if (!io_populate_range(populate->memory + at, size)) {
            break;
        }
        at += size;
    }
    atomic_store(&populate->is_done, true);
}

enum err io_populate_start(void *memory, size_t size,
                           struct io_populate **populate_out)
{
    size_t skipped = -(uintptr_t)memory & (page_size() - 1);
    struct io_populate *populate = mem_new(sizeof(*populate));
    populate->memory = (uint8_t *)memory + skipped;
    populate->size = size > skipped ? size - skipped : 0;
    enum err code =
        io_thread_start("populate", run, populate, &populate->thread);
    if (code != OK) {
        mem_free(populate);
        return code;
    }
    *populate_out = populate;
    return OK;
}

bool io_populate_is_done(const struct io_populate *populate)
{
    return atomic_load(&populate->is_done);
}

void io_populate_finish(struct io_populate *populate)
{
    if (populate == NULL) {
        return;
    }
    atomic_store(&populate->is_stopped, true);
    io_thread_join(populate->thread);
    mem_free(populate);
}
