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
    assert_true(io_resolve_digits(host, 4711, &endpoint));
    assert_int_equal(io_endpoint_port(&endpoint), 4711);
    io_endpoint_text(&endpoint, got);
    assert_string_equal(got, text);
    struct io_addresses all;
    assert_int_equal(io_resolve_all(host, NULL, &all), OK);
    assert_int_equal(all.count, 1);
    io_endpoint_set_port(&all.list[0], 4711);
    assert_memory_equal(&all.list[0], &endpoint, sizeof(endpoint));
}

static void digits_and_localhost_need_no_resolver(void **state)
{
    (void)state;
    expect_endpoint("127.0.0.1", "127.0.0.1:4711");
    expect_endpoint("localhost", "127.0.0.1:4711");
    expect_endpoint("::1", "[::1]:4711");
    struct io_endpoint endpoint;
    assert_false(io_resolve_digits("not a host", 1, &endpoint));
    assert_false(io_resolve_digits("", 1, &endpoint));
}

static void what_is_no_host_is_named(void **state)
{
    (void)state;
    struct io_addresses all;
    struct why why = {{0}};
    char longest[300] = "";
    memset(longest, 'a', 256);
    assert_int_equal(io_resolve_all("", &why, &all), ERR_INVALID);
    assert_string_equal(why.text, "host: is empty");
    assert_int_equal(io_resolve_all(longest, &why, &all), ERR_INVALID);
    assert_non_null(strstr(why.text, "longer than 255"));
    assert_int_equal(io_resolve_all("not a host", &why, &all), ERR_INVALID);
    assert_non_null(strstr(why.text, "not a host"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_splits_into_host_and_port),
        cmocka_unit_test(address_must_match_whole),
        cmocka_unit_test(digits_and_localhost_need_no_resolver),
        cmocka_unit_test(what_is_no_host_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
