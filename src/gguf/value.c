/* Typed reads of keys: missing is a default, wrong is an error with the name. */
#include "gguf/gguf.h"

#include "base/check.h"
#include "gguf/parse.h"

static const char *kind_name(enum gguf_value_kind kind)
{
    static const char *const NAMES[] = {
        [GGUF_UINT] = "an unsigned number", [GGUF_INT] = "a signed number",
        [GGUF_FLOAT] = "a float",           [GGUF_BOOL] = "a boolean",
        [GGUF_STRING] = "a string",         [GGUF_ARRAY] = "an array"};
    return NAMES[kind];
}

static enum err refuse_kind(struct why *why, const char *key,
                            enum gguf_value_kind is,
                            enum gguf_value_kind wanted)
{
    return why_say(why, ERR_INVALID, "key %s: is %s, expected %s", key,
                   kind_name(is), kind_name(wanted));
}

enum err gguf_read_u32(const struct gguf *gguf, const char *key,
                       uint32_t fallback, struct why *why, uint32_t *value_out)
{
    struct gguf_value value;
    if (!gguf_find(gguf, key, &value)) {
        *value_out = fallback;
        return OK;
    }
    if (value.kind == GGUF_INT && value.signed_value >= 0) {
        value.unsigned_value = (uint64_t)value.signed_value;
    } else if (value.kind == GGUF_INT) {
        return why_say(why, ERR_INVALID, "key %s: %lld is negative", key,
                       (long long)value.signed_value);
    } else if (value.kind != GGUF_UINT) {
        return refuse_kind(why, key, value.kind, GGUF_UINT);
    }
    if (value.unsigned_value > UINT32_MAX) {
        return why_say(why, ERR_INVALID, "key %s: %llu is out of range", key,
                       (unsigned long long)value.unsigned_value);
    }
    *value_out = (uint32_t)value.unsigned_value;
    return OK;
}

enum err gguf_read_f32(const struct gguf *gguf, const char *key, float fallback,
                       struct why *why, float *value_out)
{
    struct gguf_value value;
    if (!gguf_find(gguf, key, &value)) {
        *value_out = fallback;
        return OK;
    }
    if (value.kind != GGUF_FLOAT) {
        return refuse_kind(why, key, value.kind, GGUF_FLOAT);
    }
    float narrow = (float)value.float_value;
    if (!__builtin_isfinite(narrow)) {
        return why_say(why, ERR_INVALID, "key %s: %g is out of range", key,
                       value.float_value);
    }
    *value_out = narrow;
    return OK;
}

enum err gguf_read_bool(const struct gguf *gguf, const char *key, bool fallback,
                        struct why *why, bool *value_out)
{
    struct gguf_value value;
    if (!gguf_find(gguf, key, &value)) {
        *value_out = fallback;
        return OK;
    }
    if (value.kind != GGUF_BOOL) {
        return refuse_kind(why, key, value.kind, GGUF_BOOL);
    }
    *value_out = value.bool_value;
    return OK;
}

enum err gguf_read_string(const struct gguf *gguf, const char *key,
                          struct why *why, struct span *value_out)
{
    struct gguf_value value;
    if (!gguf_find(gguf, key, &value)) {
        *value_out = span_of(NULL, 0);
        return OK;
    }
    if (value.kind != GGUF_STRING) {
        return refuse_kind(why, key, value.kind, GGUF_STRING);
    }
    *value_out = value.string;
    return OK;
}

enum err gguf_read_array(const struct gguf *gguf, const char *key,
                         enum gguf_value_kind kind, struct why *why,
                         struct gguf_array *array_out)
{
    struct gguf_value value;
    if (!gguf_find(gguf, key, &value)) {
        *array_out = (struct gguf_array){.kind = kind};
        return OK;
    }
    if (value.kind != GGUF_ARRAY) {
        return refuse_kind(why, key, value.kind, GGUF_ARRAY);
    }
    if (value.array.kind != kind) {
        return why_say(why, ERR_INVALID,
                       "key %s: each element is %s, expected %s", key,
                       kind_name(value.array.kind), kind_name(kind));
    }
    *array_out = value.array;
    return OK;
}

bool gguf_array_next_string(struct gguf_array *rest, struct span *string_out)
{
    if (rest->count == 0) {
        return false;
    }
    uint64_t size;
    CHECK(rest->kind == GGUF_STRING);
    CHECK(rest->bytes.size >= sizeof(size));
    memcpy(&size, rest->bytes.data, sizeof(size));
    CHECK(size <= rest->bytes.size - sizeof(size));
    *string_out = span_of(rest->bytes.data + sizeof(size), (size_t)size);
    rest->bytes =
        span_slice(rest->bytes, sizeof(size) + (size_t)size, SIZE_MAX);
    rest->count--;
    return true;
}

static struct gguf_value element(const struct gguf_array *array, uint64_t index)
{
    CHECK(index < array->count);
    uint32_t size = gguf_element_size(array->element_type);
    CHECK(size > 0);
    return gguf_decode_scalar(array->element_type,
                              array->bytes.data + index * size);
}

int64_t gguf_array_integer_at(const struct gguf_array *array, uint64_t index)
{
    CHECK(array->kind == GGUF_UINT || array->kind == GGUF_INT);
    struct gguf_value value = element(array, index);
    if (value.kind == GGUF_INT) {
        return value.signed_value;
    }
    return value.unsigned_value > INT64_MAX ? INT64_MAX
                                            : (int64_t)value.unsigned_value;
}

double gguf_array_float_at(const struct gguf_array *array, uint64_t index)
{
    CHECK(array->kind == GGUF_FLOAT);
    return element(array, index).float_value;
}
