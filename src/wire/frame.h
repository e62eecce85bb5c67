#pragma once
/* wire/frame: the envelope of every control message (transfer.md 2.3.4).
 *
 *   off  0 u32 magic "BTN1"      off 24 i64 rid
 *        4 u16 version               32 u32 attempt
 *        6 u16 type                  36 u32 body_size
 *        8 u64 source_incarnation    40 u32 CRC32C of bytes 0..39 and the body
 *       16 u64 target_incarnation    44 body
 *
 * The target is 0 while the sender of a hello does not know it yet. Pure, any
 * thread. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum {
    WIRE_MAGIC = 0x314e5442,
    WIRE_VERSION = 3,
    WIRE_HEADER_SIZE = 44,
    WIRE_BLOCK_COUNT_MAX = 65536, /* blocks one message may name, all groups */
    WIRE_GROUP_COUNT_MAX = 4, /* life cycles */
    WIRE_BODY_SIZE_MAX = 1024 * 1024
};

enum wire_type {
    WIRE_REGISTER = 1, /* receiver -> sender: rank info */
    WIRE_REGISTERED, /* sender -> receiver: rank info */
    WIRE_REFUSED, /* either: why not, then the connection ends */
    WIRE_REQUEST_DATA, /* receiver -> sender */
    WIRE_KV_RESULT, /* sender -> receiver */
    WIRE_CANCEL_SESSION, /* either */
    WIRE_HEARTBEAT, /* either, no body */
    WIRE_AUX_RESULT, /* sender -> receiver, before the last KV_RESULT */
    WIRE_BOUNCE_WANT, /* sender -> receiver, these four: wire/bounce.h */
    WIRE_BOUNCE_GRANT, /* receiver -> sender */
    WIRE_BOUNCE_DATA, /* sender -> receiver */
    WIRE_BOUNCE_ACK, /* receiver -> sender */
    WIRE_GREET, /* receiver -> sender, these three first: wire/greeting.h */
    WIRE_GREETED, /* sender -> receiver */
    WIRE_PROOF, /* receiver -> sender */
    WIRE_TYPE_END
};
const char *wire_type_name(uint16_t type);

struct wire_header {
    uint16_t type;
    uint64_t source_incarnation;
    uint64_t target_incarnation;
    int64_t rid;
    uint32_t attempt;
    uint32_t body_size; /* set by decode; encode takes the body's */
};

/* Adds header and body to `out`. ERR_FULL: the body or `out` is too large,
 * nothing usable was added. */
MUST_USE enum err wire_frame_encode(const struct wire_header *header,
                                    struct span body, struct buf *out);

/* How many bytes the frame at the start of `input` has, as far as it says so:
 * those of a header until that is there. Unchecked. */
size_t wire_frame_size(struct span input);

/* Reads the frame at the start of `input`. ERR_BUSY: not all of it is there
 * yet. ERR_CORRUPT (magic, size, digest) and ERR_UNSUPPORTED (version): drop
 * the connection, nothing after this can be trusted. Unknown types decode. */
MUST_USE enum err wire_frame_decode(struct span input, struct why *why,
                                    struct wire_header *header_out,
                                    struct span *body_out, size_t *used_out);
