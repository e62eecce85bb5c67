/* wire/aux: the first tokens and what a peer may do to them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/aux.h"
#include "wire/bytes.h"

static struct wire_aux example(void)
{
    return (struct wire_aux){.prompt_tokens = 1000,
                             .cached_tokens = 64,
                             .choice_count = 2,
                             .prompt_digest = {1, 2, 3, [15] = 255},
                             .choices = {{.first = {7, -0.5f},
                                          .top_count = 2,
                                          .tops = {{7, -0.5f}, {9, -INFINITY}}},
                                         {.first = {INT32_MAX, 0.0f}}}};
}

static struct wire_aux largest(void)
{
    struct wire_aux aux = {.choice_count = WIRE_CHOICE_COUNT_MAX};
    for (int i = 0; i < WIRE_CHOICE_COUNT_MAX; i++) {
        aux.choices[i].top_count = WIRE_TOP_COUNT_MAX;
        for (int k = 0; k < WIRE_TOP_COUNT_MAX; k++) {
            aux.choices[i].tops[k] = (struct wire_token){100 * i + k, -1.0f};
        }
    }
    return aux;
}

static void expect_back(const struct wire_aux *aux)
{
    struct wire_aux got;
    struct why why = {0};
    struct buf out;
    buf_init(&out, 16384);
    wire_aux_encode(aux, &out);
    assert_int_equal(wire_aux_decode(buf_span(&out), &why, &got), OK);
    assert_memory_equal(&got, aux, sizeof(got));
    buf_finish(&out);
}

/* Every member, with one choice and with all there may be. [transfer T48] */
static void aux_comes_back(void **state)
{
    (void)state;
    struct wire_aux aux = example();
    expect_back(&aux);
    aux = largest();
    expect_back(&aux);
}

/* Every shorter body and one byte more. */
static void other_lengths_are_refused(void **state)
{
    (void)state;
    struct wire_aux aux = example(), got;
    struct why why = {0};
    struct buf out;
    buf_init(&out, 4096);
    wire_aux_encode(&aux, &out);
    for (size_t size = 0; size < out.size; size++) {
        assert_int_not_equal(
            wire_aux_decode(span_of(out.data, size), &why, &got), OK);
    }
    buf_add_byte(&out, 0);
    assert_int_equal(wire_aux_decode(buf_span(&out), &why, &got), ERR_CORRUPT);
    buf_finish(&out);
}

static void expect_bad(size_t at, uint32_t value, const char *words)
{
    struct wire_aux aux = example(), got;
    struct why why = {0};
    struct buf out;
    buf_init(&out, 4096);
    wire_aux_encode(&aux, &out);
    memcpy(out.data + at, &value, sizeof(value));
    assert_int_equal(wire_aux_decode(buf_span(&out), &why, &got), ERR_INVALID);
    assert_non_null(strstr(why.text, words));
    buf_finish(&out);
}

/* No choice, 17, 21 alternatives, a negative token, a logprob that is none: the
 * field is named. [transfer T48] */
static void fields_out_of_bounds_are_named(void **state)
{
    (void)state;
    expect_bad(8, 0, "choice_count");
    expect_bad(8, WIRE_CHOICE_COUNT_MAX + 1, "choice_count");
    expect_bad(8, UINT32_MAX, "choice_count");
    expect_bad(28, 0x80000000u, "token");
    expect_bad(32, 0x7fc00000u, "logprob");
    expect_bad(36, WIRE_TOP_COUNT_MAX + 1, "top_count");
    expect_bad(40, UINT32_MAX, "token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aux_comes_back),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(fields_out_of_bounds_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
