#pragma once
/* engine/copies: carries out the cache's page copies (kv/store.h: struct
 * kv_order), for the shell. With one level they are a memcpy each, done at once.
 * With a level below they go to a page copy engine (device/copy.h) on a thread
 * of its own, so that what is put away or comes back moves while the model
 * computes; a turn waits only for pages that its own batch reads or writes.
 *
 *   core's orders --start--> memcpy, or copier --finish--> engine_core_copy_done
 *
 * The engine's thread owns it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/core.h"
#include "kv/view.h"

struct io_waker;
struct engine_copies;

struct engine_copies_options {
    /* By level and pool group; outlive it. levels[1] NULL: one level. */
    const struct kv_pool_view *levels[KV_LEVEL_COUNT_MAX];
    struct io_waker *waker; /* woken when copies have finished */
};
/* What device_copier_host_create says. */
MUST_USE enum err engine_copies_create(
    const struct engine_copies_options *options,
    struct engine_copies **copies_out);
/* Waits for what runs. NULL is fine. */
void engine_copies_destroy(struct engine_copies *copies);

/* Begins what the core orders, and tells it what has finished. */
void engine_copies_run(struct engine_copies *copies, struct engine_core *core);
/* Does something move yet, or wait to? */
bool engine_copies_are_pending(const struct engine_copies *copies,
                               const struct engine_core *core);
