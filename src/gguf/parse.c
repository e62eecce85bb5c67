#include "gguf/parse.h"

#include "base/mem.h"

enum {
    VERSION_OLDEST = 2, /* the first with 64-bit counts */
    VERSION_NEWEST = 3,
    HEADER_SIZE = 24,
    VALUE_STRING = 8,
    VALUE_ARRAY = 9,
    VALUE_TYPE_COUNT = 13,
    KEY_SIZE_MIN = 8 + 1 + 4 + 1, /* length, a letter, type, value */
    TENSOR_SIZE_MIN = 8 + 1 + 4 + 8 + 4 + 8, /* with one dimension */
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MAX = 1 << 20
};

struct cursor {
    struct span file;
    size_t at;
    struct gguf_part *part;
    struct why *why;
};

#define REFUSE(cursor, code, ...)                                              \
    why_prefix((cursor)->why, why_say((cursor)->why, code, __VA_ARGS__), "%s", \
               (cursor)->part->path)

/* Names come from the file: shown cut to a length that leaves room. */
#define NAME_FORMAT "%.*s"
#define NAME_ARGS(span) (int)((span).size < 96 ? (span).size : 96), (span).data

static size_t left(const struct cursor *cursor)
{
    return cursor->file.size - cursor->at;
}

/* The next `size` bytes, or NULL when the file ends before. */
static const uint8_t *take(struct cursor *cursor, uint64_t size)
{
    if (size > left(cursor)) {
        return NULL;
    }
    const uint8_t *data = cursor->file.data + cursor->at;
    cursor->at += (size_t)size;
    return data;
}

static bool take_u32(struct cursor *cursor, uint32_t *value_out)
{
    const uint8_t *data = take(cursor, 4);
    if (data != NULL) {
        memcpy(value_out, data, 4);
    }
    return data != NULL;
}

static bool take_u64(struct cursor *cursor, uint64_t *value_out)
{
    const uint8_t *data = take(cursor, 8);
    if (data != NULL) {
        memcpy(value_out, data, 8);
    }
    return data != NULL;
}

static bool take_string(struct cursor *cursor, struct span *string_out)
{
    uint64_t size = 0;
    if (!take_u64(cursor, &size)) {
        return false;
    }
    const uint8_t *data = take(cursor, size);
    if (data == NULL) {
        return false;
    }
    *string_out = span_of(data, (size_t)size);
    return true;
}

uint32_t gguf_element_size(uint32_t value_type)
{
    static const uint8_t SIZES[VALUE_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4,
                                                    1, 0, 0, 8, 8, 8};
    return value_type < VALUE_TYPE_COUNT ? SIZES[value_type] : 0;
}

static enum gguf_value_kind kind_of(uint32_t value_type)
{
    static const enum gguf_value_kind KINDS[VALUE_TYPE_COUNT] = {
        GGUF_UINT, GGUF_INT,   GGUF_UINT, GGUF_INT,    GGUF_UINT,
        GGUF_INT,  GGUF_FLOAT, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY,
        GGUF_UINT, GGUF_INT,   GGUF_FLOAT};
    return KINDS[value_type];
}

static int64_t decode_signed(uint32_t size, const uint8_t *data)
{
    uint64_t bits = 0;
    memcpy(&bits, data, size);
    uint32_t unused = 64 - 8 * size;
    return (int64_t)(bits << unused) >> unused;
}

static double decode_float(uint32_t size, const uint8_t *data)
{
    if (size == 8) {
        double wide;
        memcpy(&wide, data, 8);
        return wide;
    }
    float narrow;
    memcpy(&narrow, data, 4);
    return narrow;
}

struct gguf_value gguf_decode_scalar(uint32_t value_type, const uint8_t *data)
{
    uint32_t size = gguf_element_size(value_type);
    struct gguf_value value = {.kind = kind_of(value_type)};
    if (value.kind == GGUF_INT) {
        value.signed_value = decode_signed(size, data);
    } else if (value.kind == GGUF_FLOAT) {
        value.float_value = decode_float(size, data);
    } else if (value.kind == GGUF_BOOL) {
        value.bool_value = data[0] != 0;
    } else {
        memcpy(&value.unsigned_value, data, size);
    }
    return value;
}

/* Steps over `count` strings; false when one of them leaves the file. */
static bool skip_strings(struct cursor *cursor, uint64_t count)
{
    struct span string;
    for (uint64_t i = 0; i < count; i++) {
        if (!take_string(cursor, &string)) {
            return false;
        }
    }
    return true;
}

