/* Encodings of two small vocabularies, worked out by hand. Equality with the
 * families' own tokenizers is test/e2e/tokenizer.test.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/text/vocab_builder.h"

static struct vocab_fixture open_bytes(const char *pre)
{
    struct vocab_fixture fixture;
    struct why why;
    build_byte_vocab(&fixture.built, pre, NULL);
    assert_int_equal(fixture_open(&fixture, &why), OK);
    return fixture;
}

static struct vocab_fixture open_spm(void)
{
    struct vocab_fixture fixture;
    struct why why;
    build_spm_vocab(&fixture.built, NULL);
    assert_int_equal(fixture_open(&fixture, &why), OK);
    return fixture;
}

static void assert_ids(const struct vocab_fixture *fixture, struct span text,
                       struct text_encode_options options,
                       const text_token *expected, size_t count)
{
    text_token ids[64];
    size_t got;
    assert_int_equal(
        text_encode(fixture->tokenizer, text, &options, ids, 64, &got), OK);
    assert_int_equal(got, count);
    assert_memory_equal(ids, expected, count * sizeof(*ids));
}
#define IDS(...)                 \
    (text_token[]){__VA_ARGS__}, \
        sizeof((text_token[]){__VA_ARGS__}) / sizeof(text_token)
#define TEXT(literal) span_of(literal, sizeof(literal) - 1)

static const struct text_encode_options PLAIN = {false, false};
static const struct text_encode_options SPECIAL = {false, true};

/* Lowest rank first: he, ll, hell, hello; the pattern keeps words apart. */
static void bytes_are_merged_by_rank(void **state)
{
    (void)state;
    struct vocab_fixture f = open_bytes("gpt-2");
    assert_ids(&f, TEXT("hello"), PLAIN, IDS(ID_HELLO));
    assert_ids(&f, TEXT("hellhe"), PLAIN, IDS(258, 256));
    assert_ids(&f, TEXT("hello w"), PLAIN, IDS(ID_HELLO, 259));
    assert_ids(&f, TEXT("\xc3\xa9"), PLAIN, IDS(ID_E_ACUTE));
    fixture_close(&f);
}

/* Bytes that are no UTF-8, NUL among them, go through as byte tokens. */
static void any_bytes_are_accepted(void **state)
{
    (void)state;
    struct vocab_fixture f = open_bytes("llama-bpe");
    assert_ids(&f, TEXT("a\xff\xc3\0he"), PLAIN, IDS('a', 0xff, 0xc3, 0, 256));
    fixture_close(&f);
}

/* Longest special first; control only when asked, user-defined always. */
static void specials_are_cut_out(void **state)
{
    (void)state;
    struct vocab_fixture f = open_bytes("qwen2");
    assert_ids(&f, TEXT("<|im_end|>a<|imhe"), SPECIAL, IDS(263, 'a', 264, 256));
    assert_ids(&f, TEXT("<|im"), PLAIN, IDS('<', '|', 'i', 'm'));
    assert_ids(&f, TEXT("a<think>"), PLAIN, IDS('a', 265));
    assert_true(text_token_is_special(f.tokenizer, 263));
    assert_false(text_token_is_special(f.tokenizer, 265));
    assert_int_equal(text_token_find(f.tokenizer, TEXT("<think>")), 265);
    text_token ends[4];
    assert_int_equal(text_end_tokens(f.tokenizer, ends, 4), 1);
    assert_int_equal(ends[0], 263);
    fixture_close(&f);
}

/* llama-bpe begins with BOS unless the file says otherwise, gpt-2 does not. */
static void bos_is_added_by_habit(void **state)
{
    (void)state;
    struct text_encode_options whole = {true, false};
    struct vocab_fixture f = open_bytes("llama-bpe");
    assert_ids(&f, TEXT("a"), whole, IDS(262, 'a'));
    fixture_close(&f);
    f = open_bytes("gpt-2");
    assert_ids(&f, TEXT("a"), whole, IDS('a'));
    fixture_close(&f);
}

/* Best score first: "_a" (-2) before "ab" (-3), but "bc" (-1) before both. */
static void pieces_are_joined_by_score(void **state)
{
    (void)state;
    struct vocab_fixture f = open_spm();
    assert_ids(&f, TEXT("ab"), PLAIN, IDS(SPM_SP_AB));
    assert_ids(&f, TEXT("abc"), PLAIN, IDS(SPM_SP_A, SPM_BC));
    assert_ids(&f, TEXT("  b"), PLAIN,
               IDS(SPM_SPACE, SPM_SPACE, SPM_SPACE, SPM_B));
    assert_ids(&f, TEXT("\xc3\xa9"), PLAIN, IDS(SPM_SPACE, 3 + 0xc3, 3 + 0xa9));
    assert_ids(&f, TEXT("\xff"), PLAIN, IDS(SPM_SPACE, 3 + 0xff));
    assert_ids(&f, TEXT("a<s>a"), SPECIAL, IDS(SPM_SP_A, 1, SPM_SP_A));
    fixture_close(&f);
}

