/* node/marks: what makes two model files the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../gguf/builder.h"
#include "node/marks.h"

/* What a small file holds; each member changes one thing. */
struct content {
    const char *name, *architecture, *tensor, *chat, *token;
    uint32_t layers, type, bos, changed_byte;
    uint64_t columns;
    uint8_t mask; /* of the changed byte */
    float eps;
};

static const struct content PLAIN = {.name = "one",
                                     .architecture = "llama",
                                     .tensor = "a",
                                     .chat = "form",
                                     .token = "x",
                                     .layers = 7,
                                     .type = GGUF_F16,
                                     .bos = 1,
                                     .columns = 4096,
                                     .eps = 1e-5f};

static struct node_marks marks_of(const struct content *content)
{
    struct buf out;
    struct why why;
    struct gguf *gguf;
    struct node_marks marks;
    const char *tokens[] = {"<s>", content->token};
    const uint64_t shape[2] = {content->columns, 1};
    build_header(&out, 2, 7);
    build_key_string(&out, "general.architecture", content->architecture);
    build_key_string(&out, "general.name", content->name);
    build_key_u32(&out, "llama.block_count", content->layers);
    build_key(&out, "llama.eps", BUILD_F32);
    buf_add(&out, &content->eps, 4);
    build_key_strings(&out, "tokenizer.ggml.tokens", tokens, 2);
    build_key_u32(&out, "tokenizer.ggml.bos_token_id", content->bos);
    build_key_string(&out, "tokenizer.chat_template", content->chat);
    build_tensor(&out, content->tensor, content->type, 2, shape, 0);
    build_tensor(&out, "b", GGUF_F32, 2, SQUARE, 8192);
    build_data(&out, 32, 8192 + 256);
    out.data[out.size - 8192 - 256 + content->changed_byte] ^= content->mask;
    assert_int_equal(open_built(&out, &why, &gguf), OK);
    node_marks_take(gguf, &marks);
    gguf_close(gguf);
    buf_finish(&out);
    return marks;
}

static void expect_change(const struct content *content, bool is_model,
                          bool is_tokenizer)
{
    struct node_marks a = marks_of(&PLAIN), b = marks_of(content);
    assert_int_equal(memcmp(a.model, b.model, 32) != 0, is_model);
    assert_int_equal(memcmp(a.tokenizer, b.tokenizer, 32) != 0, is_tokenizer);
    assert_int_equal(strcmp(a.model_text, b.model_text) != 0, is_model);
    assert_int_equal(strcmp(a.tokenizer_text, b.tokenizer_text) != 0,
                     is_tokenizer);
}

/* Shapes, types, names and keys of the architecture make the model, and so does
 * each byte at begin and end of a long tensor and all of a short one. */
static void what_is_computed_makes_the_model(void **state)
{
    (void)state;
    struct content other = PLAIN;
    other.layers = 8;
    expect_change(&other, true, false);
    other = PLAIN;
    other.eps = 2e-5f;
    expect_change(&other, true, false);
    other = PLAIN;
    other.architecture = "qwen2";
    expect_change(&other, true, false);
    other = PLAIN;
    other.tensor = "c";
    expect_change(&other, true, false);
    other = PLAIN;
    other.type = GGUF_BF16;
    expect_change(&other, true, false);
    other = PLAIN;
    other.columns = 2048;
    expect_change(&other, true, false);
    static const uint32_t bytes[] = {0,    255,  8192 - 256,
                                     8191, 8192, 8192 + 255};
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        other = PLAIN;
        other.changed_byte = bytes[i];
        other.mask = 1;
        expect_change(&other, true, false);
    }
}

/* Vocabulary and special ids make the tokenizer, and nothing else. */
static void what_is_cut_makes_the_tokenizer(void **state)
{
    (void)state;
    struct content other = PLAIN;
    other.token = "y";
    expect_change(&other, false, true);
    other = PLAIN;
    other.bos = 0;
    expect_change(&other, false, true);
}

/* A name or a chat form changes neither; the texts are the digests in hex. */
static void names_do_not_count(void **state)
{
    (void)state;
    struct content other = PLAIN;
    other.name = "two";
    other.chat = "another";
    expect_change(&other, false, false);
    struct node_marks marks = marks_of(&PLAIN);
    char begin[5];
    snprintf(begin, sizeof(begin), "%02x%02x", marks.model[0], marks.model[1]);
    assert_int_equal(strlen(marks.model_text), 64);
    assert_int_equal(strncmp(marks.model_text, begin, 4), 0);
    assert_int_equal(strlen(marks.tokenizer_text), 64);
    assert_memory_not_equal(marks.model, marks.tokenizer, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_computed_makes_the_model),
        cmocka_unit_test(what_is_cut_makes_the_tokenizer),
        cmocka_unit_test(names_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
