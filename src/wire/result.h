#pragma once
/* wire/result: what became of one slice, the body of KV_RESULT (transfer.md
 * 2.3.3, 2.3.4): the published 34-byte prefix, then this revision's fields.
 *
 *    0 i64 sender rank       34 u32 slice_index   46 u64 bytes so far
 *    8 i64 rid               38 u32 slices_total  54 a group: u32 blocks so far,
 *   16 i64 receiver slice    42 u16 flags            u32 digest_count
 *   24 u8 is_last            44 u8 reason            ...
 *   25 u8 code               45 u8 group_count    digests, group after group:
 *   26 i64 bytes of this slice                       u32 ordinal, u32 CRC32C
 *
 * `slices_total` counts when is_last. Groups go by the receiver's indices; blocks
 * and ordinals are of the smaller of the two sides' tokens_per_block (transfer.md
 * 4.5), a digest covers what of such a block the prompt has, layer after layer,
 * K then V, head after head; where the sizes are equal, all of its page. Pure,
 * any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "wire/frame.h"

enum { WIRE_RESULT_PREFIX_SIZE = 34, WIRE_RESULT_HEAD_SIZE = 54 };

enum wire_result_code {
    WIRE_RESULT_SUCCESS,
    WIRE_RESULT_FAILED,
    WIRE_RESULT_IN_DOUBT
};

enum wire_result_flag {
    /* No operation of this session towards this receiver is alive, and none
     * will start (transfer.md 6.1). */
    WIRE_RESULT_DRAINED = 1
};

/* The part every revision has. */
struct wire_result_prefix {
    int64_t sender_rank;
    int64_t rid;
    int64_t receiver_slice;
    bool is_last;
    enum wire_result_code code;
    int64_t bytes;
};
/* Exactly WIRE_RESULT_PREFIX_SIZE bytes. */
void wire_result_prefix_encode(const struct wire_result_prefix *prefix,
                               struct buf *out);
/* ERR_CORRUPT: another size, a last flag that is no bool, a negative slice or
 * byte count. An unknown code reads as FAILED and sets `is_odd_out`. */
MUST_USE enum err wire_result_prefix_decode(
    struct span body, struct why *why, struct wire_result_prefix *prefix_out,
    bool *is_odd_out);

struct wire_digest {
    uint32_t ordinal;
    uint32_t crc32c;
};

struct wire_result_group {
    uint32_t blocks_so_far; /* of all slices up to this one */
    uint32_t digest_count; /* blocks of this slice */
    struct span digests; /* decoded: a view; read with wire_result_digest */
};

struct wire_result {
    struct wire_result_prefix prefix;
    uint32_t slice_index;
    uint32_t slices_total;
    uint16_t flags;
    uint8_t reason; /* enum agree_reason; not SUCCESS */
    uint8_t group_count; /* 0: nothing is said of blocks */
    uint64_t bytes_so_far;
    struct wire_result_group groups[WIRE_GROUP_COUNT_MAX];
};

/* All but the digests; the counts of the groups say how many follow, each added
 * by wire_result_digest_encode, group after group. */
void wire_result_encode(const struct wire_result *result, struct buf *out);
void wire_result_digest_encode(struct wire_digest digest, struct buf *out);
/* A result for the whole request that failed or never began: last, with the
 * receiver's own slice id, whatever slice the sender is at. */
struct wire_result wire_result_abort(int64_t sender_rank, int64_t rid,
                                     int64_t receiver_slice, uint8_t reason,
                                     uint16_t flags);
/* ERR_CORRUPT: another size than its counts say, or too large a count. */
MUST_USE enum err wire_result_decode(struct span body, struct why *why,
                                     struct wire_result *result_out,
                                     bool *is_odd_out);
/* `index` < digest_count of `group`. */
struct wire_digest wire_result_digest(const struct wire_result *result,
                                      uint32_t group, uint32_t index);
