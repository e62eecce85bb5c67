#include "unit/io/test.h"

#include "io/resolve.h"
#include "io/tcp.h"

static void expect_address(const char *text, const char *host, uint16_t port)
{
    struct io_address address;
    assert_int_equal(io_address_parse(span_of_string(text), NULL, &address),
                     OK);
    assert_string_equal(address.host, host);
    assert_int_equal(address.port, port);
}

static void address_splits_into_host_and_port(void **state)
{
    (void)state;
    expect_address("localhost:8000", "localhost", 8000);
    expect_address("10.0.0.1:1", "10.0.0.1", 1);
    expect_address("[::1]:65535", "::1", 65535);
    expect_address("http://a-b.example:80", "a-b.example", 80);
    expect_address("tcp://[fe80::1]:5000", "fe80::1", 5000);
}

/* Each line one way to be no address; the text is named. */
static void address_must_match_whole(void **state)
{
    (void)state;
    static const char *const WRONG[] = {
        "",
        ":",
        "a",
        "a:",
        ":80",
        "a:0",
        "a:65536",
        "a:-1",
        "a:8x",
        "a:80/",
        "a:80 ",
        " a:80",
        "a b:80",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[]:80",
        "https://a:80",
        "http://a:80/x",
        "a:000080",
        "a@b:80",
        "a:80:90",
    };
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        struct why why = {{0}};
        struct io_address address;
        assert_int_equal(
            io_address_parse(span_of_string(WRONG[i]), &why, &address),
            ERR_INVALID);
        assert_non_null(strstr(why.text, WRONG[i]));
    }
}

static void expect_endpoint(const char *host, const char *text)
{
    struct io_endpoint endpoint;
    char got[IO_ENDPOINT_TEXT_SIZE];
    assert_int_equal(io_resolve(host, 4711, NULL, &endpoint), OK);
    assert_int_equal(io_endpoint_port(&endpoint), 4711);
    io_endpoint_text(&endpoint, got);
    assert_string_equal(got, text);
}

static void digits_and_localhost_need_no_resolver(void **state)
{
    (void)state;
    expect_endpoint("127.0.0.1", "127.0.0.1:4711");
    expect_endpoint("localhost", "127.0.0.1:4711");
    expect_endpoint("::1", "[::1]:4711");
    struct io_endpoint endpoint;
    struct why why = {{0}};
    assert_int_equal(io_resolve("", 1, &why, &endpoint), ERR_INVALID);
    assert_int_equal(io_resolve("not a host", 1, &why, &endpoint), ERR_INVALID);
    assert_non_null(strstr(why.text, "not a host"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_splits_into_host_and_port),
        cmocka_unit_test(address_must_match_whole),
        cmocka_unit_test(digits_and_localhost_need_no_resolver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
