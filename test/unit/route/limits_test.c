/* Bounds against the config and the process's own limit of open files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "route/limits.h"

static struct config_route config;

/* Proof: three files a request of what is left beside 64; max_inflight wins. */
static void open_requests_follow_the_open_files(void **state)
{
    struct rlimit before, less;
    (void)state;
    config_route_init(&config);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    less = before;
    less.rlim_cur = 94;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    assert_int_equal(route_limits_open_max(&config), 10);
    assert_int_equal(route_limits_connection_max(&config), 74);
    less.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    assert_int_equal(route_limits_open_max(&config), 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    config.max_inflight = 7;
    assert_int_equal(route_limits_open_max(&config), 7);
}

/* Proof: the printout says what the config says. */
static void the_printout_names_each_bound(void **state)
{
    static const char *const LINES[] = {"open requests       12 at most\n",
                                        "client connections  76 at most\n",
                                        "request body        2.0 MiB at most\n",
                                        "bodies held at once 16.0 MiB at most",
                                        "0 context, 0 generation; 64 a role"};
    struct buf out;
    (void)state;
    config_route_init(&config);
    config.max_inflight = 12;
    config.max_body_bytes = 2 << 20;
    buf_init(&out, 4096);
    route_limits_describe(&config, &out);
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        if (strstr(buf_string(&out), LINES[i]) == NULL) {
            fail_msg("%s lacks %s", buf_string(&out), LINES[i]);
        }
    }
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_requests_follow_the_open_files),
        cmocka_unit_test(the_printout_names_each_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
