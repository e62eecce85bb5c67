#include "device/copy_split.h"

#include "base/check.h"

uint32_t device_copy_share_count(size_t bytes)
{
    size_t count = bytes / DEVICE_COPY_SHARE_BYTES +
                   (bytes % DEVICE_COPY_SHARE_BYTES != 0);
    return count < DEVICE_COPY_SHARE_COUNT_MAX
               ? (uint32_t)count
               : (uint32_t)DEVICE_COPY_SHARE_COUNT_MAX;
}

struct device_copy_share device_copy_share(size_t bytes, uint32_t index)
{
    uint32_t count = device_copy_share_count(bytes);
    CHECK(index < count);
    size_t even = bytes / count + (bytes % count != 0);
    size_t step =
        (even + DEVICE_COPY_UNIT - 1) / DEVICE_COPY_UNIT * DEVICE_COPY_UNIT;
    size_t offset = step * index;
    return (struct device_copy_share){
        .offset = offset,
        .bytes = index + 1 < count ? step : bytes - offset,
    };
}

static uint32_t skip_empty(const struct device_copy *copies,
                           uint32_t copy_count, uint32_t copy)
{
    while (copy < copy_count && copies[copy].bytes == 0) {
        copy++;
    }
    return copy;
}

struct device_copy_cursor device_copy_cursor_first(
    const struct device_copy *copies, uint32_t copy_count)
{
    return (struct device_copy_cursor){skip_empty(copies, copy_count, 0), 0};
}

static struct device_copy_item cut_share(struct device_copy_cursor *cursor,
                                         size_t bytes, uint32_t share_count)
{
    struct device_copy_item item = {
        .first = cursor->copy,
        .count = 1,
        .share = device_copy_share(bytes, cursor->share),
    };
    if (++cursor->share == share_count) {
        cursor->share = 0;
        cursor->copy++;
    }
    return item;
}

static struct device_copy_item cut_pack(struct device_copy_cursor *cursor,
                                        const struct device_copy *copies,
                                        uint32_t copy_count)
{
    struct device_copy_item item = {.first = cursor->copy};
    size_t bytes = 0;
    while (cursor->copy < copy_count && bytes < DEVICE_COPY_PACK_BYTES &&
           item.count < DEVICE_COPY_PACK_COUNT_MAX &&
           device_copy_share_count(copies[cursor->copy].bytes) <= 1) {
        bytes += copies[cursor->copy++].bytes;
        item.count++;
    }
    return item;
}

bool device_copy_cursor_next(struct device_copy_cursor *cursor,
                             const struct device_copy *copies,
                             uint32_t copy_count,
                             struct device_copy_item *item_out)
{
    if (cursor->copy == copy_count) {
        return false;
    }
    size_t bytes = copies[cursor->copy].bytes;
    uint32_t share_count = device_copy_share_count(bytes);
    *item_out = share_count > 1 ? cut_share(cursor, bytes, share_count)
                                : cut_pack(cursor, copies, copy_count);
    cursor->copy = skip_empty(copies, copy_count, cursor->copy);
    return true;
}
