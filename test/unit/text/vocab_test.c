/* The token list by itself: types, ends, specials and the bytes of a token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "text/vocab.h"
#include "unit/text/vocab_builder.h"

static struct text_vocab vocab;
static struct vocab_fixture fixture;

static int open_vocab(void **state)
{
    (void)state;
    struct why why;
    build_byte_vocab(&fixture.built, "gpt-2", NULL);
    assert_int_equal(fixture_open(&fixture, &why), OK);
    assert_int_equal(text_vocab_init(&vocab, fixture.gguf, true, &why), OK);
    return 0;
}

static int close_vocab(void **state)
{
    (void)state;
    text_vocab_finish(&vocab);
    fixture_close(&fixture);
    return 0;
}

static void assert_special(const char *text, bool parse, size_t begin,
                           text_token id)
{
    text_token found = TEXT_TOKEN_NONE;
    assert_int_equal(
        text_vocab_find_special(&vocab, span_of_string(text), parse, &found),
        begin);
    assert_int_equal(found, id);
}

static void longest_special_at_the_first_place_wins(void **state)
{
    (void)state;
    assert_special("x<|im_end|>", true, 1, 263);
    assert_special("x<|im_en", true, 1, 264);
    assert_special("<|i<|im_start|>", true, 3, 262);
    assert_special("<think><|im_end|>", true, 0, 265);
    assert_special("<|im_end|><think>", false, 10, 265);
    assert_special("<|i", true, 3, TEXT_TOKEN_NONE);
    assert_special("", true, 0, TEXT_TOKEN_NONE);
}

static void texts_lead_to_ids_and_back(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < vocab.count; id++) {
        assert_int_equal(text_vocab_find(&vocab, text_vocab_text(&vocab, id)),
                         id);
    }
    assert_int_equal(text_vocab_find(&vocab, span_of_string("nope")),
                     TEXT_TOKEN_NONE);
    assert_int_equal(
        text_vocab_find_plain(&vocab, span_of_string("<|im_end|>")),
        TEXT_TOKEN_NONE);
}

/* A byte token stands for its byte, a special for its own letters. */
static void pieces_give_the_bytes_of_a_token(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < 256; id++) {
        struct text_piece piece = text_vocab_piece(&vocab, id);
        uint8_t byte;
        assert_true(text_piece_next(&piece, &byte));
        assert_int_equal(byte, id);
        assert_false(text_piece_next(&piece, &byte));
    }
    struct buf out;
    buf_init(&out, 64);
    text_token_bytes(fixture.tokenizer, 263, true, &out);
    text_token_bytes(fixture.tokenizer, ID_E_ACUTE, true, &out);
    text_token_bytes(fixture.tokenizer, 263, false, &out);
    assert_string_equal(buf_string(&out), "<|im_end|>\xc3\xa9");
    buf_finish(&out);
}

static void refuse_types(int32_t type, uint32_t count)
{
    static const char *const TOKENS[] = {"a", "b"};
    struct buf built;
    build_header(&built, 0, 2);
    build_key_strings(&built, "tokenizer.ggml.tokens", TOKENS, 2);
    build_key_array(&built, "tokenizer.ggml.token_type", BUILD_I32, count);
    for (uint32_t i = 0; i < count; i++) {
        build_u32(&built, (uint32_t)type);
    }
    struct why why;
    struct gguf *gguf;
    struct text_vocab other;
    assert_int_equal(gguf_open_bytes(buf_span(&built), &why, &gguf), OK);
    assert_int_equal(text_vocab_init(&other, gguf, true, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "tokenizer.ggml.token_type"));
    gguf_close(gguf);
    buf_finish(&built);
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    refuse_types(7, 2);
    refuse_types(-1, 2);
    refuse_types(1, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_special_at_the_first_place_wins),
        cmocka_unit_test(texts_lead_to_ids_and_back),
        cmocka_unit_test(pieces_give_the_bytes_of_a_token),
        cmocka_unit_test(wrong_types_are_refused),
    };
    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
