#include "openai.h"

#include "base/buf.h"

#define FIELD "kv_cache_retention_config"
#define WITH(config) \
    "{\"model\":\"m\",\"prompt\":\"a\",\"" FIELD "\":" config "}"
#define RANGES(list) WITH("{\"token_range_retention_configs\":[" list "]}")

/* Proof: what is said comes out, what is not said is open, for good, and no rule
 * for what is generated; on both routes. */
static void ranges_and_the_rest_are_read(void **state)
{
    (void)state;
    struct openai_request request;
    openai_takes(
        OPENAI_COMPLETIONS,
        WITH("{\"token_range_retention_configs\":[{\"token_start\":64,"
             "\"priority\":10},{\"token_start\":0,\"token_end\":64,"
             "\"priority\":100,\"duration_ms\":0}],"
             "\"decode_retention_priority\":0,\"decode_duration_ms\":1500}"),
        &request);
    const struct openai_retention *retention = &request.retention;
    assert_int_equal(retention->rule_count, 2);
    assert_int_equal(retention->rules[0].first_token, 64);
    assert_int_equal(retention->rules[0].end_token, -1);
    assert_int_equal(retention->rules[0].priority, 10);
    assert_int_equal(retention->rules[0].duration_ms, -1);
    assert_int_equal(retention->rules[1].end_token, 64);
    assert_int_equal(retention->rules[1].priority, 100);
    assert_int_equal(retention->rules[1].duration_ms, 0);
    assert_true(retention->has_decode);
    assert_int_equal(retention->decode.priority, 0);
    assert_int_equal(retention->decode.duration_ms, 1500);
    openai_request_finish(&request);
    openai_takes(OPENAI_CHAT,
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\"}],\"" FIELD
                 "\":{\"decode_duration_ms\":5}}",
                 &request);
    assert_int_equal(request.retention.rule_count, 0);
    assert_false(request.retention.has_decode);
    openai_request_finish(&request);
    openai_takes(OPENAI_COMPLETIONS,
                 WITH("{\"token_range_retention_configs\":null,"
                      "\"decode_retention_priority\":null}"),
                 &request);
    assert_int_equal(request.retention.rule_count, 0);
    openai_request_finish(&request);
}

/* Proof: each thing that can be wrong is refused, and the words say where. */
static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *words;
    } CASES[] = {
        {WITH("[]"), "object"},
        {WITH("{\"ttl\":1}"), "ttl: is not a known field"},
        {WITH("{\"decode_retention_priority\":101}"),
         "decode_retention_priority: "},
        {WITH("{\"decode_duration_ms\":-1}"), "decode_duration_ms: "},
        {WITH("{\"token_range_retention_configs\":{}}"),
         "token_range_retention_configs: must be a list"},
        {RANGES("7"), "token_range_retention_configs: [0]: "},
        {RANGES("{\"priority\":1}"), "[0]: token_start: is missing"},
        {RANGES("{\"token_start\":1}"), "[0]: priority: is missing"},
        {RANGES("{\"token_start\":0,\"priority\":101}"), "[0]: priority: "},
        {RANGES("{\"token_start\":0,\"priority\":-1}"), "[0]: priority: "},
        {RANGES("{\"token_start\":-1,\"priority\":1}"), "[0]: token_start: "},
        {RANGES("{\"token_start\":0,\"priority\":1,\"duration_ms\":-5}"),
         "[0]: duration_ms: "},
        {RANGES("{\"token_start\":9,\"token_end\":9,\"priority\":1}"),
         "[0]: token_end: 9 must be after token_start 9"},
        {RANGES("{\"token_start\":9,\"token_end\":3,\"priority\":1}"),
         "[0]: token_end: 3 must be after token_start 9"},
        {RANGES("{\"token_start\":0,\"token_end\":9,\"priority\":1},"
                "{\"token_start\":8,\"token_end\":12,\"priority\":1}"),
         "[1]: overlaps [0]"},
        {RANGES("{\"token_start\":0,\"token_end\":9,\"priority\":1},"
                "{\"token_start\":20,\"priority\":1},"
                "{\"token_start\":30,\"token_end\":40,\"priority\":1}"),
         "[2]: overlaps [1]"},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        openai_refuses(OPENAI_COMPLETIONS, CASES[i].body, FIELD,
                       CASES[i].words);
    }
}

/* Proof: sixteen ranges side by side are taken, one more is not. */
static void ranges_are_bounded(void **state)
{
    (void)state;
    struct buf body;
    struct openai_request request;
    for (int count = 16; count <= 17; count++) {
        buf_init(&body, 4096);
        buf_printf(&body, "{\"model\":\"m\",\"prompt\":\"a\",\"" FIELD
                          "\":{\"token_range_retention_configs\":[");
        for (int i = 0; i < count; i++) {
            buf_printf(&body,
                       "%s{\"token_start\":%d,\"token_end\":%d,"
                       "\"priority\":1}",
                       i > 0 ? "," : "", 32 * i, 32 * i + 32);
        }
        buf_printf(&body, "]}}");
        const char *text = buf_string(&body);
        if (count == 16) {
            openai_takes(OPENAI_COMPLETIONS, text, &request);
            assert_int_equal(request.retention.rule_count, 16);
            openai_request_finish(&request);
        } else {
            openai_refuses(OPENAI_COMPLETIONS, text, FIELD, "more than 16");
        }
        buf_finish(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_and_the_rest_are_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(ranges_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
