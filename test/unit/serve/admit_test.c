#include "world.h"

#define JSON "Content-Type: application/json\r\n"

static void refused(struct world *world, const char *path, const char *body,
                    int status, const char *text)
{
    world_answers(world, "POST", path, JSON, body, status, text);
}

/* Proof: another model's name is 404 with OpenAI's code; both of our names
 * pass (the second reaches the engine). */
static void only_served_models_are_served(void **state)
{
    struct world *world = *state;
    refused(world, "/v1/completions", "{\"model\":\"gpt\",\"prompt\":\"a\"}",
            404, "\"code\":\"model_not_found\"");
    struct client *client = client_post(
        world, "/v1/completions",
        "{\"model\":\"General Name\",\"prompt\":\"a\",\"max_tokens\":1}");
    struct engine_request *made = world_submitted(world);
    world_say(world, made->id, 0, 0, "x");
    world_finish(world, made->id, 0, ENGINE_FINISH_LENGTH, 0);
    client_await(world, client, NULL);
    client_has(client, "\"model\":\"General Name\"");
    client_close(client);
    engine_request_free(made);
}

/* [serve T14] Proof: the field at fault is named in the envelope. */
static void a_bad_field_is_named(void **state)
{
    struct world *world = *state;
    refused(world, "/v1/completions",
            "{\"model\":\"stem\",\"prompt\":\"a\",\"colour\":1}", 400,
            "\"param\":\"colour\"");
    refused(world, "/v1/chat/completions",
            "{\"model\":\"stem\",\"messages\":[{\"role\":\"user\",\"content\":"
            "\"a\"}],\"tools\":[{}]}",
            400, "\"param\":\"tools\"");
    refused(world, "/v1/chat/completions",
            "{\"model\":\"stem\",\"messages\":[{\"role\":\"wizard\",\"content\""
            ":\"a\"}]}",
            400, "\"param\":\"messages\"");
}

/* Proof: a deadline that has passed is 504 at once, one that is no number is
 * 400; a good one reaches the engine, counted from arrival. */
static void the_deadline_comes_with_the_request(void **state)
{
    struct world *world = *state;
    static const char body[] = "{\"model\":\"stem\",\"prompt\":[5]}";
    world_answers(world, "POST", "/v1/completions",
                  JSON "x-baton-deadline-ms: 0\r\n", body, 504, "deadline");
    world_answers(world, "POST", "/v1/completions",
                  JSON "x-baton-deadline-ms: soon\r\n", body, 400,
                  "x-baton-deadline-ms");
    struct client *client =
        client_send(world, "POST", "/v1/completions",
                    JSON "x-baton-deadline-ms: 1500\r\n", body);
    struct engine_request *made = world_submitted(world);
    assert_int_equal(made->deadline_ns - made->arrival_ns, 1500000000);
    client_close(client);
    engine_request_free(made);
    client = client_post(world, "/v1/completions", body);
    struct engine_command command;
    do {
        command = world_command(world);
    } while (command.kind != ENGINE_SUBMIT);
    assert_int_equal(command.request->deadline_ns - command.request->arrival_ns,
                     UINT64_C(60000000000));
    client_close(client);
    engine_request_free(command.request);
}

/* Proof: text to ids and back, through the text thread. */
static void text_becomes_ids_and_back(void **state)
{
    struct world *world = *state;
    refused(world, "/tokenize", "{\"prompt\":\"ab\"}", 200,
            "{\"count\":3,\"max_model_len\":200,\"tokens\":[1,100,101]}");
    refused(world, "/tokenize",
            "{\"prompt\":\"ab\",\"add_special_tokens\":false}", 200,
            "\"tokens\":[100,101]");
    refused(world, "/tokenize",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", 200,
            "\"tokens\":[259,");
    refused(world, "/detokenize", "{\"tokens\":[100,101]}", 200,
            "{\"prompt\":\"ab\"}");
    refused(world, "/detokenize", "{\"tokens\":[9999]}", 400, "9999");
    refused(world, "/tokenize", "{\"model\":\"gpt\",\"prompt\":\"a\"}", 404,
            "gpt");
}

/* Proof: without a template chat is refused with the reason, ids still pass
 * for completions. */
static void chat_needs_a_template(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    (void)state;
    world_open(world);
    world->parts.chat = NULL;
    world_ready(world);
    refused(world, "/v1/chat/completions",
            "{\"model\":\"stem\",\"messages\":[{\"role\":\"user\",\"content\":"
            "\"a\"}]}",
            400, "no template");
    world_close(world);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_served_models_are_served),
        TEST(a_bad_field_is_named),
        TEST(the_deadline_comes_with_the_request),
        TEST(text_becomes_ids_and_back),
        cmocka_unit_test(chat_needs_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
