#pragma once
/* wire/recv_request: a receiver's advertisement, the body of REQUEST_DATA
 * (transfer.md 2.3.2, 2.3.4): where each block of the prompt goes.
 *
 *   block list of a group: raw little-endian int64, one a block ordinal
 *   0 .. block_count - 1; value = page of the receiver's pool, -1 = not wanted.
 *   Blocks and groups are the receiver's, as its rank info tells them.
 *   A group without blocks has an empty list. All lists together have at most
 *   WIRE_BLOCK_COUNT_MAX entries.
 *
 * Lists of older revisions (a suffix with a start token, or with first
 * ordinals) say nothing certain about position and are refused. Pure. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "wire/frame.h"

enum { WIRE_BLOCK_LAYOUT = 3 };

enum wire_schedule_style { WIRE_CONTEXT_FIRST, WIRE_GENERATION_FIRST };

enum wire_capability { WIRE_ACCEPTS_SLICES = 1 };

struct wire_recv_request {
    int64_t rid; /* equals the header's */
    uint32_t instance_rank;
    int64_t slice_id; /* of the receiver; echoed in results */
    uint32_t prompt_tokens;
    uint32_t block_count; /* ordinals the prompt has */
    uint32_t style; /* enum wire_schedule_style */
    uint32_t capabilities;
    char reply_endpoint[280];
    uint32_t group_count;
    struct span groups[WIRE_GROUP_COUNT_MAX];
};

/* ERR_INVALID: an anchor is missing (no prompt, no blocks, a list of another
 * length, too many blocks), nothing was added. */
MUST_USE enum err wire_recv_request_encode(
    const struct wire_recv_request *request, struct why *why, struct buf *out);
/* ERR_CORRUPT, ERR_INVALID names the field, ERR_UNSUPPORTED: older layout. */
MUST_USE enum err wire_recv_request_decode(
    struct span body, struct why *why, struct wire_recv_request *request_out);
/* Page of one ordinal, -1 in an empty group. `ordinal` < block_count. */
int64_t wire_recv_request_page(const struct wire_recv_request *request,
                               uint32_t group, uint32_t ordinal);
