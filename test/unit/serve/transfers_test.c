#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include <stdlib.h>

#include "api/scan.h"
#include "serve/transfers.h"

/* Proof: of 70 hand-offs the last 64 are printed, newest first, as JSON. */
static void the_last_ones_are_kept(void **state)
{
    (void)state;
    struct serve_transfers *transfers = calloc(1, sizeof(*transfers));
    struct buf out;
    struct why why;
    struct api_object object;
    for (int i = 1; i <= 70; i++) {
        struct serve_transfer transfer = {
            .id = (uint64_t)i,
            .rid = 1000 + i,
            .kind = i % 2 ? ENGINE_CONTEXT_ONLY : ENGINE_GENERATION_ONLY,
            .journey = {.prompt_tokens = 9,
                        .prefill_ns = 2000000,
                        .handoff_ns = 1500000,
                        .decode_ns = 3000000,
                        .moved_bytes = 77,
                        .bounced_bytes = 55,
                        .backend = "ucx",
                        .lane = "sysv"}};
        serve_transfers_add(transfers, &transfer);
    }
    buf_init(&out, 1 << 20);
    serve_transfers_print(transfers, span_of_string("[7]"), &out);
    assert_int_equal(api_scan(buf_span(&out), &why, &object), OK);
    assert_int_equal(api_array_count(api_find(&object, "transfers")->value),
                     64);
    assert_non_null(strstr(buf_string(&out),
                           "{\"total\":70,\"transfers\":[{\"id\":70,"
                           "\"disagg_request_id\":1070,\"role\":"
                           "\"generation\",\"result\":\"ok\""));
    /* The generation half decodes and computes no prompt, the other one the
     * other way round. */
    assert_non_null(strstr(buf_string(&out),
                           "\"queue_ms\":0,\"handoff_ms\":1.5,"
                           "\"decode_ms\":3},"));
    assert_non_null(strstr(buf_string(&out), "\"queue_ms\":0,\"prefill_ms\":2,"
                                             "\"handoff_ms\":1.5},"));
    assert_non_null(strstr(buf_string(&out), "\"bounced_bytes\":55,"));
    assert_non_null(strstr(buf_string(&out), "\"lane\":\"sysv\""));
    assert_non_null(strstr(buf_string(&out), "],\"writes\":[7]}"));
    assert_non_null(strstr(buf_string(&out), "\"id\":7,"));
    assert_null(strstr(buf_string(&out), "\"id\":6,"));
    buf_finish(&out);
    free(transfers);
}

/* Proof: what a context worker has handed on is told again when it has gone,
 * with bytes and lane, and why it failed; only the open one of that id, only
 * once. */
static void a_send_is_told_when_it_ends(void **state)
{
    (void)state;
    struct serve_transfers *transfers = calloc(1, sizeof(*transfers));
    const struct engine_event gone = {
        .journey = {.moved_bytes = 4711, .lane = "tcp"}};
    struct engine_event lost = gone;
    lost.error = ERR_CANCELLED;
    strcpy(lost.reason, "sending KV: aborted");
    struct buf out;
    for (uint64_t id = 1; id <= 3; id++) {
        serve_transfers_add(transfers, &(struct serve_transfer){
                                           .id = id,
                                           .kind = ENGINE_CONTEXT_ONLY,
                                           .is_open = true,
                                       });
    }
    serve_transfers_note_sent(transfers, 2, 99, &gone);
    serve_transfers_note_sent(transfers, 2, 100, &lost);
    serve_transfers_note_sent(transfers, 3, 101, &lost);
    serve_transfers_note_sent(transfers, 7, 100, &lost);
    buf_init(&out, 1 << 16);
    serve_transfers_print(transfers, span_of_string("[]"), &out);
    assert_non_null(strstr(buf_string(&out),
                           "{\"id\":2,\"disagg_request_id\":0,\"role\":"
                           "\"context\",\"result\":\"ok\",\"ended_ms\":99,"
                           "\"backend\":\"\",\"lane\":\"tcp\","
                           "\"bytes\":4711,"));
    assert_non_null(strstr(buf_string(&out),
                           "\"result\":\"failed\",\"reason\":\"sending KV: "
                           "aborted\",\"ended_ms\":101,"));
    assert_non_null(strstr(buf_string(&out),
                           "{\"id\":1,\"disagg_request_id\":0,\"role\":"
                           "\"context\",\"result\":\"sending\""));
    buf_finish(&out);
    free(transfers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ones_are_kept),
        cmocka_unit_test(a_send_is_told_when_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
