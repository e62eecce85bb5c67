#include "world.h"

#include <stdio.h>

/* Sends a completion of these members; what the engine gets. The client's
 * exchange is left open and goes when the world closes. */
static struct engine_request *submit(struct world *world, const char *members,
                                     struct client **client_out)
{
    char body[4096];
    snprintf(body, sizeof(body), "{\"model\":\"stem\",%s}", members);
    *client_out = client_post(world, "/v1/completions", body);
    struct engine_command command;
    do { /* the CANCEL of the one before may come first */
        command = world_command(world);
    } while (command.kind != ENGINE_SUBMIT);
    return command.request;
}

static void refused(struct world *world, const char *members, const char *text)
{
    char body[8192];
    snprintf(body, sizeof(body), "{\"model\":\"stem\",%s}", members);
    world_answers(world, "POST", "/v1/completions",
                  "Content-Type: application/json\r\n", body, 400, text);
}

/* Proof: each setting arrives where the engine looks for it. */
static void settings_reach_the_engine(void **state)
{
    struct world *world = *state;
    struct client *client;
    struct engine_request *made =
        submit(world,
               "\"prompt\":[5,6],\"max_tokens\":7,\"min_tokens\":2,\"n\":3,"
               "\"ignore_eos\":true,\"stop_token_ids\":[9],\"temperature\":0.5,"
               "\"top_k\":-1,\"top_p\":0.25,\"min_p\":0.125,\"seed\":42,"
               "\"presence_penalty\":1,\"frequency_penalty\":-1,"
               "\"repetition_penalty\":2,\"logit_bias\":{\"8\":3}",
               &client);
    assert_int_equal(made->kind, ENGINE_AGGREGATED);
    assert_int_equal(made->prompt_count, 2);
    assert_int_equal(made->prompt[1], 6);
    assert_int_equal(made->max_new_tokens, 7);
    assert_int_equal(made->min_tokens, 2);
    assert_true(made->is_length_asked);
    assert_int_equal(made->choice_count, 3);
    assert_true(made->ignore_end);
    assert_int_equal(made->stop_token_count, 1);
    assert_int_equal(made->stop_tokens[0], 9);
    assert_true(made->sampling.temperature == 0.5f);
    assert_int_equal(made->sampling.top_k, 0);
    assert_true(made->sampling.top_p == 0.25f);
    assert_true(made->sampling.min_p == 0.125f);
    assert_int_equal(made->sampling.seed, 42);
    assert_true(made->sampling.presence_penalty == 1);
    assert_true(made->sampling.frequency_penalty == -1);
    assert_true(made->sampling.repetition_penalty == 2);
    assert_int_equal(made->sampling.bias_count, 1);
    assert_int_equal(made->biases[0].token, 8);
    assert_true(made->biases[0].bias == 3);
    assert_int_equal(made->logprob_count, -1);
    assert_false(made->score_prompt);
    assert_false(made->scope.has_salt);
    assert_false(made->scope.has_lora);
    engine_request_free(made);
    client_close(client);
}

/* Proof: each rule arrives, an open end and no duration as "for good"; without
 * any the engine gets none. */
static void retention_reaches_the_engine(void **state)
{
    struct world *world = *state;
    struct client *client;
    struct engine_request *made =
        submit(world,
               "\"prompt\":[5,6],\"kv_cache_retention_config\":{"
               "\"token_range_retention_configs\":[{\"token_start\":0,"
               "\"token_end\":32,\"priority\":90,\"duration_ms\":5000},"
               "{\"token_start\":32,\"priority\":0}],"
               "\"decode_retention_priority\":7}",
               &client);
    const struct kv_retention_plan *plan = &made->retention;
    assert_int_equal(plan->rule_count, 2);
    assert_int_equal(plan->rules[0].first_token, 0);
    assert_int_equal(plan->rules[0].end_token, 32);
    assert_int_equal(plan->rules[0].priority, 90);
    assert_int_equal(plan->rules[0].duration_ms, 5000);
    assert_int_equal(plan->rules[1].first_token, 32);
    assert_int_equal(plan->rules[1].end_token, UINT32_MAX);
    assert_int_equal(plan->rules[1].priority, 0);
    assert_true(plan->rules[1].duration_ms == UINT64_MAX);
    assert_true(plan->has_generated);
    assert_int_equal(plan->generated.priority, 7);
    assert_true(plan->generated.duration_ms == UINT64_MAX);
    engine_request_free(made);
    client_close(client);
    made = submit(world, "\"prompt\":[5]", &client);
    assert_int_equal(made->retention.rule_count, 0);
    assert_false(made->retention.has_generated);
    engine_request_free(made);
    client_close(client);
}

/* Proof: 16 unless said otherwise, and never beyond the context of 200. */
static void answers_are_clipped_to_the_context(void **state)
{
    struct world *world = *state;
    struct client *client;
    struct engine_request *made = submit(world, "\"prompt\":[5]", &client);
    assert_int_equal(made->max_new_tokens, 16);
    assert_false(made->is_length_asked);
    engine_request_free(made);
    client_close(client);
    made = submit(world, "\"prompt\":[5],\"max_tokens\":100000", &client);
    assert_int_equal(made->max_new_tokens, 199);
    engine_request_free(made);
    client_close(client);
}

/* Proof: too long a prompt is refused with the numbers, an id outside the
 * vocabulary with the id, an empty prompt as such. */