/* No text may come out as a control or byte token by its letters. */
static void letters_do_not_make_specials(void **state)
{
    (void)state;
    struct vocab_fixture f = open_spm();
    text_token ids[64];
    size_t count;
    assert_int_equal(text_encode(f.tokenizer, TEXT("</s><0x41><s>"), &PLAIN,
                                 ids, 64, &count),
                     OK);
    for (size_t i = 0; i < count; i++) {
        assert_false(text_token_is_special(f.tokenizer, ids[i]));
        assert_int_not_equal(ids[i], 3 + 0x41);
    }
    fixture_close(&f);
}

static void too_many_ids_are_refused(void **state)
{
    (void)state;
    struct vocab_fixture f = open_bytes("gpt-2");
    text_token ids[4];
    size_t count = 77;
    assert_int_equal(
        text_encode(f.tokenizer, TEXT("a b c d"), &PLAIN, ids, 4, &count),
        ERR_FULL);
    assert_int_equal(count, 77);
    assert_int_equal(
        text_encode(f.tokenizer, TEXT("abcd"), &PLAIN, ids, 4, &count), OK);
    fixture_close(&f);
}

/* A run of a hundred thousand letters is one word: no quadratic work, or this
 * would not end. */
static void long_runs_are_encoded(void **state)
{
    (void)state;
    enum { SIZE = 100000 };
    struct vocab_fixture f = open_bytes("qwen2");
    uint8_t *text = malloc(SIZE);
    text_token *ids = malloc(SIZE * sizeof(*ids));
    memset(text, 'l', SIZE);
    size_t count;
    assert_int_equal(text_encode(f.tokenizer, span_of(text, SIZE), &PLAIN, ids,
                                 SIZE, &count),
                     OK);
    assert_int_equal(count, SIZE / 2);
    memset(text, ' ', SIZE);
    assert_int_equal(text_encode(f.tokenizer, span_of(text, SIZE), &PLAIN, ids,
                                 SIZE, &count),
                     OK);
    assert_int_equal(count, SIZE);
    free(text);
    free(ids);
    fixture_close(&f);
}

static void assert_refused(struct buf *built, enum err code, const char *part)
{
    struct vocab_fixture f = {.built = *built};
    struct why why;
    enum err err = fixture_open(&f, &why);
    if (err != code || strstr(why.text, part) == NULL) {
        fail_msg("%s: \"%s\", not \"%s\"", err_name(err), why.text, part);
    }
    fixture_close(&f);
}

static void strange_files_are_refused_by_key(void **state)
{
    (void)state;
    static const char *const TOKENS[] = {"a", "b", "ab"};
    static const char *const MERGES[] = {"a b", "a c"};
    struct buf built;
    build_byte_vocab(&built, "martian", NULL);
    assert_refused(&built, ERR_UNSUPPORTED, "tokenizer.ggml.pre: \"martian\"");
    build_header(&built, 0, 1);
    build_key_string(&built, "tokenizer.ggml.model", "bert");
    assert_refused(&built, ERR_UNSUPPORTED, "tokenizer.ggml.model: \"bert\"");
    build_header(&built, 0, 0);
    assert_refused(&built, ERR_INVALID, "tokenizer.ggml.model is missing");
    build_header(&built, 0, 3);
    build_key_string(&built, "tokenizer.ggml.model", "gpt2");
    build_key_strings(&built, "tokenizer.ggml.tokens", TOKENS, 3);
    build_key_strings(&built, "tokenizer.ggml.merges", MERGES, 2);
    assert_refused(&built, ERR_INVALID, "merge 1 (a c)");
    build_header(&built, 0, 3);
    build_key_string(&built, "tokenizer.ggml.model", "gpt2");
    build_key_strings(&built, "tokenizer.ggml.tokens", TOKENS, 3);
    build_key_u32(&built, "tokenizer.ggml.eos_token_id", 3);
    assert_refused(&built, ERR_INVALID, "eos_token_id: 3");
    build_header(&built, 0, 2);
    build_key_string(&built, "tokenizer.ggml.model", "llama");
    build_key_strings(&built, "tokenizer.ggml.tokens", TOKENS, 3);
    assert_refused(&built, ERR_INVALID, "tokenizer.ggml.scores");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_merged_by_rank),
        cmocka_unit_test(any_bytes_are_accepted),
        cmocka_unit_test(specials_are_cut_out),
        cmocka_unit_test(bos_is_added_by_habit),
        cmocka_unit_test(pieces_are_joined_by_score),
        cmocka_unit_test(letters_do_not_make_specials),
        cmocka_unit_test(too_many_ids_are_refused),
        cmocka_unit_test(long_runs_are_encoded),
        cmocka_unit_test(strange_files_are_refused_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
