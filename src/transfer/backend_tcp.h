#pragma once
/* transfer/backend_tcp: pages over TCP, for hosts without RDMA.
 *
 *   sender: pool pages --sendmsg--> kernel ~~~ kernel --recvmsg--> pool pages
 *           <------------------------ ACK, once all bytes are there ---------
 *
 * No copy of ours on either side. A connection, one for each sender and
 * receiver, must prove within 2 s that it knows the secret (tcp_wire.h): the
 * key of all instances and a nonce that only control connections carry; before
 * that at most 128 bytes of it are read. The bytes themselves are neither
 * encrypted nor signed: keep data connections on a network you trust.
 *
 * The receiver's own thread puts the bytes into its pool (SELF_COPY), and only
 * where a grant says so (tcp_grants.h): after revoke nothing lands. A broken
 * connection gives its writes back STOPPED; the next write connects again. A
 * receiver's name is looked up aside (io/resolver), our own `host` at create. */
#include <stdint.h>

#include "base/span.h"
#include "io/resolver.h"
#include "transfer/backend.h"

struct transfer_backend_tcp_options {
    uint64_t incarnation;
    const char *host; /* to listen on */
    const char *advertise; /* for others to connect to; NULL: host */
    uint16_t port; /* 0: any free one */
    struct span key; /* of all instances; may be empty; copied */
    uint32_t receive_count_max; /* authorised at once; 0: 1024 */
    struct io_look_up look_up; /* of receivers' names; nothing: the system's */
};
/* ERR_INVALID: the host; ERR_IO: the port. */
MUST_USE enum err transfer_backend_tcp_create(
    const struct transfer_backend_tcp_options *options, struct why *why,
    struct transfer_backend **backend_out);
