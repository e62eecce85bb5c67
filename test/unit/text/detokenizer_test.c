/* Texts token by token: each release must be whole characters, all releases
 * together the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "unit/text/vocab_builder.h"

static struct vocab_fixture open_vocab(bool is_spm)
{
    struct vocab_fixture fixture;
    struct why why;
    if (is_spm) {
        build_spm_vocab(&fixture.built, NULL);
    } else {
        build_byte_vocab(&fixture.built, "gpt-2", NULL);
    }
    assert_int_equal(fixture_open(&fixture, &why), OK);
    return fixture;
}

/* Of random bytes only whole valid characters come out at any time, and what
 * comes out for valid text is the text. */
static void no_character_is_ever_split(void **state)
{
    (void)state;
    static const char TEXT[] = "a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80z";
    struct vocab_fixture f = open_vocab(false);
    struct rng rng = rng_from_seed(3);
    for (int round = 0; round < 2000; round++) {
        struct text_detokenizer detokenizer;
        text_detokenizer_init(&detokenizer, f.tokenizer, false);
        struct buf out;
        buf_init(&out, 4096);
        bool is_random = round > 0;
        for (size_t i = 0; i < sizeof(TEXT) - 1; i++) {
            text_token id = is_random && rng_below(&rng, 2)
                                ? (text_token)rng_below(&rng, 256)
                                : (uint8_t)TEXT[i];
            text_detokenizer_add(&detokenizer, id, &out);
            for (size_t at = 0; at < out.size;) {
                size_t size =
                    utf8_size(span_slice(buf_span(&out), at, out.size));
                assert_int_not_equal(size, 0);
                at += size;
            }
        }
        text_detokenizer_flush(&detokenizer, &out);
        if (!is_random) {
            assert_string_equal(buf_string(&out), TEXT);
        }
        buf_finish(&out);
    }
    fixture_close(&f);
}

static void add_all(struct text_detokenizer *detokenizer, const text_token *ids,
                    size_t count, struct buf *out)
{
    buf_reset(out);
    for (size_t i = 0; i < count; i++) {
        text_detokenizer_add(detokenizer, ids[i], out);
    }
}

/* One U+FFFD for a character that breaks off, one for a byte that starts
 * none, one for what is open at the end. */
static void broken_characters_become_one_mark(void **state)
{
    (void)state;
    struct vocab_fixture f = open_vocab(false);
    struct text_detokenizer detokenizer;
    text_detokenizer_init(&detokenizer, f.tokenizer, false);
    struct buf out;
    buf_init(&out, 4096);
    text_token ids[] = {0xf0, 0x9f, 0x98, 'a', 0xff, 0xc3};
    add_all(&detokenizer, ids, 6, &out);
    assert_string_equal(buf_string(&out), "\xef\xbf\xbd"
                                          "a\xef\xbf\xbd");
    buf_reset(&out);
    text_detokenizer_flush(&detokenizer, &out);
    assert_string_equal(buf_string(&out), "\xef\xbf\xbd");
    buf_finish(&out);
    fixture_close(&f);
}

/* The first space of an SPM text goes, but only of a whole text: BOS before it
 * changes nothing, a prompt before it keeps it. */
static void leading_space_goes_at_the_start_only(void **state)
{
    (void)state;
    struct vocab_fixture f = open_vocab(true);
    struct text_detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 4096);
    text_token ids[] = {1, SPM_SP_A, SPM_SP_AB};
    text_detokenizer_init(&detokenizer, f.tokenizer, false);
    add_all(&detokenizer, ids, 3, &out);
    assert_string_equal(buf_string(&out), "a ab");
    text_detokenizer_init(&detokenizer, f.tokenizer, true);
    add_all(&detokenizer, ids, 2, &out);
    assert_string_equal(buf_string(&out), "<s> a");
    text_detokenizer_init(&detokenizer, f.tokenizer, false);
    text_detokenizer_prime(&detokenizer, ids, 2);
    add_all(&detokenizer, ids + 2, 1, &out);
    assert_string_equal(buf_string(&out), " ab");
    buf_finish(&out);
    fixture_close(&f);
}

/* A character whose first bytes end the prompt comes out whole. */
static void prompt_may_end_inside_a_character(void **state)
{
    (void)state;
    struct vocab_fixture f = open_vocab(false);
    struct text_detokenizer detokenizer;
    struct buf out;
    buf_init(&out, 4096);
    text_token prompt[40];
    for (int i = 0; i < 40; i++) {
        prompt[i] = 'x';
    }
    prompt[39] = 0xc3;
    text_token rest[] = {0xa9};
    text_detokenizer_init(&detokenizer, f.tokenizer, false);
    text_detokenizer_prime(&detokenizer, prompt, 40);
    struct text_detokenizer fork = detokenizer;
    add_all(&detokenizer, rest, 1, &out);
    assert_string_equal(buf_string(&out), "\xc3\xa9");
    text_token other[] = {263, 'b', 99999, -1};
    add_all(&fork, other, 4, &out);
    assert_string_equal(buf_string(&out), "\xef\xbf\xbd"
                                          "b");
    buf_finish(&out);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_character_is_ever_split),
        cmocka_unit_test(broken_characters_become_one_mark),
        cmocka_unit_test(leading_space_goes_at_the_start_only),
        cmocka_unit_test(prompt_may_end_inside_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
