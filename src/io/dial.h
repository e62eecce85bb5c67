#pragma once
/* io/dial: a host on its way to a connection.
 *
 *   create -> [ its name is looked up ] -> on_found
 *          -> next: an address -> refused or late: next ... -> destroy
 *
 * Digits and names that are known have their addresses from the start. All of it
 * together has until `limit_ns`: the look-up, then each address an equal share of
 * what is left, at most 0.4 s where there is another. Sockets are the caller's. One thread, the resolver's. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct io_dial;
struct io_endpoint;
struct io_resolver;

struct io_dial_options {
    const char *host; /* copied */
    uint16_t port;
    struct io_resolver *resolver; /* NULL: only digits will do */
    uint64_t now, limit_ns;
    /* Later and once, where io_dial_next says ERR_BUSY: ask it again. */
    void (*on_found)(void *context);
    void *context;
};
/* ERR_INVALID: no host is called so. */
MUST_USE enum err io_dial_create(const struct io_dial_options *options,
                                 struct why *why, struct io_dial **dial_out);
/* The next address. ERR_BUSY: the name service has not answered. ERR_IO: it has
 * no address. ERR_NOT_FOUND: all have been tried, `why` is as it was. */
MUST_USE enum err io_dial_next(struct io_dial *dial, uint64_t now,
                               struct why *why,
                               struct io_endpoint *endpoint_out);
/* There is one more to try. */
bool io_dial_has_next(const struct io_dial *dial);
/* How long the address given last may take, or the look-up. */
uint64_t io_dial_until_ns(const struct io_dial *dial);
/* Also while the name is looked up; on_found comes no more. NULL is fine. */
void io_dial_destroy(struct io_dial *dial);
