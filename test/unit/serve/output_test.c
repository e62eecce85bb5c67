#include "world.h"

#define CHAT \
    "{\"model\":\"stem\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
#define TEXT "{\"model\":\"stem\",\"prompt\":\"ab\""

/* Proof: the whole of a small completion, with ids, numbers and text. */
static void a_completion_comes_as_one_body(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_post(world, "/v1/completions", TEXT ",\"max_tokens\":3}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "xyz");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    assert_int_equal(client_status(client), 200);
    client_has(client, "\"id\":\"cmpl-");
    client_has(client, "\"text\":\"xyz\",\"logprobs\":null,"
                       "\"finish_reason\":\"length\"");
    client_has(client, "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3,"
                       "\"total_tokens\":6,\"prompt_tokens_details\":"
                       "{\"cached_tokens\":2}}");
    client_lacks(client, "disaggregated_params");
    client_lacks(client, "prompt_token_ids");
    client_close(client);
    engine_request_free(made);
}

/* Proof: role first, then text while it comes, then the end, the usage and
 * [DONE]; nothing is sent before the first token. */
static void a_chat_streams_while_it_is_made(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(
        world, "/v1/chat/completions",
        CHAT ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->max_new_tokens, 200 - made->prompt_count);
    for (int i = 0; i < 5; i++) {
        io_loop_turn(world->loop, 1000000);
    }
    client_take(client);
    assert_int_equal(client->size, 0);
    world_say(world, made->id, 0, 0, "He");
    client_await(world, client, "\"delta\":{\"content\":\"He\"}");
    client_has(client, "200 OK");
    client_has(client, "text/event-stream");
    client_has(client, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    world_say(world, made->id, 0, 2, "y");
    client_await(world, client, "\"delta\":{\"content\":\"y\"}");
    world_token(world, made->id, 0, 3, MODEL_EOS);
    world_finish(world, made->id, 0, ENGINE_FINISH_STOP, MODEL_EOS);
    client_await(world, client, NULL);
    client_has(client, "\"delta\":{},\"logprobs\":null,"
                       "\"finish_reason\":\"stop\",\"stop_reason\":null");
    client_has(client, "\"choices\":[],\"usage\":{");
    client_has(client, "\"completion_tokens\":4");
    assert_string_equal(client->data + client->size - 7, "\r\n0\r\n\r\n");
    client_has(client, "data: [DONE]\n\n");
    client_close(client);
    engine_request_free(made);
}

/* Proof: a stop string never shows, not even in part; the engine is told, and
 * the reason is the string. */
static void a_stop_string_ends_the_choice(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(
        world, "/v1/completions", TEXT ",\"stream\":true,\"stop\":[\"END\"]}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "okE");
    client_await(world, client, "\"text\":\"ok\"");
    client_lacks(client, "okE");
    world_say(world, made->id, 0, 3, "NDmore");
    struct engine_command command = world_command(world);
    assert_int_equal(command.kind, ENGINE_CANCEL_CHOICE);
    assert_int_equal(command.id, made->id);
    world_finish(world, made->id, 0, ENGINE_FINISH_CANCELLED, 0);
    client_await(world, client, NULL);
    client_has(client, "\"finish_reason\":\"stop\",\"stop_reason\":\"END\"");
    client_lacks(client, "more");
    client_has(client, "[DONE]");
    client_close(client);
    engine_request_free(made);
}

/* Proof: an error after the head is an event, and no [DONE] follows. */
static void a_late_failure_is_an_event(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_post(world, "/v1/completions", TEXT ",\"stream\":true}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "a");
    client_await(world, client, "\"text\":\"a\"");
    world_fail(world, made->id, ERR_INTERNAL, "it broke");
    client_await(world, client, NULL);
    client_has(client, "data: {\"error\":{\"message\":\"it broke\"");
    client_lacks(client, "[DONE]");
    client_close(client);
    engine_request_free(made);
}

/* Proof: an error before the first token is a status, stream or not. */
static void an_early_failure_is_a_status(void **state)
{
    struct world *world = *state;
    static const struct {
        enum err error;
        int status;
        const char *has;
    } cases[] = {
        {ERR_FULL, 429, "x-disagg-not-accepted: 1"},
        {ERR_EXISTS, 409, "\"code\":409"},
        {ERR_TIMEOUT, 504, "\"code\":504"},
        {ERR_INTERNAL, 500, "\"message\":\"because\""},
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        struct client *client =
            client_post(world, "/v1/completions",
                        i % 2 ? TEXT ",\"stream\":true}" : TEXT "}");
        struct engine_request *made = world_submitted(world);
        world_fail(world, made->id, cases[i / 2].error, "because");
        client_await(world, client, NULL);
        assert_int_equal(client_status(client), cases[i / 2].status);
        client_has(client, cases[i / 2].has);
        client_close(client);
        engine_request_free(made);
    }
}

/* Proof: two choices of a stream come each under its index; the answer ends
 * when both have. */
static void choices_stream_under_their_index(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_post(world, "/v1/completions", TEXT ",\"n\":2,\"stream\":true}");
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->choice_count, 2);
    world_say(world, made->id, 1, 0, "q");
    client_await(world, client, "\"index\":1,\"text\":\"q\"");
    world_finish(world, made->id, 1, ENGINE_FINISH_LENGTH, 0);
    world_say(world, made->id, 0, 0, "p");
    client_await(world, client, "\"index\":0,\"text\":\"p\"");
    client_lacks(client, "[DONE]");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "[DONE]");
    client_close(client);
    engine_request_free(made);
}

/* Proof: log probabilities in both of OpenAI's forms, made of token bytes. */
static void logprobs_come_in_both_forms(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_post(world, "/v1/completions",
                    TEXT ",\"logprobs\":1,\"echo\":true,\"max_tokens\":1}");
    struct engine_request *made = world_submitted(world);
    assert_true(made->score_prompt);
    assert_int_equal(made->logprob_count, 1);
    for (uint32_t i = 1; i < made->prompt_count; i++) {
        world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_SCORE,
                                                 .id = made->id,
                                                 .index = i,
                                                 .logprob = -2});
    }
    struct sampler_top *top = mem_new(sizeof(*top));
    *top = (struct sampler_top){TOKEN_OF('z'), -0.25f};
    world_post(world, &(struct engine_event){.kind = ENGINE_EVENT_TOKEN,
                                             .id = made->id,
                                             .token = TOKEN_OF('y'),
                                             .logprob = -1.5f,
                                             .top = top,
                                             .top_count = 1});
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"text\":\"aby\"");
    client_has(client, "\"tokens\":[\"<s>\",\"a\",\"b\",\"y\"],"
                       "\"token_logprobs\":[null,-2,-2,-1.5]");
    client_has(client, "{\"z\":-0.25,\"y\":-1.5}");
    client_close(client);
    engine_request_free(made);
    client = client_post(world, "/v1/chat/completions",
                         CHAT ",\"logprobs\":true,\"top_logprobs\":0}");
    made = world_submitted(world);
    world_say(world, made->id, 0, 0, "h");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"logprobs\":{\"content\":[{\"token\":\"h\",\"logprob\""
                       ":-0.5,\"bytes\":[104],\"top_logprobs\":[]}]}");
    client_close(client);
    engine_request_free(made);
}

