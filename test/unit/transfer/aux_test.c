/* transfer/aux: what one engine hands over is what the other one gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "transfer/aux.h"

static struct transfer_aux example(uint32_t choice_count, uint32_t top_count)
{
    struct transfer_aux aux = {
        .prompt_tokens = 99, .cached_tokens = 32, .choice_count = choice_count};
    for (uint32_t i = 0; i < choice_count; i++) {
        aux.firsts[i].token = (int32_t)(10 + i);
        aux.firsts[i].logprob = -0.25f * (float)i;
        aux.firsts[i].top_count = top_count;
        for (uint32_t k = 0; k < top_count; k++) {
            aux.firsts[i].tops[k].token = (int32_t)(i * 100 + k);
            aux.firsts[i].tops[k].logprob = -(float)k;
        }
    }
    return aux;
}

/* One choice alone, and all of everything; bytes of the struct compared. */
static void aux_crosses_the_wire(void **state)
{
    (void)state;
    const struct {
        uint32_t choices, tops;
    } cases[] = {
        {1, 0}, {3, 2}, {TRANSFER_CHOICE_COUNT_MAX, TRANSFER_TOP_COUNT_MAX}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct transfer_aux aux = example(cases[i].choices, cases[i].tops);
        struct transfer_aux *got = NULL;
        struct why why = {0};
        struct buf out;
        buf_init(&out, 16384);
        transfer_aux_encode(&aux, &out);
        assert_int_equal(transfer_aux_decode(buf_span(&out), &why, &got), OK);
        assert_memory_equal(got, &aux, sizeof(aux));
        mem_free(got);
        buf_finish(&out);
    }
}

/* Junk gives nothing to free. */
static void junk_is_refused(void **state)
{
    (void)state;
    struct transfer_aux *got = NULL;
    struct why why = {0};
    assert_int_not_equal(
        transfer_aux_decode(span_of_string("nonsense"), &why, &got), OK);
    assert_null(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aux_crosses_the_wire),
        cmocka_unit_test(junk_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