static enum err parse_array(struct cursor *cursor, struct span key,
                            struct gguf_array *array_out)
{
    struct gguf_array array = {0};
    if (!take_u32(cursor, &array.element_type) ||
        !take_u64(cursor, &array.count)) {
        return REFUSE(cursor, ERR_INVALID,
                      "key " NAME_FORMAT ": the file ends in its array",
                      NAME_ARGS(key));
    }
    uint32_t size = gguf_element_size(array.element_type);
    if (array.element_type == VALUE_ARRAY) {
        return REFUSE(cursor, ERR_UNSUPPORTED,
                      "key " NAME_FORMAT ": an array of arrays",
                      NAME_ARGS(key));
    }
    if (array.element_type >= VALUE_TYPE_COUNT) {
        return REFUSE(cursor, ERR_INVALID,
                      "key " NAME_FORMAT ": unknown element type %u",
                      NAME_ARGS(key), array.element_type);
    }
    bool is_string = array.element_type == VALUE_STRING;
    if (array.count > left(cursor) / (is_string ? 8 : size) ||
        array.count > GGUF_ARRAY_COUNT_MAX) {
        return REFUSE(cursor, ERR_INVALID,
                      "key " NAME_FORMAT
                      ": %llu elements, more than the file holds",
                      NAME_ARGS(key), (unsigned long long)array.count);
    }
    size_t begin = cursor->at;
    if (is_string ? !skip_strings(cursor, array.count)
                  : take(cursor, array.count * size) == NULL) {
        return REFUSE(cursor, ERR_INVALID,
                      "key " NAME_FORMAT
                      ": the length of an element leaves the file",
                      NAME_ARGS(key));
    }
    array.kind = kind_of(array.element_type);
    array.bytes = span_slice(cursor->file, begin, cursor->at);
    *array_out = array;
    return OK;
}

static enum err parse_value(struct cursor *cursor, struct gguf_key *key)
{
    uint32_t type;
    if (!take_u32(cursor, &type)) {
        return REFUSE(cursor, ERR_INVALID,
                      "key " NAME_FORMAT ": the file ends before its type",
                      NAME_ARGS(key->name));
    }
    if (type >= VALUE_TYPE_COUNT) {
        return REFUSE(cursor, ERR_INVALID,
                      "key " NAME_FORMAT ": unknown value type %u",
                      NAME_ARGS(key->name), type);
    }
    if (type == VALUE_ARRAY) {
        key->value.kind = GGUF_ARRAY;
        return parse_array(cursor, key->name, &key->value.array);
    }
    if (type == VALUE_STRING) {
        key->value.kind = GGUF_STRING;
        if (take_string(cursor, &key->value.string)) {
            return OK;
        }
    } else {
        const uint8_t *data = take(cursor, gguf_element_size(type));
        if (data != NULL) {
            key->value = gguf_decode_scalar(type, data);
            return OK;
        }
    }
    return REFUSE(cursor, ERR_INVALID,
                  "key " NAME_FORMAT ": its value leaves the file",
                  NAME_ARGS(key->name));
}

static enum err parse_keys(struct cursor *cursor)
{
    struct gguf_part *part = cursor->part;
    for (uint32_t i = 0; i < part->key_count; i++) {
        struct gguf_key *key = &part->keys[i];
        if (!take_string(cursor, &key->name)) {
            return REFUSE(cursor, ERR_INVALID,
                          "the name of key %u leaves the file", i);
        }
        if (key->name.size == 0 || key->name.size > GGUF_KEY_SIZE_MAX) {
            return REFUSE(cursor, ERR_INVALID,
                          "the name of key %u has %zu bytes, allowed are 1 to "
                          "%d",
                          i, key->name.size, GGUF_KEY_SIZE_MAX);
        }
        enum err err = parse_value(cursor, key);
        if (err != OK) {
            return err;
        }
    }
    return OK;
}

static enum err read_alignment(struct cursor *cursor, uint64_t *alignment_out)
{
    struct gguf_part *part = cursor->part;
    uint64_t alignment = ALIGNMENT_DEFAULT;
    for (uint32_t i = 0; i < part->key_count; i++) {
        const struct gguf_key *key = &part->keys[i];
        if (!span_equals_string(key->name, "general.alignment")) {
            continue;
        }
        if (key->value.kind != GGUF_UINT) {
            return REFUSE(cursor, ERR_INVALID,
                          "key general.alignment: not an unsigned number");
        }
        alignment = key->value.unsigned_value;
    }
    if (alignment < 8 || alignment > ALIGNMENT_MAX ||
        (alignment & (alignment - 1)) != 0) {
        return REFUSE(cursor, ERR_INVALID,
                      "key general.alignment: %llu is not a power of two from "
                      "8 to %d",
                      (unsigned long long)alignment, ALIGNMENT_MAX);
    }
    *alignment_out = alignment;
    return OK;
}

