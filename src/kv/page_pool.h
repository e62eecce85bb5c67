#pragma once
/* kv/page_pool: a fixed set of equal pages, lent out by reference count and
 * held in place by leases.
 *
 *              take                    last unref
 *     FREE ------------> refs > 0 ---------------------> FREE
 *       ^                   |  last unref, leases > 0
 *       |                   v
 *       +--------- refs = 0, leases > 0
 *     last unlease
 *
 * A reference says that somebody reads or writes the page in this process, a
 * lease that a transfer may still touch it (transfer.md 6.2). Both must be gone
 * before the page is lent again, whoever asks. The pool owns the pages, callers
 * own references and leases; one thread owns the pool. It knows ids only, never
 * bytes. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/ids.h"

struct kv_page_pool;
struct kv_page_pool *kv_page_pool_create(uint32_t page_count);
void kv_page_pool_destroy(struct kv_page_pool *pool); /* NULL is fine */

/* Lends one free page with one reference. ERR_FULL: evict, then ask again. */
MUST_USE enum err kv_page_pool_take(struct kv_page_pool *pool,
                                    kv_page_id *page_out);
void kv_page_pool_ref(struct kv_page_pool *pool, kv_page_id page);
void kv_page_pool_unref(struct kv_page_pool *pool, kv_page_id page);
/* Only for a page that has a reference. */
void kv_page_pool_lease(struct kv_page_pool *pool, kv_page_id page);
void kv_page_pool_unlease(struct kv_page_pool *pool, kv_page_id page);

uint32_t kv_page_pool_page_count(const struct kv_page_pool *pool);
uint32_t kv_page_pool_free_count(const struct kv_page_pool *pool);
/* Pages with at least one lease. */
uint32_t kv_page_pool_leased_count(const struct kv_page_pool *pool);
uint32_t kv_page_pool_refs(const struct kv_page_pool *pool, kv_page_id page);
uint32_t kv_page_pool_leases(const struct kv_page_pool *pool, kv_page_id page);
/* Free list and counts agree: each page is free exactly if it has neither. */
bool kv_page_pool_is_valid(const struct kv_page_pool *pool);
