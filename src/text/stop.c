#include "text/stop.h"

#include "base/check.h"
#include "base/mem.h"

/* Each string is matched on its own by its failure table: `borders[n]` is the
 * longest proper prefix of its first n bytes that is also their end. What is
 * held back is then the longest prefix that any of them has matched, so it is
 * read off that string instead of being stored. */
struct pattern {
    uint8_t *bytes;
    uint16_t *borders; /* (size + 1) */
    uint16_t size;
    uint16_t matched;
};

struct text_stop {
    struct pattern patterns[TEXT_STOP_COUNT_MAX];
    uint32_t count;
    bool include_in_output;
};

static void fill_borders(struct pattern *pattern)
{
    uint16_t border = 0;
    for (uint16_t at = 1; at < pattern->size; at++) {
        while (border > 0 && pattern->bytes[at] != pattern->bytes[border]) {
            border = pattern->borders[border];
        }
        if (pattern->bytes[at] == pattern->bytes[border]) {
            border++;
        }
        pattern->borders[at + 1] = border;
    }
}

static enum err check_strings(const struct span *strings, size_t count,
                              struct why *why)
{
    if (count > TEXT_STOP_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "stop: %zu strings, at most %d", count,
                       TEXT_STOP_COUNT_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (strings[i].size == 0 || strings[i].size > TEXT_STOP_SIZE_MAX) {
            return why_say(why, ERR_INVALID,
                           "stop[%zu]: has %zu bytes, allowed are 1 to %d", i,
                           strings[i].size, TEXT_STOP_SIZE_MAX);
        }
    }
    return OK;
}

enum err text_stop_create(const struct span *strings, size_t count,
                          bool include_in_output, struct why *why,
                          struct text_stop **stop_out)
{
    enum err err = check_strings(strings, count, why);
    if (err != OK) {
        return err;
    }
    struct text_stop *stop = mem_new(sizeof(*stop));
    stop->count = (uint32_t)count;
    stop->include_in_output = include_in_output;
    for (size_t i = 0; i < count; i++) {
        struct pattern *pattern = &stop->patterns[i];
        pattern->size = (uint16_t)strings[i].size;
        pattern->bytes = mem_copy(strings[i].data, strings[i].size);
        pattern->borders =
            mem_new_array(strings[i].size + 1, sizeof(*pattern->borders));
        fill_borders(pattern);
    }
    *stop_out = stop;
    return OK;
}

void text_stop_destroy(struct text_stop *stop)
{
    if (stop == NULL) {
        return;
    }
    for (uint32_t i = 0; i < stop->count; i++) {
        mem_free(stop->patterns[i].bytes);
        mem_free(stop->patterns[i].borders);
    }
    mem_free(stop);
}

/* The one that has matched most: what is held back is its beginning. */
static struct span held(const struct text_stop *stop)
{
    struct span longest = span_of(NULL, 0);
    for (uint32_t i = 0; i < stop->count; i++) {
        const struct pattern *pattern = &stop->patterns[i];
        if (pattern->matched > longest.size) {
            longest = span_of(pattern->bytes, pattern->matched);
        }
    }
    return longest;
}

static void step(struct pattern *pattern, uint8_t byte)
{
    uint16_t matched = pattern->matched;
    while (matched > 0 && pattern->bytes[matched] != byte) {
        matched = pattern->borders[matched];
    }
    pattern->matched = (uint16_t)(matched + (pattern->bytes[matched] == byte));
}

/* Takes one byte; the longest string that ends with it, or -1. */
static int step_all(struct text_stop *stop, uint8_t byte)
{
    int found = -1;
    for (uint32_t i = 0; i < stop->count; i++) {
        struct pattern *pattern = &stop->patterns[i];
        step(pattern, byte);
        if (pattern->matched == pattern->size &&
            (found < 0 || pattern->size > stop->patterns[found].size)) {
            found = (int)i;
        }
    }
    return found;
}

static void forget(struct text_stop *stop)
{
    for (uint32_t i = 0; i < stop->count; i++) {
        stop->patterns[i].matched = 0;
    }
}

/* The first `size` bytes of what was held and then `text`. */
static void release(struct span before, struct span text, size_t size,
                    struct buf *out)
{
    buf_add_span(out, span_slice(before, 0, size));
    if (size > before.size) {
        buf_add_span(out, span_slice(text, 0, size - before.size));
    }
}

int text_stop_add(struct text_stop *stop, struct span text, struct buf *out)
{
    struct span before = held(stop);
    for (size_t i = 0; i < text.size; i++) {
        int found = step_all(stop, text.data[i]);
        if (found >= 0) {
            size_t size = before.size + i + 1;
            size_t cut =
                stop->include_in_output ? 0 : stop->patterns[found].size;
            CHECK(size >= cut);
            release(before, text, size - cut, out);
            forget(stop);
            return found;
        }
    }
    release(before, text, before.size + text.size - held(stop).size, out);
    return -1;
}

void text_stop_flush(struct text_stop *stop, struct buf *out)
{
    buf_add_span(out, held(stop));
    forget(stop);
}
