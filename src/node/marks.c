#include "node/marks.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "wire/bytes.h"

enum { SAMPLE_COUNT = 4, SAMPLE_SIZE = 256, ITEM_SIZE_MAX = 1 << 17 };

/* mark = H(mark, H(bytes)): large values are hashed where they lie. */
static void mix(uint8_t mark[DIGEST_SHA256_SIZE], struct span bytes)
{
    uint8_t pair[2 * DIGEST_SHA256_SIZE];
    memcpy(pair, mark, DIGEST_SHA256_SIZE);
    digest_sha256(bytes, pair + DIGEST_SHA256_SIZE);
    digest_sha256(span_of(pair, sizeof(pair)), mark);
}

static void mix_numbers(uint8_t mark[DIGEST_SHA256_SIZE], uint64_t a,
                        uint64_t b, uint64_t c)
{
    struct buf numbers;
    buf_init(&numbers, 3 * sizeof(a));
    wire_write_u64(&numbers, a);
    wire_write_u64(&numbers, b);
    wire_write_u64(&numbers, c);
    mix(mark, buf_span(&numbers));
    buf_finish(&numbers);
}

/* -------- keys -------- */

static void mix_value(uint8_t mark[DIGEST_SHA256_SIZE],
                      const struct gguf_value *value)
{
    uint64_t bits = 0;
    switch (value->kind) {
    case GGUF_UINT:
    case GGUF_INT:
        bits = value->unsigned_value;
        break;
    case GGUF_FLOAT:
        memcpy(&bits, &value->float_value, sizeof(bits));
        break;
    case GGUF_BOOL:
        bits = value->bool_value;
        break;
    case GGUF_STRING:
        mix(mark, value->string);
        break;
    case GGUF_ARRAY:
        mix_numbers(mark, value->array.kind, value->array.element_type,
                    value->array.count);
        mix(mark, value->array.bytes);
        break;
    }
    mix_numbers(mark, value->kind, bits, 0);
}

static void mix_keys(uint8_t mark[DIGEST_SHA256_SIZE], const struct gguf *gguf,
                     struct span prefix)
{
    for (uint32_t i = 0; i < gguf_key_count(gguf); i++) {
        struct span name;
        struct gguf_value value;
        gguf_key_at(gguf, i, &name, &value);
        if (span_equals(span_slice(name, 0, prefix.size), prefix)) {
            mix(mark, name);
            mix_value(mark, &value);
        }
    }
}

/* -------- tensors -------- */

static void mix_data(uint8_t mark[DIGEST_SHA256_SIZE], struct span data)
{
    if (data.size <= (size_t)SAMPLE_COUNT * SAMPLE_SIZE) {
        mix(mark, data);
        return;
    }
    size_t last = data.size - SAMPLE_SIZE;
    for (size_t i = 0; i < SAMPLE_COUNT; i++) {
        size_t at = last / (SAMPLE_COUNT - 1) * i;
        at = i == SAMPLE_COUNT - 1 ? last : at;
        mix(mark, span_slice(data, at, at + SAMPLE_SIZE));
    }
}

static void mix_tensor(uint8_t mark[DIGEST_SHA256_SIZE],
                       const struct gguf_tensor *tensor)
{
    const uint64_t *dimensions = tensor->dimensions;
    mix(mark, tensor->name);
    mix_numbers(mark, tensor->type, tensor->dimension_count, dimensions[0]);
    mix_numbers(mark, dimensions[1], dimensions[2], dimensions[3]);
    mix_data(mark, tensor->data);
}

/* -------- both -------- */

static void mark_model(const struct gguf *gguf,
                       uint8_t mark[DIGEST_SHA256_SIZE])
{
    struct span architecture = {0};
    struct buf prefix;
    IGNORE(gguf_read_string(gguf, "general.architecture", NULL, &architecture));
    buf_init(&prefix, ITEM_SIZE_MAX);
    buf_add_span(&prefix, span_slice(architecture, 0, ITEM_SIZE_MAX / 2));
    buf_add_byte(&prefix, '.');
    mix(mark, span_of_string("baton model mark 1"));
    mix(mark, architecture);
    mix_keys(mark, gguf, buf_span(&prefix));
    buf_finish(&prefix);
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        mix_tensor(mark, gguf_tensor_at(gguf, i));
    }
}

static void write_text(const uint8_t mark[DIGEST_SHA256_SIZE],
                       char out[2 * DIGEST_SHA256_SIZE + 1])
{
    struct buf text;
    buf_init(&text, 2 * DIGEST_SHA256_SIZE);
    digest_add_hex(&text, span_of(mark, DIGEST_SHA256_SIZE));
    CHECK(!buf_error(&text));
    snprintf(out, 2 * DIGEST_SHA256_SIZE + 1, "%s", buf_string(&text));
    buf_finish(&text);
}

void node_marks_take(const struct gguf *gguf, struct node_marks *marks_out)
{
    struct node_marks *marks = marks_out;
    *marks = (struct node_marks){0};
    mark_model(gguf, marks->model);
    mix(marks->tokenizer, span_of_string("baton tokenizer mark 1"));
    mix_keys(marks->tokenizer, gguf, span_of_string("tokenizer.ggml."));
    write_text(marks->model, marks->model_text);
    write_text(marks->tokenizer, marks->tokenizer_text);
}
