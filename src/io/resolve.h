#pragma once
/* io/resolve: a host and a port as the system wants them. Its
 * functions are private to io.
 * Digits and "localhost" are known at once; any other name asks the system, which
 * may take as long as a name server is silent. Loops ask io/resolver instead; who
 * may wait (a listening address, a list of hosts, both at a process's start) asks
 * here. */
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct io_endpoint {
    struct sockaddr_storage address;
    socklen_t size;
};

enum { IO_ADDRESS_MAX = 16 };
struct io_addresses {
    uint32_t count; /* at least 1 */
    struct io_endpoint list[IO_ADDRESS_MAX];
};

/* True: digits or "localhost". Never blocks. */
bool io_resolve_digits(const char *host, uint16_t port,
                       struct io_endpoint *endpoint_out);
/* ERR_INVALID: no host is called so, it is empty or over 255 bytes. */
MUST_USE enum err io_resolve_check(const char *host, struct why *why);
/* What the system says of a name, with port 0; of many addresses the first.
 * May block. ERR_INVALID: the name is unknown, or nobody can tell. */
MUST_USE enum err io_resolve_name(const char *name, struct why *why,
                                  struct io_addresses *addresses_out);
/* Of digits or a name: may block. */
MUST_USE enum err io_resolve_all(const char *host, struct why *why,
                                 struct io_addresses *addresses_out);

enum { IO_ENDPOINT_TEXT_SIZE = 64 };
/* "127.0.0.1:4711" or "[::1]:4711". */
void io_endpoint_text(const struct io_endpoint *endpoint,
                      char text_out[IO_ENDPOINT_TEXT_SIZE]);
/* The address alone, without brackets. */
void io_endpoint_host(const struct io_endpoint *endpoint,
                      char text_out[IO_ENDPOINT_TEXT_SIZE]);
uint16_t io_endpoint_port(const struct io_endpoint *endpoint);
void io_endpoint_set_port(struct io_endpoint *endpoint, uint16_t port);
