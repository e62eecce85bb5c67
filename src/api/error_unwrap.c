#include "api/error.h"

#include <string.h>

#include "api/scan.h"

enum { MESSAGE_SIZE_MAX = 2048, BODY_SIZE_MAX = 65536 };

/* Adds what `value` says: a string's text, an object's own message, anything
 * else as it stands. */
static void add_said(struct api_json value, uint32_t depth, struct buf *out)
{
    static const char *const KEYS[] = {"message", "detail", "error"};
    struct api_object object;
    if (value.kind == API_JSON_STRING) {
        IGNORE(api_read_string(value, NULL, out)); /* cut below */
        return;
    }
    if (depth < 3 && api_scan_object(value, NULL, &object) == OK) {
        for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
            const struct api_member *member = api_find(&object, KEYS[i]);
            if (member != NULL && member->value.kind != API_JSON_NULL) {
                add_said(member->value, depth + 1, out);
                return;
            }
        }
    }
    buf_add_span(out, value.text);
}

static bool is_break(uint8_t byte)
{
    return byte <= ' ' || strchr("\"'(),;<>[]{}", byte) != NULL;
}

static bool is_all(struct span text, const char *allowed)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == 0 || strchr(allowed, text.data[i]) == NULL) {
            return false;
        }
    }
    return text.size > 0;
}

/* 10.0.0.1, 10.0.0.1:80, name:8000, gpu7.example.net:8000. */
static bool is_host(struct span word)
{
    const uint8_t *colon =
        word.size == 0 ? NULL : memrchr(word.data, ':', word.size);
    size_t host_size = colon == NULL ? word.size : (size_t)(colon - word.data);
    struct span host = span_slice(word, 0, host_size);
    struct span port = span_slice(word, host_size + 1, word.size);
    size_t dots = 0;
    for (size_t i = 0; i < host.size; i++) {
        dots += host.data[i] == '.';
    }
    bool is_address = dots == 3 && is_all(host, "0123456789.");
    if (colon == NULL || port.size == 0) {
        return is_address;
    }
    bool has_port =
        port.size >= 2 && port.size <= 5 && is_all(port, "0123456789");
    bool is_name = host.size > 0 && !is_all(host, "0123456789");
    return has_port && (is_address || is_name);
}

static bool is_url(struct span word)
{
    return word.data != NULL && word.size > 3 &&
           memmem(word.data, word.size, "://", 3) != NULL;
}

static struct span word_at(struct span text, size_t at)
{
    size_t end = at;
    while (end < text.size && !is_break(text.data[end])) {
        end++;
    }
    /* A full stop or colon that ends a clause is not the word's. */
    while (end > at + 1 && strchr(".:!?", text.data[end - 1]) != NULL) {
        end--;
    }
    return span_slice(text, at, end);
}

static void add_scrubbed(struct span text, struct buf *out)
{
    size_t at = 0;
    while (at < text.size) {
        struct span word = word_at(text, at);
        if (word.size == 0) {
            buf_add_byte(out, text.data[at] == 0 ? ' ' : text.data[at]);
            at++;
        } else {
            if (is_url(word) || is_host(word)) {
                buf_add_string(out, "[address]");
            } else {
                buf_add_span(out, word);
            }
            at += word.size;
        }
    }
}

/* At most `max` bytes without cutting a character in two. */
static size_t cut_size(struct span text, size_t max)
{
    if (text.size <= max) {
        return text.size;
    }
    while (max > 0 && (text.data[max] & 0xc0) == 0x80) {
        max--;
    }
    return max;
}

static struct span without_trace(struct span text)
{
    static const char TRACE[] = "Traceback (most recent call last)";
    const uint8_t *at =
        text.size == 0 ? NULL
                       : memmem(text.data, text.size, TRACE, sizeof(TRACE) - 1);
    return at == NULL ? text : span_slice(text, 0, (size_t)(at - text.data));
}

void api_error_unwrap(struct span body, struct buf *message_out)
{
    struct buf said;
    struct api_json value;
    buf_init(&said, BODY_SIZE_MAX);
    if (body.size <= BODY_SIZE_MAX &&
        api_scan_value(body, NULL, &value) == OK) {
        add_said(value, 0, &said);
    } else {
        buf_add_span(&said, span_slice(body, 0, BODY_SIZE_MAX));
    }
    struct buf clean;
    buf_init(&clean, 8 * BODY_SIZE_MAX);
    add_scrubbed(without_trace(buf_span(&said)), &clean);
    struct span text = buf_span(&clean);
    buf_add_span(message_out,
                 span_slice(text, 0, cut_size(text, MESSAGE_SIZE_MAX)));
    buf_finish(&clean);
    buf_finish(&said);
}
