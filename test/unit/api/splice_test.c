/* The splicer: exact bytes for chosen edits, and for random objects the same
 * meaning as jansson's set and delete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "api/scan.h"
#include "base/rng.h"

static void check(const char *body, const struct api_edit *edits,
                  uint32_t count, const char *wanted)
{
    struct api_object object;
    struct buf out;
    buf_init(&out, 65536);
    assert_int_equal(api_scan(span_of_string(body), NULL, &object), OK);
    api_splice(&object, edits, count, &out);
    assert_string_equal(buf_string(&out), wanted);
    buf_finish(&out);
}

/* White space, order, escapes and number spellings stay the client's. */
static void bytes_that_are_not_ours_stay(void **state)
{
    const struct api_edit edits[] = {{"stream", "false", 0}, {"new", "[1]", 0}};
    (void)state;
    check(" { \"x\" : 1.50e0 ,\n\"stream\" :  true, \"\\u0061\":\"\\/\" } ",
          edits, 2,
          " { \"x\" : 1.50e0 ,\n\"stream\" :  false, \"\\u0061\":\"\\/\","
          "\"new\":[1] } ");
}

static void members_are_removed_wherever_they_stand(void **state)
{
    const struct api_edit gone[] = {{"a", NULL, 0}};
    (void)state;
    check("{\"a\":1}", gone, 1, "{}");
    check("{\"a\":1,\"b\":2}", gone, 1, "{\"b\":2}");
    check("{\"b\":2, \"a\":1}", gone, 1, "{\"b\":2}");
    check("{\"b\":2, \"a\":1 , \"c\":3}", gone, 1, "{\"b\":2 , \"c\":3}");
    check("{ }", gone, 1, "{ }");
}

static void an_empty_object_takes_members(void **state)
{
    const struct api_edit edits[] = {{"a", "1", 0}, {"b", "2xyz", 1}};
    (void)state;
    check("{}", edits, 2, "{\"a\":1,\"b\":2}");
}

static void add_random_value(struct rng *rng, int depth, struct buf *out)
{
    static const char *const LEAVES[] = {
        "1", "-0.5e3", "true", "null", "\"x\\n\\u00e9\"", "\"\"", "[]", "{ }"};
    uint64_t pick = rng_below(rng, depth > 2 ? 8 : 10);
    if (pick < 8) {
        buf_add_string(out, LEAVES[pick]);
        return;
    }
    buf_add_byte(out, pick == 8 ? '[' : '{');
    for (uint64_t i = 0, count = rng_below(rng, 4); i < count; i++) {
        buf_printf(out, i == 0 ? "" : " , ");
        if (pick == 9) {
            buf_printf(out, "\"k%u\" :", (unsigned)rng_below(rng, 9));
        }
        add_random_value(rng, depth + 1, out);
    }
    buf_add_byte(out, pick == 8 ? ']' : '}');
}

static void add_random_object(struct rng *rng, struct buf *out)
{
    buf_add_byte(out, '{');
    for (uint64_t i = 0, count = rng_below(rng, 8); i < count; i++) {
        buf_printf(out, "%s\"k%u\":", i == 0 ? "" : ",",
                   (unsigned)(2 * i + rng_below(rng, 2)));
        add_random_value(rng, 0, out);
    }
    buf_add_string(out, " }");
}

static json_t *load(struct span text)
{
    return json_loadb((const char *)text.data, text.size, JSON_DECODE_ANY,
                      NULL);
}

static void a_splice_means_what_set_and_delete_mean(void **state)
{
    struct rng rng = rng_from_seed(11);
    static const char *const KEYS[] = {"k0", "k1", "k2", "k9"};
    (void)state;
    for (int round = 0; round < 5000; round++) {
        struct buf body, out, values[4];
        struct api_edit edits[4];
        struct api_object object;
        buf_init(&body, 1 << 20);
        buf_init(&out, 1 << 20);
        add_random_object(&rng, &body);
        assert_int_equal(api_scan(buf_span(&body), NULL, &object), OK);
        json_t *judge = load(buf_span(&body));
        for (int i = 0; i < 4; i++) {
            buf_init(&values[i], 1 << 16);
            bool removes = rng_below(&rng, 3) == 0;
            add_random_value(&rng, 1, &values[i]);
            edits[i] = (struct api_edit){
                KEYS[i], removes ? NULL : buf_string(&values[i]), 0};
            if (removes) {
                json_object_del(judge, KEYS[i]);
            } else {
                json_object_set_new(judge, KEYS[i], load(buf_span(&values[i])));
            }
        }
        api_splice(&object, edits, 4, &out);
        json_t *ours = load(buf_span(&out));
        assert_true(json_equal(ours, judge));
        json_decref(ours);
        json_decref(judge);
        for (int i = 0; i < 4; i++) {
            buf_finish(&values[i]);
        }
        buf_finish(&out);
        buf_finish(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_not_ours_stay),
        cmocka_unit_test(members_are_removed_wherever_they_stand),
        cmocka_unit_test(an_empty_object_takes_members),
        cmocka_unit_test(a_splice_means_what_set_and_delete_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
