/* transfer/hello: who may exchange pages with us, and what the others are
 * told. */
#include "fake_control.h"

#include "transfer/hello.h"

static struct around around;
static struct hello hello;

static int set_up(void **state)
{
    (void)state;
    struct why why = {0};
    around_open(&around);
    return hello_init(&hello, &around.options, "tcp://127.0.0.1:5", &why);
}

static int tear_down(void **state)
{
    (void)state;
    hello_finish(&hello);
    around_close(&around);
    return 0;
}

static void expect_refused(const struct wire_rank_info *theirs,
                           bool are_they_sender, const char *words)
{
    struct why why = {0};
    assert_int_equal(
        hello_check(&hello, around.backend, theirs, are_they_sender, &why),
        ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, words));
}

/* Our own words, from another instance, are fine in both directions. */
static void a_peer_like_us_is_taken(void **state)
{
    (void)state;
    struct why why = {0};
    struct wire_rank_info theirs = hello.info;
    theirs.incarnation = 0xb;
    assert_int_equal(hello_check(&hello, around.backend, &theirs, true, &why),
                     OK);
    assert_int_equal(hello_check(&hello, around.backend, &theirs, false, &why),
                     OK);
    assert_int_equal(hello.info.groups[0].page_count, FAKE_PAGES);
    assert_true(hello.blob.size > 0);
}

/* Each field that matters is named, whichever side differs. */
static void differences_are_named(void **state)
{
    (void)state;
    struct wire_rank_info theirs = hello.info;
    theirs.groups[0].tokens_per_block = 99;
    expect_refused(&theirs, true, "groups[0].tokens_per_block");
    expect_refused(&theirs, true, "99");
    expect_refused(&theirs, false, "tokens_per_block");
    theirs = hello.info;
    theirs.incarnation = 0;
    expect_refused(&theirs, true, "incarnation");
    theirs = hello.info;
    snprintf(theirs.backend_config, sizeof(theirs.backend_config), "odd");
    expect_refused(&theirs, false, "backend_config");
}

/* Another model, or another tokenizer, differ before all else; both values are
 * told, by their beginning. */
static void other_models_are_refused(void **state)
{
    (void)state;
    struct wire_rank_info theirs = hello.info;
    static const uint8_t mark[WIRE_MARK_SIZE] = {0xab, 0xcd, 1};
    snprintf(theirs.backend_config, sizeof(theirs.backend_config), "odd");
    theirs.model_mark = span_of(mark, sizeof(mark));
    expect_refused(&theirs, true,
                   "model_mark: abcd010000000000 at the sender, "
                   "0000000000000000 at the receiver");
    theirs.model_mark = hello.info.model_mark;
    theirs.tokenizer_mark = span_of(mark, sizeof(mark));
    expect_refused(&theirs, false,
                   "tokenizer_mark: 0000000000000000 at the sender, "
                   "abcd010000000000 at the receiver");
}

/* Blocks of twice the tokens, in pages that hold them, are fine both ways. */
static void larger_blocks_are_taken(void **state)
{
    (void)state;
    struct why why = {0};
    struct wire_rank_info theirs = hello.info;
    theirs.groups[0].tokens_per_block *= 2;
    expect_refused(&theirs, true, "groups[0].page_bytes");
    theirs.groups[0].page_bytes *= 2;
    assert_int_equal(hello_check(&hello, around.backend, &theirs, true, &why),
                     OK);
    assert_int_equal(hello_check(&hello, around.backend, &theirs, false, &why),
                     OK);
}

/* Memory of this process cannot be reached from another, nor from elsewhere. */
static void out_of_reach_is_refused(void **state)
{
    (void)state;
    struct wire_rank_info theirs = hello.info;
    theirs.pid++;
    expect_refused(&theirs, true, "pid");
    snprintf(theirs.host, sizeof(theirs.host), "elsewhere");
    expect_refused(&theirs, false, "host");
    expect_refused(&theirs, false, "elsewhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_peer_like_us_is_taken, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(differences_are_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(other_models_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(larger_blocks_are_taken, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(out_of_reach_is_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
