#include "world.h"

/* Proof: what the HTTP server refuses by itself wears the same envelope as
 * what we refuse: here a body over the cap of 1 MiB. */
static void the_servers_own_errors_wear_the_envelope(void **state)
{
    struct world *world = *state;
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 2000000\r\n\r\n";
    struct client *client = client_send(world, "GET", "/health", "", "");
    client_await(world, client, NULL);
    client_close(client);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(serve_port(world->serve)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    client = calloc(1, sizeof(*client));
    client->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(
        connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(client->fd, head, sizeof(head) - 1, 0),
                     sizeof(head) - 1);
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
    client_await(world, client, "\"code\":413");
    assert_int_equal(client_status(client), 413);
    client_has(client, "{\"error\":{\"message\":");
    client_close(client);
}

/* Proof: control characters of a client's field name come back escaped. */
static void nothing_raw_comes_back(void **state)
{
    struct world *world = *state;
    world_answers(world, "POST", "/v1/completions",
                  "Content-Type: application/json\r\n",
                  "{\"model\":\"stem\",\"prompt\":\"a\",\"x\\u0007\":1}", 400,
                  "x\\\\x07: is not a known field\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_servers_own_errors_wear_the_envelope),
        TEST(nothing_raw_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
