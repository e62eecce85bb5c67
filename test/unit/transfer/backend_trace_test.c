/* transfer/backend_trace: what is remembered of writes, over inproc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/backend_inproc.h"
#include "transfer/backend_trace.h"

enum { SIZE = 4096 };

static struct transfer_inproc_hub *hub;
static struct transfer_trace *trace;
static struct transfer_backend *backend;
static struct transfer_backend_peer *self;
static void *pool;

static int set_up(void **state)
{
    (void)state;
    hub = transfer_inproc_hub_create();
    trace = transfer_trace_create();
    struct transfer_backend *next;
    assert_int_equal(transfer_backend_inproc_create(hub, 1, &next), OK);
    backend = transfer_backend_trace_create(next, trace);
    assert_int_equal(transfer_backend_alloc(backend, SIZE, NULL, &pool), OK);
    struct buf blob;
    buf_init(&blob, 1024);
    assert_int_equal(transfer_backend_export(backend, pool, SIZE, NULL, &blob),
                     OK);
    assert_int_equal(
        transfer_backend_peer_open(backend, buf_span(&blob), SIZE, NULL, &self),
        OK);
    buf_finish(&blob);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    transfer_backend_free(backend, pool);
    transfer_backend_destroy(backend);
    transfer_trace_destroy(trace);
    transfer_inproc_hub_destroy(hub);
    return 0;
}

static void write_one(int64_t rid, uint64_t size)
{
    struct transfer_piece piece = {0, SIZE / 2, size, 0};
    struct transfer_write write = {
        .peer = self, .token = {rid, 3}, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(backend, &write);
    bool is_busy;
    while (transfer_backend_poll(backend, &is_busy) == NULL) {
    }
    assert_ptr_equal(write.peer, self);
}

/* More than the ring holds: the newest are there, in order, with their ids,
 * bytes and times; reading again finds the same. */
static void the_newest_are_kept(void **state)
{
    (void)state;
    enum { COUNT = TRANSFER_TRACE_COUNT + 50 };
    for (int i = 1; i <= COUNT; i++) {
        write_one(1000 + i, (uint64_t)i);
    }
    static struct transfer_record records[TRANSFER_TRACE_COUNT + 1];
    uint32_t count =
        transfer_trace_read(trace, records, TRANSFER_TRACE_COUNT + 1);
    assert_int_equal(count, TRANSFER_TRACE_COUNT);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number = COUNT - i;
        assert_int_equal(records[i].number, number);
        assert_int_equal(records[i].token.rid, 1000 + number);
        assert_int_equal(records[i].bytes, number);
        assert_string_equal(records[i].lane, "memory");
        assert_int_equal(records[i].outcome, TRANSFER_DONE);
        assert_true(records[i].handed_ns <= records[i].begun_ns);
        assert_true(records[i].begun_ns <= records[i].back_ns);
    }
    transfer_backend_peer_close(self);
}

/* One that its peer's close stops is told as stopped, in words too. */
static void outcomes_are_told(void **state)
{
    (void)state;
    struct transfer_piece piece = {0, SIZE / 2, 9, 0};
    struct transfer_write write = {
        .peer = self, .token = {77, 3}, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(backend, &write);
    transfer_backend_peer_close(self);
    bool is_busy;
    assert_ptr_equal(transfer_backend_poll(backend, &is_busy), &write);
    struct buf text;
    buf_init(&text, 4096);
    transfer_trace_print(trace, 10, &text);
    assert_non_null(strstr(buf_string(&text),
                           "[{\"write\":1,\"disagg_request_id\":77,\"attempt\":"
                           "3,\"lane\":\"memory\",\"result\":\"stopped\","
                           "\"bytes\":9,\"pieces\":1,\"wait_us\":"));
    buf_finish(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_are_kept),
        TEST(outcomes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
