#include "api/walk.h"

#include <string.h>

#include "base/utf8.h"

struct api_walk api_walk_of(struct span text)
{
    return (struct api_walk){text.data, text.data,
                             text.data == NULL ? NULL : text.data + text.size,
                             NULL, false};
}

bool api_walk_fail(struct api_walk *walk, const char *wrong)
{
    walk->wrong = wrong;
    return false;
}

enum err api_walk_say(const struct api_walk *walk, struct why *why)
{
    return why_say(why, ERR_INVALID, "not valid JSON at byte %zu: %s",
                   (size_t)(walk->at - walk->begin), walk->wrong);
}

bool api_walk_end(struct api_walk *walk)
{
    api_walk_blank(walk);
    return walk->at == walk->end ||
           api_walk_fail(walk, "something follows the value");
}

/* True when one of eight bytes ends a plain run: a quote, a backslash, a
 * control character or the start of a longer UTF-8 character. */
static inline bool has_special(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t high = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"');
    uint64_t slash = word ^ (ones * '\\');
    uint64_t hits = (word - ones * 0x20) | (quote - ones) | (slash - ones);
    return ((hits | word) & high) != 0;
}

static inline const uint8_t *skip_plain(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        if (has_special(word)) {
            break;
        }
        at += 8;
    }
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') {
        at++;
    }
    return at;
}

/* `at` stands behind "\u"; a pair of surrogates is taken as one. */
static bool walk_unicode(struct api_walk *walk)
{
    int32_t unit = api_walk_hex4(walk->at, walk->end);
    if (unit < 0) {
        return api_walk_fail(walk, "\\u needs four hexadecimal digits");
    }
    if (unit == 0 && !walk->allows_nul) {
        return api_walk_fail(walk, "the character NUL is not allowed");
    }
    if (unit >= 0xdc00 && unit <= 0xdfff) {
        return api_walk_fail(walk, "a low surrogate stands alone");
    }
    if (unit >= 0xd800 && unit < 0xdc00) {
        const uint8_t *second = walk->at + 4;
        int32_t low = -1;
        if (walk->end - second >= 6 && second[0] == '\\' && second[1] == 'u') {
            low = api_walk_hex4(second + 2, walk->end);
        }
        if (low < 0xdc00 || low > 0xdfff) {
            return api_walk_fail(walk, "a high surrogate stands alone");
        }
        walk->at += 6;
    }
    walk->at += 4;
    return true;
}

static bool walk_escape(struct api_walk *walk)
{
    if (walk->end - walk->at < 2) {
        return api_walk_fail(walk, "a string does not end");
    }
    uint8_t name = walk->at[1];
    if (name == 'u') {
        walk->at += 2;
        return walk_unicode(walk);
    }
    if (name == 0 || strchr("\"\\/bfnrt", name) == NULL) {
        return api_walk_fail(walk, "an unknown escape");
    }
    walk->at += 2;
    return true;
}

bool api_walk_string(struct api_walk *walk)
{
    if (!api_walk_is_at(walk, '"')) {
        return api_walk_fail(walk, "a string is expected");
    }
    walk->at++;
    for (;;) {
        walk->at = skip_plain(walk->at, walk->end);
        if (walk->at == walk->end) {
            return api_walk_fail(walk, "a string does not end");
        }
        if (*walk->at == '"') {
            walk->at++;
            return true;
        }
        if (*walk->at == '\\') {
            if (!walk_escape(walk)) {
                return false;
            }
            continue;
        }
        struct span rest = span_of(walk->at, (size_t)(walk->end - walk->at));
        size_t size = *walk->at < 0x80 ? 0 : utf8_size(rest);
        if (size == 0) {
            return api_walk_fail(walk, *walk->at < 0x20
                                           ? "a control character in a string"
                                           : "invalid UTF-8");
        }
        walk->at += size;
    }
}

static inline const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

/* Moves over at least one digit. */
static bool walk_digits(struct api_walk *walk)
{
    const uint8_t *after = skip_digits(walk->at, walk->end);
    if (after == walk->at) {
        return api_walk_fail(walk, "a digit is expected");
    }
    walk->at = after;
    return true;
}

static bool walk_exponent(struct api_walk *walk)
{
    walk->at++;
    if (api_walk_is_at(walk, '+') || api_walk_is_at(walk, '-')) {
        walk->at++;
    }
    return walk_digits(walk);
}

