#pragma once
/* api/scan: reads JSON where it lies. One pass marks the members of the top
 * level object by byte range; values are read on demand; the splicer builds a
 * changed copy in which every byte it was not told to change is the client's
 * own. Strict RFC 8259, UTF-8 checked, depth at most 64, no NUL, no lone
 * surrogates. A key that stands twice is refused: two readers that pick
 * different ones of it would see two requests (serve.md 6.3). Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum { API_MEMBER_COUNT_MAX = 256, API_DEPTH_MAX = 64 };

enum api_json_kind {
    API_JSON_NULL,
    API_JSON_BOOL,
    API_JSON_NUMBER,
    API_JSON_STRING,
    API_JSON_ARRAY,
    API_JSON_OBJECT
};

/* One JSON value by its bytes, without white space around. */
struct api_json {
    enum api_json_kind kind;
    struct span text;
};

struct api_member {
    struct span key; /* as it is spelt: compare it with api_key_equals */
    struct api_json value;
    size_t begin, end; /* of `"key": value` in the body, for the splicer */
};

struct api_object {
    struct span body;
    uint32_t member_count;
    struct api_member members[API_MEMBER_COUNT_MAX];
};

/* ERR_INVALID with offset and reason; ERR_FULL: too many members; ERR_EXISTS:
 * "model: is given twice". */
MUST_USE enum err api_scan(struct span body, struct why *why,
                           struct api_object *object_out);
/* The same for what a worker says: a token may be the character NUL, which no
 * request may hold. So may the values that are read out of it. */
MUST_USE enum err api_scan_answer(struct span body, struct why *why,
                                  struct api_object *object_out);
/* NULL: absent. */
const struct api_member *api_find(const struct api_object *object,
                                  const char *key);
/* Compares what two keys mean: `mod\u0065l` is `model`. */
bool api_key_equals(struct span a, struct span b);
/* What a key means, cut after a whole character so that it fits, with a NUL. */
void api_key_text(struct span key, char *out, size_t size);
/* The same for a nested object or any value. */
MUST_USE enum err api_scan_value(struct span text, struct why *why,
                                 struct api_json *value_out);
MUST_USE enum err api_scan_object(struct api_json value, struct why *why,
                                  struct api_object *object_out);

/* Walks an array: start with *cursor = 0; false at its end. */
bool api_array_next(struct api_json array, size_t *cursor,
                    struct api_json *element_out);
uint32_t api_array_count(struct api_json array);
/* Walks an object in the same way, however many members it has; duplicates
 * come as they are. A member's begin and end count from the object's brace. */
bool api_object_next(struct api_json object, size_t *cursor,
                     struct api_member *member_out);

/* Typed reads; ERR_INVALID says only what is wrong ("must be an integer"):
 * the caller puts the field's name before it (why_prefix). */
MUST_USE enum err api_read_bool(struct api_json value, struct why *why,
                                bool *out);
/* Exact 64-bit; a fraction, exponent or overflow is an error. */
MUST_USE enum err api_read_int(struct api_json value, int64_t min, int64_t max,
                               struct why *why, int64_t *out);
MUST_USE enum err api_read_number(struct api_json value, double min, double max,
                                  struct why *why, double *out);
/* Adds the unescaped UTF-8. */
MUST_USE enum err api_read_string(struct api_json value, struct why *why,
                                  struct buf *out);
/* An array of ids 0 .. max at full speed (no value objects). ERR_FULL: more
 * than `count_max`. */
MUST_USE enum err api_read_ids(struct api_json value, int64_t max,
                               struct why *why, int32_t *ids, size_t count_max,
                               size_t *count_out);

/* The splicer. A NULL `text` removes the member; a key not there is added at
 * the end. `text` is JSON. */
struct api_edit {
    const char *key;
    const char *text;
    size_t text_size; /* 0 with text: strlen */
};
void api_splice(const struct api_object *object, const struct api_edit *edits,
                uint32_t edit_count, struct buf *out);
