#pragma once
/* The block lists of the first revision of pipelined transfer, kept as a judge
 * (transfer.md 3.5, 3.6): a list is a bare resident suffix and its position is
 * inferred from its length. Where a list is what it claims to be, its pairs are
 * those of the dense form; where it is not, it shifts every block, which is why
 * the product does not use it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kv/ids.h"
#include "transfer/pairing.h"

struct old_list {
    const kv_page_id *ids;
    uint32_t count;
};

/* The part of `list`, resident suffix of [0, resident_end), that lies in
 * [offset, offset + count). */
static inline struct old_list old_project(struct old_list list, uint32_t offset,
                                          uint32_t count, uint32_t resident_end)
{
    assert_true(list.count <= resident_end);
    uint32_t begin = resident_end - list.count;
    uint32_t first = offset > begin ? offset : begin;
    uint32_t end =
        offset + count < resident_end ? offset + count : resident_end;
    if (count == 0 || list.count == 0 || end <= first) {
        return (struct old_list){list.ids, 0};
    }
    return (struct old_list){list.ids + (first - begin), end - first};
}

/* A receiver with a larger window has blocks in front that the sender lacks.
 * False: without a window that is an error. */
static inline bool old_trim(struct old_list source, struct old_list *target,
                            bool has_window)
{
    if (target->count <= source.count) {
        return true;
    }
    uint32_t extra = target->count - source.count;
    target->ids += extra;
    target->count -= extra;
    return has_window;
}

/* Pairs from the later of both starts on, for as long as both last. */
static inline uint32_t old_align(struct old_list source, struct old_list target,
                                 uint32_t source_start, uint32_t target_start,
                                 uint32_t tokens_per_block,
                                 struct transfer_pair *pairs_out)
{
    uint32_t origin = source_start > target_start ? source_start : target_start;
    uint32_t skip_source = (origin - source_start) / tokens_per_block;
    uint32_t skip_target = (origin - target_start) / tokens_per_block;
    uint32_t count = 0;
    while (skip_source + count < source.count &&
           skip_target + count < target.count) {
        pairs_out[count] = (struct transfer_pair){
            origin / tokens_per_block + count, source.ids[skip_source + count],
            target.ids[skip_target + count]};
        count++;
    }
    return count;
}

/* What the functions together make of one slice: `source` and `target` are
 * suffixes of [0, slice_end) and [0, whole) blocks. */
static inline uint32_t old_pairs(struct old_list source, struct old_list target,
                                 uint32_t first_block, uint32_t slice_end,
                                 uint32_t whole, bool is_windowed,
                                 uint32_t tokens_per_block,
                                 struct transfer_pair *pairs_out)
{
    bool is_partial = first_block > 0 || slice_end < whole;
    if (is_partial && !is_windowed) {
        target =
            old_project(target, first_block, slice_end - first_block, whole);
    }
    assert_true(old_trim(source, &target, is_windowed));
    return old_align(source, target,
                     (slice_end - source.count) * tokens_per_block,
                     (slice_end - target.count) * tokens_per_block,
                     tokens_per_block, pairs_out);
}
