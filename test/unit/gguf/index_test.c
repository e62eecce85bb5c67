/* Thousands of names against what was put in: each is found under its own
 * number, none that was not added is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "gguf/index.h"

enum { COUNT = 5000 };
static char names[COUNT][16];

static struct span name_at(const void *owner, uint32_t number)
{
    (void)owner;
    return span_of_string(names[number]);
}

static void names_lead_to_their_numbers(void **state)
{
    (void)state;
    struct gguf_index index;
    assert_int_equal(gguf_index_init(&index, COUNT, name_at, NULL), OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof(names[i]), "blk.%u.w", i * 7);
        assert_int_equal(gguf_index_add(&index, i), GGUF_INDEX_NONE);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(gguf_index_find(&index, name_at(NULL, i)), i);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        char other[16];
        snprintf(other, sizeof(other), "blk.%u.w", i * 7 + 3);
        assert_int_equal(gguf_index_find(&index, span_of_string(other)),
                         GGUF_INDEX_NONE);
    }
    gguf_index_finish(&index);
}

/* The first of two equal names stays; the second learns whose it is. */
static void a_twin_learns_who_was_first(void **state)
{
    (void)state;
    struct gguf_index index;
    assert_int_equal(gguf_index_init(&index, 2, name_at, NULL), OK);
    snprintf(names[0], sizeof(names[0]), "same");
    snprintf(names[1], sizeof(names[1]), "same");
    assert_int_equal(gguf_index_add(&index, 0), GGUF_INDEX_NONE);
    assert_int_equal(gguf_index_add(&index, 1), 0);
    assert_int_equal(gguf_index_find(&index, span_of_string("same")), 0);
    gguf_index_finish(&index);
}

static void an_empty_index_finds_nothing(void **state)
{
    (void)state;
    struct gguf_index index = {0};
    assert_int_equal(gguf_index_find(&index, span_of_string("a")),
                     GGUF_INDEX_NONE);
    assert_int_equal(gguf_index_init(&index, 0, name_at, NULL), OK);
    assert_int_equal(gguf_index_find(&index, span_of(NULL, 0)),
                     GGUF_INDEX_NONE);
    gguf_index_finish(&index);
    assert_int_equal(gguf_index_init(&index, UINT32_MAX, name_at, NULL),
                     ERR_FULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_their_numbers),
        cmocka_unit_test(a_twin_learns_who_was_first),
        cmocka_unit_test(an_empty_index_finds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
