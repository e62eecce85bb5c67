#pragma once
/* base/buf: a byte buffer that grows up to a cap set at birth.
 *
 * The first refusal (cap reached, or no memory) is sticky: later additions do
 * nothing, and `buf_error` tells once at the end, so that a writer needs one
 * test instead of fifty. Nothing is added in part. Open: callers embed it and
 * read `data` and `size`; one thread at a time. */
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct buf {
    uint8_t *data; /* size bytes, and a zero behind them that does not count */
    size_t size;
    /* private */
    size_t capacity;
    size_t cap;
    enum err error;
};

void buf_init(struct buf *buf, size_t cap);
void buf_finish(struct buf *buf);
/* Forgets content and error, keeps the memory. */
void buf_reset(struct buf *buf);
/* OK, ERR_FULL or ERR_NO_MEMORY. */
enum err buf_error(const struct buf *buf);

void buf_add(struct buf *buf, const void *data, size_t size);
void buf_add_span(struct buf *buf, struct span span);
void buf_add_string(struct buf *buf, const char *text);
void buf_add_byte(struct buf *buf, uint8_t byte);
void buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);
/* Adds `text` as a JSON string with its quotes. Bytes that are not UTF-8
 * become U+FFFD, so the result is always valid. */
void buf_add_json_string(struct buf *buf, struct span text);
/* Drops the first `size` bytes; the rest moves to the front. */
void buf_drop_front(struct buf *buf, size_t size);
/* Room for at least `size` more bytes at data + size, or NULL (sticky error);
 * `buf_commit` then makes them count. */
uint8_t *buf_reserve(struct buf *buf, size_t size);
void buf_commit(struct buf *buf, size_t size);
/* The content, valid until the next change. */
struct span buf_span(const struct buf *buf);
/* The content as a string: "" when empty. Valid until the next change. */
const char *buf_string(const struct buf *buf);