/* Proof: each chunk has the numbers so far when they are asked for. */
static void usage_may_come_with_every_chunk(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(
        world, "/v1/completions",
        TEXT ",\"stream\":true,\"stream_options\":{\"include_usage\":false,"
             "\"continuous_usage_stats\":true}}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "a");
    client_await(world, client, "\"completion_tokens\":1,\"total_tokens\":4");
    world_say(world, made->id, 0, 1, "b");
    client_await(world, client, "\"completion_tokens\":2,\"total_tokens\":5");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_lacks(client, "\"choices\":[]");
    client_close(client);
    engine_request_free(made);
}

/* Proof: max_tokens = 0 with echo gives the prompt and nothing else. */
static void an_echo_alone_shows_the_prompt(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(
        world, "/v1/completions", TEXT ",\"echo\":true,\"max_tokens\":0}");
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->max_new_tokens, 1);
    world_say(world, made->id, 0, 0, "x");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"text\":\"ab\"");
    client_has(client, "\"completion_tokens\":0");
    client_close(client);
    engine_request_free(made);
}

/* Proof: without detokenising the ids come as ids. */
static void ids_are_given_when_text_is_not_wanted(void **state)
{
    struct world *world = *state;
    struct client *client =
        client_post(world, "/v1/completions", TEXT ",\"detokenize\":false}");
    struct engine_request *made = world_submitted(world);
    world_token(world, made->id, 0, 0, 7);
    world_token(world, made->id, 0, 1, 9);
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"text\":\"\",\"token_ids\":[7,9]");
    client_close(client);
    engine_request_free(made);
}

/* Proof: a client that never reads is cut while its stream is made: the
 * engine gets a CANCEL though events go on. Bounded by 4 MiB of stream. */
static void a_client_that_does_not_read_is_cut(void **state)
{
    struct world *world = *state;
    struct client *client = client_post(
        world, "/v1/completions",
        TEXT ",\"stream\":true,\"max_tokens\":100,\"ignore_eos\":true}");
    struct engine_request *made = world_submitted(world);
    struct engine_command command = {0};
    for (int i = 0; i < 200000; i++) {
        world_token(world, made->id, 0, (uint32_t)i, TOKEN_OF('a'));
        io_loop_turn(world->loop, 0);
        if (io_mailbox_take(world->commands, &command)) {
            break;
        }
    }
    assert_int_equal(command.kind, ENGINE_CANCEL);
    assert_int_equal(command.id, made->id);
    client_close(client);
    engine_request_free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_completion_comes_as_one_body),
        TEST(a_chat_streams_while_it_is_made),
        TEST(a_stop_string_ends_the_choice),
        TEST(a_late_failure_is_an_event),
        TEST(an_early_failure_is_a_status),
        TEST(choices_stream_under_their_index),
        TEST(logprobs_come_in_both_forms),
        TEST(usage_may_come_with_every_chunk),
        TEST(an_echo_alone_shows_the_prompt),
        TEST(ids_are_given_when_text_is_not_wanted),
        TEST(a_client_that_does_not_read_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
