/* Vocabularies that lack bytes: what has no token becomes U+FFFD where that
 * can be spelled, else the unknown token, else nothing. And whole words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/text/vocab_builder.h"

static const struct text_encode_options PLAIN = {false, false};

/* Tokens "a", "b", "ab" and what `more` has; merge "a b". */
static void open_small(struct vocab_fixture *fixture, const char *pre,
                       const char *const *more, uint32_t more_count,
                       bool has_unknown)
{
    static const char *const MERGES[] = {"a b"};
    const char *tokens[16] = {"a", "b", "ab"};
    for (uint32_t i = 0; i < more_count; i++) {
        tokens[3 + i] = more[i];
    }
    build_header(&fixture->built, 0, has_unknown ? 5 : 4);
    build_key_string(&fixture->built, "tokenizer.ggml.model", "gpt2");
    build_key_string(&fixture->built, "tokenizer.ggml.pre", pre);
    build_key_strings(&fixture->built, "tokenizer.ggml.tokens", tokens,
                      3 + more_count);
    build_key_strings(&fixture->built, "tokenizer.ggml.merges", MERGES, 1);
    if (has_unknown) {
        build_key_u32(&fixture->built, "tokenizer.ggml.unknown_token_id", 3);
    }
    struct why why;
    assert_int_equal(fixture_open(fixture, &why), OK);
}

static void assert_encodes(struct vocab_fixture *fixture, const char *text,
                           const text_token *expected, size_t count)
{
    text_token ids[16];
    size_t got;
    assert_int_equal(text_encode(fixture->tokenizer, span_of_string(text),
                                 &PLAIN, ids, 16, &got),
                     OK);
    assert_int_equal(got, count);
    assert_memory_equal(ids, expected, count * sizeof(*ids));
    fixture_close(fixture);
}

static void a_byte_without_token_becomes_the_mark(void **state)
{
    (void)state;
    static const char *const MARK[] = {"\xc3\xaf", "\xc2\xbf", "\xc2\xbd"};
    struct vocab_fixture fixture;
    open_small(&fixture, "gpt-2", MARK, 3, false);
    assert_encodes(&fixture, "abz", (text_token[]){2, 3, 4, 5}, 4);
}

static void without_the_mark_it_is_unknown_or_nothing(void **state)
{
    (void)state;
    static const char *const UNKNOWN[] = {"<unk>"};
    struct vocab_fixture fixture;
    open_small(&fixture, "gpt-2", UNKNOWN, 1, true);
    assert_encodes(&fixture, "abz", (text_token[]){2, 3}, 2);
    open_small(&fixture, "gpt-2", NULL, 0, false);
    assert_encodes(&fixture, "abz", (text_token[]){2}, 1);
}

/* "ba" is a token that no merge makes: only llama-bpe takes it, and only as a
 * whole word. */
static void llama_takes_whole_words(void **state)
{
    (void)state;
    static const char *const WORD[] = {"ba"};
    struct vocab_fixture fixture;
    open_small(&fixture, "llama-bpe", WORD, 1, false);
    assert_encodes(&fixture, "ba", (text_token[]){3}, 1);
    open_small(&fixture, "llama-bpe", WORD, 1, false);
    assert_encodes(&fixture, "baa", (text_token[]){1, 0, 0}, 3);
    open_small(&fixture, "qwen2", WORD, 1, false);
    assert_encodes(&fixture, "ba", (text_token[]){1, 0}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_without_token_becomes_the_mark),
        cmocka_unit_test(without_the_mark_it_is_unknown_or_nothing),
        cmocka_unit_test(llama_takes_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
