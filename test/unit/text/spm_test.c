/* What a file may change about SentencePiece: the space in front, the ends, a
 * vocabulary without byte tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "unit/text/vocab_builder.h"

static void open_small(struct vocab_fixture *fixture, uint8_t space_prefix)
{
    struct pieces pieces = {.count = 0};
    piece_add(&pieces, "<unk>", 2, 0);
    piece_add(&pieces, "<s>", 3, 0);
    piece_add(&pieces, "</s>", 3, 0);
    piece_add(&pieces, "\xe2\x96\x81", 1, -3);
    piece_add(&pieces, "a", 1, -2);
    piece_add(&pieces, "x y", 4, 0); /* user-defined, with a space */
    struct buf *built = &fixture->built;
    build_header(built, 0, 9);
    build_key_string(built, "tokenizer.ggml.model", "llama");
    build_pieces(built, &pieces, true);
    build_key_u32(built, "tokenizer.ggml.bos_token_id", 1);
    build_key_u32(built, "tokenizer.ggml.eos_token_id", 2);
    build_key_u32(built, "tokenizer.ggml.unknown_token_id", 0);
    build_key_bool(built, "tokenizer.ggml.add_eos_token", 1);
    build_key_bool(built, "tokenizer.ggml.add_space_prefix", space_prefix);
    struct why why;
    assert_int_equal(fixture_open(fixture, &why), OK);
}

static void assert_encodes(struct vocab_fixture *fixture, const char *text,
                           const text_token *expected, size_t count)
{
    struct text_encode_options options = {true, false};
    text_token ids[16];
    size_t got;
    assert_int_equal(text_encode(fixture->tokenizer, span_of_string(text),
                                 &options, ids, 16, &got),
                     OK);
    assert_int_equal(got, count);
    assert_memory_equal(ids, expected, count * sizeof(*ids));
    fixture_close(fixture);
}

static void the_file_says_whether_a_space_comes_first(void **state)
{
    (void)state;
    struct vocab_fixture fixture;
    open_small(&fixture, 1);
    assert_encodes(&fixture, "a", (text_token[]){1, 3, 4, 2}, 4);
    open_small(&fixture, 0);
    assert_encodes(&fixture, "a", (text_token[]){1, 4, 2}, 3);
}

static void a_character_without_bytes_is_unknown_once(void **state)
{
    (void)state;
    struct vocab_fixture fixture;
    open_small(&fixture, 0);
    assert_encodes(&fixture, "a\xe6\xbc\xa2", (text_token[]){1, 4, 0, 2}, 4);
}

static void user_defined_pieces_are_found_in_plain_text(void **state)
{
    (void)state;
    struct vocab_fixture fixture;
    open_small(&fixture, 0);
    assert_encodes(&fixture, "ax ya", (text_token[]){1, 4, 5, 4, 2}, 5);
}

static void an_empty_text_is_its_ends(void **state)
{
    (void)state;
    struct vocab_fixture fixture;
    open_small(&fixture, 1);
    assert_encodes(&fixture, "", (text_token[]){1, 2}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_says_whether_a_space_comes_first),
        cmocka_unit_test(a_character_without_bytes_is_unknown_once),
        cmocka_unit_test(user_defined_pieces_are_found_in_plain_text),
        cmocka_unit_test(an_empty_text_is_its_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
