#include "api/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/walk.h"

enum { NUMBER_SIZE_MAX = 400 };

enum err api_read_bool(struct api_json value, struct why *why, bool *out)
{
    if (value.kind != API_JSON_BOOL) {
        return why_say(why, ERR_INVALID, "must be true or false");
    }
    *out = value.text.data[0] == 't';
    return OK;
}

/* The magnitude of a run of digits; false: not only digits, or too large. */
static bool read_magnitude(struct span digits, uint64_t *out)
{
    uint64_t total = 0;
    for (size_t i = 0; i < digits.size; i++) {
        uint64_t digit = (uint64_t)digits.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(total, 10, &total) ||
            __builtin_add_overflow(total, digit, &total)) {
            return false;
        }
    }
    *out = total;
    return true;
}

static bool read_exact(struct span text, int64_t *out)
{
    bool is_negative = text.data[0] == '-';
    uint64_t magnitude;
    if (!read_magnitude(span_slice(text, is_negative, text.size), &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *out = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static bool is_integer_text(struct span text)
{
    for (size_t i = text.data[0] == '-'; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
    }
    return true;
}

enum err api_read_int(struct api_json value, int64_t min, int64_t max,
                      struct why *why, int64_t *out)
{
    if (value.kind != API_JSON_NUMBER || !is_integer_text(value.text)) {
        return why_say(why, ERR_INVALID, "must be an integer");
    }
    int64_t number;
    if (!read_exact(value.text, &number)) {
        return why_say(why, ERR_INVALID,
                       "must be an integer that fits in 64 bits");
    }
    if (number < min && max == INT64_MAX) {
        return why_say(why, ERR_INVALID, "must be at least %" PRId64, min);
    }
    if (number < min || number > max) {
        return why_say(why, ERR_INVALID, "must be from %" PRId64 " to %" PRId64,
                       min, max);
    }
    *out = number;
    return OK;
}

enum err api_read_number(struct api_json value, double min, double max,
                         struct why *why, double *out)
{
    if (value.kind != API_JSON_NUMBER) {
        return why_say(why, ERR_INVALID, "must be a number");
    }
    char text[NUMBER_SIZE_MAX + 1];
    if (value.text.size > NUMBER_SIZE_MAX) {
        return why_say(why, ERR_INVALID, "has too many digits");
    }
    memcpy(text, value.text.data, value.text.size);
    text[value.text.size] = 0;
    double number = strtod(text, NULL);
    if (!isfinite(number)) {
        return why_say(why, ERR_INVALID, "must be a finite number");
    }
    if (number < min || number > max) {
        return why_say(why, ERR_INVALID, "must be from %g to %g", min, max);
    }
    *out = number;
    return OK;
}

enum err api_read_string(struct api_json value, struct why *why,
                         struct buf *out)
{
    if (value.kind != API_JSON_STRING) {
        return why_say(why, ERR_INVALID, "must be a string");
    }
    const uint8_t *at = value.text.data + 1;
    const uint8_t *end = value.text.data + value.text.size - 1;
    while (at < end) {
        const uint8_t *escape = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((escape == NULL ? end : escape) - at);
        buf_add(out, at, plain);
        at += plain;
        if (at < end) {
            uint8_t utf8[4];
            size_t size = api_walk_decode(&at, end, utf8);
            buf_add(out, utf8, size);
        }
    }
    if (buf_error(out) != OK) {
        return why_say(why, buf_error(out), "is too long");
    }
    return OK;
}

/* One id at `*at`; -1: not one, or above `max`. */
static inline int64_t read_id(const uint8_t **at, const uint8_t *end,
                              int64_t max)
{
    const uint8_t *here = *at;
    int64_t id = 0;
    while (here < end && (uint8_t)(*here - '0') <= 9 && here - *at < 11) {
        id = id * 10 + (*here++ - '0');
    }
    bool has_no_end = here == *at || here == end || *here == '.' ||
                      (*here | 0x20) == 'e' || (uint8_t)(*here - '0') <= 9;
    *at = here;
    return has_no_end || id > max ? -1 : id;
}

static enum err say_bad_id(struct why *why, size_t index, int64_t max)
{
    return why_say(why, ERR_INVALID,
                   "must be a list of integers from 0 to %" PRId64
                   " (element %zu is not)",
                   max, index);
}

enum err api_read_ids(struct api_json value, int64_t max, struct why *why,
                      int32_t *ids, size_t count_max, size_t *count_out)
{
    if (value.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_INVALID, "must be a list of integers");
    }
    max = max < INT32_MAX ? max : INT32_MAX;
    struct api_walk walk = api_walk_of(value.text);
    walk.at++;
    api_walk_blank(&walk);
    size_t count = 0;
    while (!api_walk_is_at(&walk, ']')) {
        int64_t id = read_id(&walk.at, walk.end, max);
        if (id < 0) {
            return say_bad_id(why, count, max);
        }
        if (count == count_max) {
            return why_say(why, ERR_FULL, "has more than %zu elements",
                           count_max);
        }
        ids[count++] = (int32_t)id;
        api_walk_blank(&walk);
        walk.at += api_walk_is_at(&walk, ',');
        api_walk_blank(&walk);
    }
    *count_out = count;
    return OK;
}
