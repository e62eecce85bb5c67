#pragma once
/* io/resolve: a host and a port as the system wants them. Private to io.
 * Addresses in digits and "localhost" are answered at once; any other name asks
 * the system's resolver and may block the caller for as long as that takes. */
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct io_endpoint {
    struct sockaddr_storage address;
    socklen_t size;
};

/* ERR_INVALID: the name is empty, malformed or unknown. */
MUST_USE enum err io_resolve(const char *host, uint16_t port, struct why *why,
                             struct io_endpoint *endpoint_out);

/* Every address of it, at most `capacity`. */
MUST_USE enum err io_resolve_all(const char *host, uint16_t port,
                                 struct why *why,
                                 struct io_endpoint *endpoints_out,
                                 uint32_t capacity, uint32_t *count_out);

enum { IO_ENDPOINT_TEXT_SIZE = 64 };
/* "127.0.0.1:4711" or "[::1]:4711". */
void io_endpoint_text(const struct io_endpoint *endpoint,
                      char text_out[IO_ENDPOINT_TEXT_SIZE]);
/* The address alone, without brackets. */
void io_endpoint_host(const struct io_endpoint *endpoint,
                      char text_out[IO_ENDPOINT_TEXT_SIZE]);
uint16_t io_endpoint_port(const struct io_endpoint *endpoint);
