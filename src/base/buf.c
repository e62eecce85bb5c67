#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Above it sums of sizes could wrap; no allocation of that size succeeds. */
static const size_t CAP_MAX = SIZE_MAX / 4;

void buf_init(struct buf *buf, size_t cap)
{
    *buf = (struct buf){.cap = cap < CAP_MAX ? cap : CAP_MAX};
}

void buf_finish(struct buf *buf)
{
    mem_free(buf->data);
    *buf = (struct buf){.cap = buf->cap};
}

void buf_reset(struct buf *buf)
{
    buf->size = 0;
    buf->error = OK;
    if (buf->data != NULL) {
        buf->data[0] = 0;
    }
}

enum err buf_error(const struct buf *buf)
{
    return buf->error;
}

static bool grow(struct buf *buf, size_t needed)
{
    size_t capacity = buf->capacity == 0 ? 256 : buf->capacity;
    while (capacity < needed + 1) {
        capacity *= 2;
    }
    uint8_t *data = mem_try_resize(buf->data, capacity);
    if (data == NULL) {
        buf->error = ERR_NO_MEMORY;
        return false;
    }
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

uint8_t *buf_reserve(struct buf *buf, size_t size)
{
    if (buf->error != OK) {
        return NULL;
    }
    if (size > buf->cap || buf->size > buf->cap - size) {
        buf->error = ERR_FULL;
        return NULL;
    }
    if (buf->size + size + 1 > buf->capacity && !grow(buf, buf->size + size)) {
        return NULL;
    }
    return buf->data + buf->size;
}

void buf_commit(struct buf *buf, size_t size)
{
    CHECK(buf->size + size < buf->capacity);
    buf->size += size;
    buf->data[buf->size] = 0;
}

void buf_add(struct buf *buf, const void *data, size_t size)
{
    uint8_t *end = buf_reserve(buf, size);
    if (end == NULL) {
        return;
    }
    if (size > 0) {
        memcpy(end, data, size);
    }
    buf_commit(buf, size);
}

void buf_add_span(struct buf *buf, struct span span)
{
    buf_add(buf, span.data, span.size);
}

void buf_add_string(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_add_byte(struct buf *buf, uint8_t byte)
{
    buf_add(buf, &byte, 1);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(size >= 0);
    uint8_t *end = buf_reserve(buf, (size_t)size);
    if (end != NULL) {
        vsnprintf((char *)end, (size_t)size + 1, format, again);
        buf_commit(buf, (size_t)size);
    }
    va_end(again);
}

static void add_json_ascii(struct buf *buf, uint8_t byte)
{
    static const char SHORT[] = "\"\\\b\f\n\r\t";
    static const char NAMES[] = "\"\\bfnrt";
    const char *at = byte == 0 ? NULL : strchr(SHORT, byte);
    if (at != NULL) {
        char pair[2] = {'\\', NAMES[at - SHORT]};
        buf_add(buf, pair, 2);
    } else if (byte < 0x20 || byte == 0x7f) {
        buf_printf(buf, "\\u%04x", byte);
    } else {
        buf_add_byte(buf, byte);
    }
}

void buf_add_json_string(struct buf *buf, struct span text)
{
    buf_add_byte(buf, '"');
    while (text.size > 0) {
        size_t size = utf8_size(text);
        if (size == 1) {
            add_json_ascii(buf, text.data[0]);
        } else if (size == 0) {
            buf_add_string(buf, "\xef\xbf\xbd");
            size = 1;
        } else {
            buf_add(buf, text.data, size);
        }
        text = span_slice(text, size, text.size);
    }
    buf_add_byte(buf, '"');
}

void buf_drop_front(struct buf *buf, size_t size)
{
    CHECK(size <= buf->size);
    if (size == 0) {
        return;
    }
    memmove(buf->data, buf->data + size, buf->size - size);
    buf->size -= size;
    buf->data[buf->size] = 0;
}

struct span buf_span(const struct buf *buf)
{
    return span_of(buf->data, buf->size);
}

const char *buf_string(const struct buf *buf)
{
    return buf->data == NULL ? "" : (const char *)buf->data;
}