/* Dimensions to bytes: each at least 1, whole blocks in a row, no overflow. */
static enum err tensor_size(struct cursor *cursor,
                            const struct gguf_tensor *tensor,
                            uint64_t *size_out)
{
    const struct gguf_type_info *info = gguf_type_info(tensor->type);
    if (info->name == NULL) {
        return REFUSE(cursor, ERR_UNSUPPORTED,
                      "tensor " NAME_FORMAT ": type %u (%s) is not supported",
                      NAME_ARGS(tensor->name), tensor->type,
                      gguf_foreign_type_name(tensor->type));
    }
    uint64_t count = 1;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t dimension = tensor->dimensions[i];
        bool is_over = __builtin_mul_overflow(count, dimension, &count);
        if (dimension == 0 || is_over) {
            return REFUSE(cursor, ERR_INVALID,
                          "tensor " NAME_FORMAT ": dimension %u is %llu%s",
                          NAME_ARGS(tensor->name), i,
                          (unsigned long long)dimension,
                          is_over ? ", more than can be counted" : "");
        }
    }
    if (tensor->dimensions[0] % info->block_elements != 0) {
        return REFUSE(cursor, ERR_INVALID,
                      "tensor " NAME_FORMAT
                      ": rows of %llu are not whole blocks of %u (%s)",
                      NAME_ARGS(tensor->name),
                      (unsigned long long)tensor->dimensions[0],
                      info->block_elements, info->name);
    }
    if (__builtin_mul_overflow(count / info->block_elements,
                               (uint64_t)info->block_bytes, size_out)) {
        return REFUSE(cursor, ERR_INVALID,
                      "tensor " NAME_FORMAT ": its size overflows",
                      NAME_ARGS(tensor->name));
    }
    return OK;
}

/* Leaves the offset in data.size until the start of the data is known. */
static enum err parse_tensor(struct cursor *cursor, uint32_t number,
                             struct gguf_tensor *tensor)
{
    if (!take_string(cursor, &tensor->name)) {
        return REFUSE(cursor, ERR_INVALID,
                      "the name of tensor %u leaves the file", number);
    }
    if (tensor->name.size == 0 ||
        tensor->name.size > GGUF_TENSOR_NAME_SIZE_MAX) {
        return REFUSE(cursor, ERR_INVALID,
                      "the name of tensor %u has %zu bytes, allowed are 1 to "
                      "%d",
                      number, tensor->name.size, GGUF_TENSOR_NAME_SIZE_MAX);
    }
    bool is_whole = take_u32(cursor, &tensor->dimension_count);
    uint32_t count = is_whole ? tensor->dimension_count : 1;
    if (count < 1 || count > 4) {
        return REFUSE(cursor, ERR_INVALID,
                      "tensor " NAME_FORMAT ": %u dimensions, allowed are 1 to "
                      "4",
                      NAME_ARGS(tensor->name), count);
    }
    for (uint32_t i = 0; i < 4; i++) {
        tensor->dimensions[i] = 1;
        is_whole = is_whole &&
                   (i >= count || take_u64(cursor, &tensor->dimensions[i]));
    }
    uint64_t offset = 0;
    is_whole = is_whole && take_u32(cursor, &tensor->type) &&
               take_u64(cursor, &offset);
    if (!is_whole) {
        return REFUSE(cursor, ERR_INVALID,
                      "tensor " NAME_FORMAT ": the file ends in its entry",
                      NAME_ARGS(tensor->name));
    }
    tensor->data.size = (size_t)offset;
    return OK;
}

