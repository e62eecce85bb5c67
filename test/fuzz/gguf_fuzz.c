/* Any bytes as a model file: refused with a reason, or all of it can be read. */
#include <stdlib.h>

#include "gguf/gguf.h"

static uint64_t sum;

static void touch(struct span span)
{
    for (size_t i = 0; i < span.size; i++) {
        sum += span.data[i];
    }
}

static void walk_array(struct gguf_array array)
{
    struct span text;
    if (array.kind == GGUF_STRING) {
        while (gguf_array_next_string(&array, &text)) {
            touch(text);
        }
        return;
    }
    for (uint64_t i = 0; i < array.count; i++) {
        if (array.kind == GGUF_INT || array.kind == GGUF_UINT) {
            sum += (uint64_t)gguf_array_integer_at(&array, i);
        } else if (array.kind == GGUF_FLOAT) {
            sum += gguf_array_float_at(&array, i) > 0;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why = {0};
    struct gguf *gguf;
    if (gguf_open_bytes(span_of(data, size), &why, &gguf) != OK) {
        if (why.text[0] == 0) {
            abort();
        }
        return 0;
    }
    for (uint32_t i = 0; i < gguf_key_count(gguf); i++) {
        struct span name;
        struct gguf_value value;
        gguf_key_at(gguf, i, &name, &value);
        touch(name);
        if (value.kind == GGUF_STRING) {
            touch(value.string);
        } else if (value.kind == GGUF_ARRAY) {
            walk_array(value.array);
        }
    }
    for (uint32_t i = 0; i < gguf_tensor_count(gguf); i++) {
        touch(gguf_tensor_at(gguf, i)->name);
        touch(gguf_tensor_at(gguf, i)->data);
    }
    gguf_close(gguf);
    return 0;
}
