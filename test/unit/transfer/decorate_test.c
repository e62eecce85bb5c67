/* transfer/decorate: a decorator that changes nothing is asked everything; the
 * answers are those of the body below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/backend_tcp.h"
#include "transfer/backend_trace.h"

static void answers_are_those_of_the_body_below(void **state)
{
    (void)state;
    struct transfer_backend_tcp_options options = {.incarnation = 1,
                                                   .host = "127.0.0.1"};
    struct transfer_backend *next;
    assert_int_equal(transfer_backend_tcp_create(&options, NULL, &next), OK);
    struct transfer_trace *trace = transfer_trace_create();
    struct transfer_backend *backend =
        transfer_backend_trace_create(next, trace);
    assert_string_equal(transfer_backend_name(backend), "tcp");
    assert_string_equal(transfer_backend_config(backend),
                        transfer_backend_config(next));
    assert_int_equal(backend->ops->capabilities, next->ops->capabilities);
    assert_int_equal(transfer_backend_fd(backend), transfer_backend_fd(next));
    assert_int_equal(transfer_backend_toucher(backend, "tcp"),
                     TRANSFER_SELF_COPY);
    static uint8_t memory[64];
    struct transfer_range range = {0, 64};
    struct transfer_token token = {1, 1};
    assert_int_equal(
        transfer_backend_adopt(backend, memory, sizeof(memory), NULL), OK);
    assert_int_equal(
        transfer_backend_adopt(backend, memory, sizeof(memory), NULL),
        ERR_EXISTS);
    assert_int_equal(transfer_backend_authorise(backend, 9, token, &range, 1),
                     OK);
    assert_int_equal(transfer_backend_authorise(next, 9, token, &range, 1),
                     ERR_EXISTS);
    transfer_backend_revoke(backend, 9, token);
    assert_int_equal(transfer_backend_authorise(next, 9, token, &range, 1), OK);
    transfer_backend_free(backend, memory);
    transfer_backend_destroy(backend);
    transfer_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_body_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