static enum err place_tensor(struct cursor *cursor, uint64_t alignment,
                             uint64_t data_begin, struct gguf_tensor *tensor)
{
    uint64_t offset = tensor->data.size;
    uint64_t size = 0;
    enum err err = tensor_size(cursor, tensor, &size);
    if (err != OK) {
        return err;
    }
    if (offset % alignment != 0) {
        return REFUSE(cursor, ERR_INVALID,
                      "tensor " NAME_FORMAT
                      ": offset %llu is not a multiple of %llu",
                      NAME_ARGS(tensor->name), (unsigned long long)offset,
                      (unsigned long long)alignment);
    }
    uint64_t room =
        cursor->file.size > data_begin ? cursor->file.size - data_begin : 0;
    if (offset > room || size > room - offset) {
        return REFUSE(cursor, ERR_INVALID,
                      "tensor " NAME_FORMAT
                      ": %llu bytes at offset %llu leave the file (%llu bytes "
                      "of data); is it cut short?",
                      NAME_ARGS(tensor->name), (unsigned long long)size,
                      (unsigned long long)offset, (unsigned long long)room);
    }
    tensor->data =
        span_of(cursor->file.data + data_begin + offset, (size_t)size);
    return OK;
}

static enum err parse_tensors(struct cursor *cursor)
{
    struct gguf_part *part = cursor->part;
    uint64_t alignment = ALIGNMENT_DEFAULT;
    enum err err = read_alignment(cursor, &alignment);
    for (uint32_t i = 0; err == OK && i < part->tensor_count; i++) {
        err = parse_tensor(cursor, i, &part->tensors[i]);
    }
    if (err != OK) {
        return err;
    }
    uint64_t data_begin = (cursor->at + alignment - 1) & ~(alignment - 1);
    for (uint32_t i = 0; err == OK && i < part->tensor_count; i++) {
        err = place_tensor(cursor, alignment, data_begin, &part->tensors[i]);
    }
    return err;
}

static enum err check_version(struct cursor *cursor, uint32_t version)
{
    if (version >= VERSION_OLDEST && version <= VERSION_NEWEST) {
        return OK;
    }
    uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= VERSION_NEWEST) {
        return REFUSE(cursor, ERR_INVALID,
                      "the file is big-endian (version %u)", swapped);
    }
    return REFUSE(cursor, ERR_INVALID,
                  "GGUF version %u, supported are %d and %d", version,
                  VERSION_OLDEST, VERSION_NEWEST);
}

static enum err check_count(struct cursor *cursor, const char *what,
                            uint64_t count, uint64_t count_max, size_t size_min)
{
    if (count <= count_max && count <= left(cursor) / size_min) {
        return OK;
    }
    return REFUSE(cursor, ERR_INVALID,
                  "the header counts %llu %s, more than the file can hold",
                  (unsigned long long)count, what);
}

static enum err parse_header(struct cursor *cursor)
{
    struct gguf_part *part = cursor->part;
    if (cursor->file.size < HEADER_SIZE ||
        memcmp(cursor->file.data, "GGUF", 4) != 0) {
        return REFUSE(cursor, ERR_INVALID, "not a GGUF file");
    }
    uint32_t version;
    uint64_t tensor_count;
    uint64_t key_count;
    memcpy(&version, cursor->file.data + 4, 4);
    memcpy(&tensor_count, cursor->file.data + 8, 8);
    memcpy(&key_count, cursor->file.data + 16, 8);
    cursor->at = HEADER_SIZE;
    enum err err = check_version(cursor, version);
    if (err == OK) {
        err = check_count(cursor, "keys", key_count, GGUF_KEY_COUNT_MAX,
                          KEY_SIZE_MIN);
    }
    if (err == OK) {
        err = check_count(cursor, "tensors", tensor_count,
                          GGUF_TENSOR_COUNT_MAX, TENSOR_SIZE_MIN);
    }
    if (err != OK) {
        return err;
    }
    part->keys = mem_try_array((size_t)key_count + 1, sizeof(*part->keys));
    part->tensors =
        mem_try_array((size_t)tensor_count + 1, sizeof(*part->tensors));
    if (part->keys == NULL || part->tensors == NULL) {
        return REFUSE(cursor, ERR_NO_MEMORY, "no memory for its tables");
    }
    part->key_count = (uint32_t)key_count;
    part->tensor_count = (uint32_t)tensor_count;
    return OK;
}

enum err gguf_part_parse(struct gguf_part *part, const char *path,
                         struct span bytes, struct why *why)
{
    *part = (struct gguf_part){.path = path};
    struct cursor cursor = {.file = bytes, .part = part, .why = why};
    enum err err = parse_header(&cursor);
    if (err == OK) {
        err = parse_keys(&cursor);
    }
    if (err == OK) {
        err = parse_tensors(&cursor);
    }
    if (err != OK) {
        gguf_part_finish(part);
    }
    return err;
}

void gguf_part_finish(struct gguf_part *part)
{
    mem_free(part->keys);
    mem_free(part->tensors);
    *part = (struct gguf_part){0};
}
