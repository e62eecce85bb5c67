/* Cuts worked out by hand from the published patterns; words are shown with
 * bars between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/rng.h"
#include "text/split.h"

static enum err add_word(void *context, struct span word)
{
    struct buf *out = context;
    buf_add_span(out, word);
    buf_add_byte(out, '|');
    return OK;
}

static void assert_cut(const char *name, const char *text, const char *cut)
{
    struct text_split *split;
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_int_equal(text_split_create(span_of_string(name), NULL, &split), OK);
    assert_int_equal(
        text_split_run(split, span_of_string(text), add_word, &out), OK);
    assert_string_equal(buf_string(&out), cut);
    text_split_destroy(split);
    buf_finish(&out);
}

static void words_are_cut_as_published(void **state)
{
    (void)state;
    assert_cut("gpt-2", "I'll say 1234!!  ok", "I|'ll| say| 1234|!!| | ok|");
    assert_cut("gpt-2", "A'LL", "A|'|LL|");
    assert_cut("llama-bpe", "A'LL 1234567\n\n x", "A|'LL| |123|456|7|\n\n| x|");
    assert_cut("qwen2", "x=12;\n", "x|=|1|2|;\n|");
    assert_cut("llama3", "(hi)", "(hi|)|");
    assert_cut("smollm", "a 12", "a| |1|2|");
    assert_cut("default", "a 1234,b", "a| |123|4|,|b|");
    assert_cut("", "a,", "a|,|");
}

/* U+0085 is white space, U+180E is not, whatever the library thinks. */
static void white_space_is_unicodes(void **state)
{
    (void)state;
    assert_cut("gpt-2",
               "a\xc2\x85\xc2\x85"
               "b",
               "a|\xc2\x85|\xc2\x85|b|");
    assert_cut("gpt-2", "a\xe1\xa0\x8e!", "a|\xe1\xa0\x8e!|");
}

static void broken_bytes_are_words_of_their_own(void **state)
{
    (void)state;
    assert_cut("gpt-2",
               "ab\xff\xfe"
               "cd",
               "ab|\xff\xfe|cd|");
}

static enum err count_bytes(void *context, struct span word)
{
    assert_true(word.size > 0);
    *(size_t *)context += word.size;
    return OK;
}

/* Whatever the bytes, the words together are the text. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"gpt-2", "llama-bpe", "qwen2", "smollm",
                                        "default"};
    struct rng rng = rng_from_seed(5);
    for (size_t i = 0; i < 5; i++) {
        struct text_split *split;
        assert_int_equal(
            text_split_create(span_of_string(NAMES[i]), NULL, &split), OK);
        assert_string_equal(text_split_name(split), NAMES[i]);
        for (int round = 0; round < 500; round++) {
            uint8_t bytes[64];
            for (size_t k = 0; k < sizeof(bytes); k++) {
                bytes[k] = rng_below(&rng, 4) == 0
                               ? (uint8_t)rng_below(&rng, 256)
                               : (uint8_t) " a1'\n.sZ"[rng_below(&rng, 8)];
            }
            size_t count = 0;
            assert_int_equal(
                text_split_run(split, span_of(bytes, 64), count_bytes, &count),
                OK);
            assert_int_equal(count, 64);
        }
        text_split_destroy(split);
    }
}

static enum err stop_at_once(void *context, struct span word)
{
    (void)word;
    (*(int *)context)++;
    return ERR_FULL;
}

static void the_first_error_ends_it(void **state)
{
    (void)state;
    struct text_split *split;
    int calls = 0;
    assert_int_equal(text_split_create(span_of_string("qwen2"), NULL, &split),
                     OK);
    assert_int_equal(
        text_split_run(split, span_of_string("a b c"), stop_at_once, &calls),
        ERR_FULL);
    assert_int_equal(calls, 1);
    text_split_destroy(split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut_as_published),
        cmocka_unit_test(white_space_is_unicodes),
        cmocka_unit_test(broken_bytes_are_words_of_their_own),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(the_first_error_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