static void bad_prompts_are_refused_with_numbers(void **state)
{
    struct world *world = *state;
    char members[1024] = "\"prompt\":[5";
    refused(world, "\"prompt\":[5,261]", "261");
    refused(world, "\"prompt\":\"\",\"add_special_tokens\":false",
            "must not be empty");
    refused(world, "\"prompt\":\"a\",\"stop_token_ids\":[300]", "300");
    refused(world, "\"prompt\":\"a\",\"logit_bias\":{\"300\":1}", "logit_bias");
    for (int i = 0; i < 199; i++) {
        strcat(members, ",5");
    }
    strcat(members, "]");
    refused(world, members, "200 tokens");
}

/* Proof: a front end whose other workers take less says so, and prompt, answer
 * and what is told of the model keep to it; it cannot raise our own limit, and
 * a limit that is none is refused. */
static void a_front_end_may_lower_the_limit(void **state)
{
    struct world *world = *state;
    static const char LESS[] = "Content-Type: application/json\r\n"
                               "x-baton-max-seq-len: 4\r\n";
    static const char MORE[] = "X-Baton-Max-Seq-Len: 99999999999\r\n";
    static const struct {
        const char *headers, *path, *body;
        int status;
        const char *text;
    } CASES[] = {
        {LESS, "/v1/completions", "{\"model\":\"stem\",\"prompt\":[5,5,5,5]}",
         400, "has 4 tokens; prompt and answer together are at most 4"},
        {LESS, "/tokenize", "{\"prompt\":\"a\"}", 200, "\"max_model_len\":4,"},
        {LESS, "/v1/models", NULL, 200, "\"max_model_len\":4}"},
        {LESS, "/v1/models/stem", NULL, 200, "\"max_model_len\":4}"},
        {MORE, "/v1/models", NULL, 200, "\"max_model_len\":200}"},
        {"x-baton-max-seq-len: 0\r\n", "/v1/models", NULL, 400,
         "x-baton-max-seq-len: must be a number of tokens"},
        {"x-baton-max-seq-len: -1\r\n", "/v1/completions",
         "{\"model\":\"stem\",\"prompt\":[5]}", 400,
         "\"param\":\"x-baton-max-seq-len\""},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        world_answers(world, CASES[i].body == NULL ? "GET" : "POST",
                      CASES[i].path, CASES[i].headers,
                      CASES[i].body == NULL ? "" : CASES[i].body,
                      CASES[i].status, CASES[i].text);
    }
    struct client *client =
        client_send(world, "POST", "/v1/completions", LESS,
                    "{\"model\":\"stem\",\"prompt\":[5],\"max_tokens\":9}");
    struct engine_command command = world_command(world);
    assert_int_equal(command.request->max_new_tokens, 3);
    engine_request_free(command.request);
    client_close(client);
}

/* Proof: fewer tokens than were asked for at least are no answer. */
static void min_tokens_beyond_the_answer_are_refused(void **state)
{
    struct world *world = *state;
    refused(world, "\"prompt\":[5],\"min_tokens\":17",
            "\"param\":\"min_tokens\"");
    refused(world, "\"prompt\":[5],\"max_tokens\":300,\"min_tokens\":200",
            "min_tokens: is 200, the answer has at most 199");
}

/* Proof: the last tokens stay, and a long prompt passes when cut. */
static void a_cut_prompt_keeps_its_end(void **state)
{
    struct world *world = *state;
    struct client *client;
    struct engine_request *made = submit(
        world, "\"prompt\":[5,6,7,8],\"truncate_prompt_tokens\":2", &client);
    assert_int_equal(made->prompt_count, 2);
    assert_int_equal(made->prompt[0], 7);
    engine_request_free(made);
    client_close(client);
}

/* Proof: the scope is the one that routers compute of the salt, so equal salts
 * share it and others do not. */
static void a_salt_makes_a_scope(void **state)
{
    struct world *world = *state;
    static const char *const salts[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        char members[64];
        struct client *client;
        snprintf(members, sizeof(members),
                 "\"prompt\":[5],\"cache_salt\":\"%s\"", salts[i]);
        struct engine_request *made = submit(world, members, &client);
        assert_true(made->scope.has_salt);
        assert_false(made->scope.has_lora);
        assert_true(made->scope.salt == prefix_salt_id(salts[i]));
        engine_request_free(made);
        client_close(client);
    }
}

/* Proof: an engine that takes no more makes the request a 429 that may go
 * elsewhere. */
static void a_full_engine_is_a_429(void **state)
{
    struct world *world = *state;
    const struct engine_command filler = {.kind = ENGINE_CANCEL};
    while (io_mailbox_post(world->commands, &filler) == OK) {
    }
    world_answers(
        world, "POST", "/v1/completions", "Content-Type: application/json\r\n",
        "{\"model\":\"stem\",\"prompt\":[5]}", 429, "x-disagg-not-accepted: 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(settings_reach_the_engine),
        TEST(retention_reaches_the_engine),
        TEST(answers_are_clipped_to_the_context),
        TEST(bad_prompts_are_refused_with_numbers),
        TEST(a_front_end_may_lower_the_limit),
        TEST(min_tokens_beyond_the_answer_are_refused),
        TEST(a_cut_prompt_keeps_its_end),
        TEST(a_salt_makes_a_scope),
        TEST(a_full_engine_is_a_429),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
