/* What workers say of themselves, read and refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "route/peer.h"

#define INFO(params) "{\"model\":\"m\",\"disaggregated_params\":" params "}"

static struct route_peer peer;
static struct why why;

static enum err read_text(const char *text)
{
    memset(&peer, 0, sizeof(peer));
    why.text[0] = 0;
    return route_peer_read(span_of_string(text), &why, &peer);
}

static void check(const char *text, const char *params, const char *endpoint)
{
    assert_int_equal(read_text(text), OK);
    assert_true(route_peer_is_known(&peer));
    assert_int_equal(peer.size, strlen(params));
    assert_memory_equal(peer.params, params, peer.size);
    assert_true(span_equals_string(route_peer_endpoint(&peer), endpoint));
}

/* [serve T103] a list becomes its first; other members stay as they are. */
static void the_endpoint_is_the_first_of_a_list(void **state)
{
    (void)state;
    check(INFO("{\"ctx_info_endpoint\":[\"a:1\",\"b:2\"]}"),
          "{\"ctx_info_endpoint\":\"a:1\"}", "a:1");
    check(INFO("{\"ctx_info_endpoint\":\"tcp://10.0.0.1:5000\",\"x\":[1, 2]}"),
          "{\"ctx_info_endpoint\":\"tcp://10.0.0.1:5000\",\"x\":[1, 2]}",
          "tcp://10.0.0.1:5000");
}

/* Silence is no fault, and leaves nothing known. */
static void a_silent_worker_is_not_known(void **state)
{
    static const char *const SILENT[] = {
        "{}",
        "{\"model\":\"m\"}",
        INFO("null"),
        INFO("{}"),
        INFO("{\"ctx_info_endpoint\":null}"),
        INFO("{\"ctx_info_endpoint\":[]}"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(SILENT) / sizeof(SILENT[0]); i++) {
        assert_int_equal(read_text(SILENT[i]), ERR_NOT_FOUND);
        assert_false(route_peer_is_known(&peer));
    }
}

static void check_bad(const char *text, const char *part)
{
    assert_int_equal(read_text(text), ERR_INVALID);
    assert_false(route_peer_is_known(&peer));
    if (strstr(why.text, part) == NULL) {
        fail_msg("%s\nlacks %s", why.text, part);
    }
}

/* Each says which field it is. */
static void what_cannot_be_met_is_refused(void **state)
{
    char text[4096] = "";
    (void)state;
    check_bad("", "");
    check_bad("{\"disaggregated_params\":{\"ctx_in", "");
    check_bad(INFO("[]"), "disaggregated_params");
    check_bad(INFO("{\"ctx_info_endpoint\":\"\"}"), "is empty");
    check_bad(INFO("{\"ctx_info_endpoint\":[[]]}"), "ctx_info_endpoint");
    check_bad(INFO("{\"ctx_info_endpoint\":7}"), "ctx_info_endpoint");
    check_bad(INFO("{\"ctx_info_endpoint\":\"a\\u0041\"}"),
              "ctx_info_endpoint");
    snprintf(text, sizeof(text),
             INFO("{\"ctx_info_endpoint\":\"a\",\"x\":\"%*s\"}"),
             ROUTE_PEER_SIZE_MAX, "");
    check_bad(text, "longer than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_endpoint_is_the_first_of_a_list),
        cmocka_unit_test(a_silent_worker_is_not_known),
        cmocka_unit_test(what_cannot_be_met_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
