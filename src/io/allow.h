#pragma once
/* io/allow: the hosts that may be met, as a person lists them (transfer.md 2.1).
 *
 *   "10.0.0.0/8, gpu-3.example, 2001:db8::/32, [fd00::7]"
 *
 * An entry is an address, a block of addresses whose host bits are zero, or a
 * name. A name stands for itself and for the addresses it has when the list is
 * made. An address of IPv4 written as one of IPv6 (::ffff:10.0.0.7) is the same
 * as 10.0.0.7. Immutable once made: any thread. */
#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"

enum { IO_ALLOW_ENTRY_MAX = 256 };

struct io_allow;
/* ERR_INVALID names the entry and what is wrong with it: a list that cannot be
 * read allows nobody, it does not allow all. Asks the system's resolver for
 * names, which may block: for a process's start. */
MUST_USE enum err io_allow_create(struct span text, struct why *why,
                                  struct io_allow **allow_out);
/* Reads it all and asks nobody: whether the names are known is not seen. */
MUST_USE enum err io_allow_check(struct span text, struct why *why);
void io_allow_destroy(struct io_allow *allow); /* NULL is fine */

/* `host` as an endpoint has it: an address without brackets, or a name. A name
 * that is not in the list is not looked up: what it means could change. */
bool io_allow_has(const struct io_allow *allow, const char *host);