static bool walk_number(struct api_walk *walk)
{
    if (*walk->at == '-') {
        walk->at++;
    }
    const uint8_t *first = walk->at;
    if (!walk_digits(walk)) {
        return false;
    }
    if (*first == '0' && walk->at - first > 1) {
        return api_walk_fail(walk, "a number starts with 0");
    }
    if (api_walk_is_at(walk, '.')) {
        walk->at++;
        if (!walk_digits(walk)) {
            return false;
        }
    }
    if (api_walk_is_at(walk, 'e') || api_walk_is_at(walk, 'E')) {
        return walk_exponent(walk);
    }
    return true;
}

static bool walk_word(struct api_walk *walk, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(walk->end - walk->at) < size ||
        memcmp(walk->at, word, size) != 0) {
        return api_walk_fail(walk, "a value is expected");
    }
    walk->at += size;
    return true;
}

/* After an element: true with *more_out telling whether a comma came. */
static bool walk_separator(struct api_walk *walk, uint8_t close, bool *more_out)
{
    api_walk_blank(walk);
    if (api_walk_is_at(walk, close)) {
        walk->at++;
        *more_out = false;
        return true;
    }
    if (!api_walk_is_at(walk, ',')) {
        return api_walk_fail(walk, close == ']' ? "`,` or `]` is expected"
                                                : "`,` or `}` is expected");
    }
    walk->at++;
    api_walk_blank(walk);
    *more_out = true;
    return true;
}

/* True, past it, when the container just opened is empty. */
static bool walk_is_empty(struct api_walk *walk, uint8_t close)
{
    walk->at++;
    api_walk_blank(walk);
    if (!api_walk_is_at(walk, close)) {
        return false;
    }
    walk->at++;
    return true;
}

/* Passes over plain integers that another number follows at once: lists of
 * token ids are long. The last one is left to the general way. */
static const uint8_t *skip_integers(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at >= '1' && *at <= '9') {
        const uint8_t *after = skip_digits(at, end);
        bool goes_on = end - after >= 2 && after[0] == ',' && after[1] >= '0' &&
                       after[1] <= '9';
        if (!goes_on) {
            break;
        }
        at = after + 1;
    }
    return at;
}

static bool walk_array(struct api_walk *walk, uint32_t depth)
{
    enum api_json_kind kind;
    bool has_more = !walk_is_empty(walk, ']');
    while (has_more) {
        walk->at = skip_integers(walk->at, walk->end);
        if (!api_walk_value(walk, depth, &kind) ||
            !walk_separator(walk, ']', &has_more)) {
            return false;
        }
    }
    return true;
}

static bool walk_object(struct api_walk *walk, uint32_t depth)
{
    enum api_json_kind kind;
    bool has_more = !walk_is_empty(walk, '}');
    while (has_more) {
        if (!api_walk_string(walk)) {
            return false;
        }
        api_walk_blank(walk);
        if (!api_walk_is_at(walk, ':')) {
            return api_walk_fail(walk, "`:` is expected");
        }
        walk->at++;
        if (!api_walk_value(walk, depth, &kind) ||
            !walk_separator(walk, '}', &has_more)) {
            return false;
        }
    }
    return true;
}

/* Recursion ends at API_DEPTH_MAX. */
static bool walk_container(struct api_walk *walk, uint32_t depth, bool is_array)
{
    if (depth >= API_DEPTH_MAX) {
        return api_walk_fail(walk, "nested too deep");
    }
    return is_array ? walk_array(walk, depth + 1)
                    : walk_object(walk, depth + 1);
}

bool api_walk_value(struct api_walk *walk, uint32_t depth,
                    enum api_json_kind *kind_out)
{
    api_walk_blank(walk);
    if (walk->at == walk->end) {
        return api_walk_fail(walk, "a value is expected");
    }
    switch (*walk->at) {
    case '"':
        *kind_out = API_JSON_STRING;
        return api_walk_string(walk);
    case '[':
        *kind_out = API_JSON_ARRAY;
        return walk_container(walk, depth, true);
    case '{':
        *kind_out = API_JSON_OBJECT;
        return walk_container(walk, depth, false);
    case 't':
        *kind_out = API_JSON_BOOL;
        return walk_word(walk, "true");
    case 'f':
        *kind_out = API_JSON_BOOL;
        return walk_word(walk, "false");
    case 'n':
        *kind_out = API_JSON_NULL;
        return walk_word(walk, "null");
    default:
        *kind_out = API_JSON_NUMBER;
        return (*walk->at == '-' || (*walk->at >= '0' && *walk->at <= '9'))
                   ? walk_number(walk)
                   : api_walk_fail(walk, "a value is expected");
    }
}
