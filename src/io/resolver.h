#pragma once
/* io/resolver: names looked up off the loops. The system may take as long over a
 * name as a name server is silent, so it is asked from threads that do nothing
 * else.
 *
 *   ask, ask, cancel, ask    one owner, one thread
 *      \    |        /
 *     names: WAITING -> ASKED -> ANSWERED -> KNOWN -> asked anew, or gone
 *               |          |       |
 *          [ queue ]  [ threads ]  waker -> step -> on_answer
 *
 * All who ask for a name share one question. Names are asked for in the order in
 * which they came, and one keeps its place though all who asked have left: of
 * names that hang each holds a thread for as long as the system lets it, and
 * those behind them are next. A name that is known is asked for again after a
 * second, but beside those who need it: they have the last addresses, until these
 * led nowhere. So a name service that is silent or ill takes no host away that
 * is there, and a host that moved costs one connect. Failures are not kept.
 *
 * Threads live while names wait, `thread_max` at most for each resolver. None is
 * ever joined: one that hangs keeps what it shares with the owner by a count, and
 * finds nobody when it comes back. Each loop has a resolver, made when the first
 * name is asked for. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/resolve.h"

struct io_loop;
struct io_waker;
struct io_resolver;

struct io_look_up {
    /* As io_resolve_name. Any thread. */
    enum err (*ask)(void *context, const char *name, struct why *why,
                    struct io_addresses *addresses_out);
    void *context;
};

struct io_resolver_options {
    struct io_waker *waker; /* woken when there is an answer; the owner's */
    struct io_look_up look_up; /* nothing: the system's */
    bool is_instant; /* it never blocks: asked here, without a thread */
    uint32_t thread_max; /* 0: 8 */
    uint32_t name_max; /* waiting and known; 0: 64 */
};
struct io_resolver *io_resolver_create(
    const struct io_resolver_options *options);
/* All queries are over. Waits for no look-up. NULL is fine. */
void io_resolver_destroy(struct io_resolver *resolver);
/* Tells the answers that are there: after each wake. */
void io_resolver_step(struct io_resolver *resolver, uint64_t now);

/* One who waits for a name; embedded by callers. */
struct io_query {
    /* Once, from io_resolver_step; the addresses have port 0 and are NULL where
     * `text` says why there are none. */
    void (*on_answer)(void *context, const struct io_addresses *addresses,
                      const char *text);
    void *context;
    /* private */
    struct io_name *name; /* NULL: does not wait */
    struct io_query *next;
};

/* What is known already; it may be asked for anew. */
bool io_resolver_find(struct io_resolver *resolver, const char *name,
                      uint64_t now, struct io_addresses *addresses_out);
/* `query` is read until its answer or its cancel. ERR_FULL: so many names wait.
 * ERR_IO: no thread to ask from. */
MUST_USE enum err io_resolver_ask(struct io_resolver *resolver,
                                  const char *name, struct why *why,
                                  struct io_query *query);
/* Its answer does not come any more. Fine when it came, or nobody asked. */
void io_resolver_cancel(struct io_query *query);
/* Its addresses lead nowhere: the next who needs it asks anew. */
void io_resolver_forget(struct io_resolver *resolver, const char *name);

/* The loop's own. ERR_IO: no descriptor is left. */
MUST_USE enum err io_loop_resolver(struct io_loop *loop, struct why *why,
                                   struct io_resolver **resolver_out);
/* For tests, before the loop's first name: other options; no waker is needed. */
MUST_USE enum err io_loop_resolve_with(
    struct io_loop *loop, const struct io_resolver_options *options);
