#include "unit/engine/rig.h"

#include "engine/state.h"

/* What is made of three choices' results says of each what was sampled, and is
 * read back as if sampled here: at most as many alternatives as were asked for,
 * none when no log probabilities were. */
static void what_is_sent_is_what_was_sampled(void **state)
{
    (void)state;
    for (int32_t asked = -1; asked <= 2; asked += 3) {
        struct engine_request *request = rig_request(1, 1, 20);
        struct sampler_result results[3] = {0};
        struct first_token firsts[3];
        request->choice_count = 3;
        request->logprob_count = asked;
        struct item item = {.request = request, .journey.cached_tokens = 8};
        for (uint32_t i = 0; i < 3; i++) {
            results[i] = (struct sampler_result){
                .token = (int32_t)(40 + i),
                .logprob = -1.5f - (float)i,
                .top_count = 2,
                .top = {{(int32_t)i, -0.25f}, {7, -2.0f}}};
            firsts[i] = (struct first_token){i, results[i].token, &results[i]};
        }
        struct transfer_aux *aux = first_aux_make(&item, firsts, 3);
        assert_int_equal(aux->prompt_tokens, 20);
        assert_int_equal(aux->cached_tokens, 8);
        assert_int_equal(aux->choice_count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            struct sampler_result got;
            first_aux_result(&item, aux, i, &got);
            assert_int_equal(got.token, 40 + i);
            assert_int_equal(got.top_count, asked < 0 ? 0 : 2);
            if (asked >= 0) {
                assert_true(got.logprob == results[i].logprob);
                assert_memory_equal(got.top, results[i].top,
                                    2 * sizeof(got.top[0]));
            }
        }
        request->logprob_count = 1;
        struct sampler_result fewer;
        first_aux_result(&item, aux, 0, &fewer);
        assert_int_equal(fewer.top_count, asked < 0 ? 0 : 1);
        mem_free(aux);
        engine_request_free(request);
    }
}

/* Each thing that cannot be is named; the same without it passes. */
static void what_cannot_be_is_named(void **state)
{
    (void)state;
    struct engine_core_options options = rig_options();
    struct rig *rig = rig_create(&options);
    struct engine_request *request = rig_request(1, 1, 20);
    struct item item = {.request = request};
    request->choice_count = 2;
    struct transfer_aux good = {.prompt_tokens = 20,
                                .cached_tokens = 20,
                                .choice_count = 2,
                                .firsts = {{.token = 999}, {.top_count = 1}}};
    prefix_prompt_digest(&request->scope, request->prompt, 20,
                         good.prompt_digest);
    struct transfer_aux bad[7] = {good, good, good, good, good, good, good};
    static const char *const NAMES[7] = {"3 choices",       "of 21 tokens",
                                         "21 of them",      "first token -1",
                                         "21 alternatives", "alternative 1000",
                                         "another prompt"};
    bad[0].choice_count = 3;
    bad[1].prompt_tokens = 21;
    bad[2].cached_tokens = 21;
    bad[3].firsts[1].token = -1;
    bad[4].firsts[0].top_count = 21;
    bad[5].firsts[1].tops[0].token = 1000;
    bad[6].prompt_digest[15] ^= 1;
    struct why why;
    assert_int_equal(first_aux_check(rig->core, &item, &good, &why), OK);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(first_aux_check(rig->core, &item, &bad[i], &why),
                         ERR_INVALID);
        assert_non_null(strstr(why.text, NAMES[i]));
    }
    assert_int_equal(first_aux_check(rig->core, &item, NULL, &why),
                     ERR_INVALID);
    engine_request_free(request);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_is_what_was_sampled),
        cmocka_unit_test(what_cannot_be_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
