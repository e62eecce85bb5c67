/* Stories of a cluster, a few lines each (sim/cluster_story.c), over the worlds
 * that seeds are run in: what is decided is compared with a text, line by line,
 * and what must hold is looked at as ever. GOLDEN_UPDATE=1 writes the texts
 * anew, for a person to read the diff. */
#include <stdio.h>
#include <string.h>

#include "unit/base/test.h"

#include "base/buf.h"
#include "base/log.h"
#include "sim/cluster.h"
#include "unit/api/golden.h"

static void add_line(void *context, const char *line)
{
    struct buf *text = context;
    buf_add(text, line, strlen(line));
    buf_add(text, "\n", 1);
}

static struct sim_cluster_summary tell(const char *name, const char *story)
{
    struct buf text;
    struct sim_cluster_summary summary;
    char path[100];
    buf_init(&text, 1 << 16);
    struct sim_cluster_options options = {
        .seed = 1, .story = story, .on_line = add_line, .context = &text};
    bool is_good = sim_cluster_run(&options, &summary);
    if (!is_good) {
        fail_msg("%s: %s\n%.*s", name, summary.failure, (int)text.size,
                 (const char *)text.data);
    }
    assert_int_equal(summary.answered + summary.refused, summary.requests);
    snprintf(path, sizeof(path), "test/golden/stories/%s.txt", name);
    golden_is(path, buf_span(&text));
    buf_finish(&text);
    return summary;
}

/* A prompt of six blocks in three chunks, and its pages leave while the rest is
 * computed; a window waits for the end. [transfer I27 I28] */
static void slices_leave_while_the_rest_is_computed(void **state)
{
    (void)state;
    struct sim_cluster_summary summary = tell("slices", "world lives=3\n"
                                                        "ask first 1 24 4\n"
                                                        "until request 0 ends");
    assert_int_equal(summary.answered, 1);
    assert_int_equal(summary.slices, 3);
    assert_int_equal(summary.auxes, 1);
}

/* The receiver is there first, or the sender is, or is asked first. */
static void either_half_may_come_first(void **state)
{
    (void)state;
    tell("either", "world\n"
                   "freeze 1\n"
                   "ask first 1 24 4\n"
                   "until worker 0 offers rid 1\n"
                   "for 20\n"
                   "thaw 1\n"
                   "until request 0 ends\n"
                   "freeze 0\n"
                   "ask first 2 24 4\n"
                   "until worker 1 receives rid\n"
                   "for 20\n"
                   "thaw 0\n"
                   "until request 1 ends\n"
                   "ask after 3 24 4\n"
                   "until request 2 ends");
}

/* The first slice is held while the others come: they wait, none overtakes, the
 * receiver is not done before, and is done once. [transfer T101 I4 I5 I6 I7] */
static void nothing_overtakes_a_held_slice(void **state)
{
    (void)state;
    struct sim_cluster_summary summary =
        tell("T101", "world\n"
                     "hold 0 1\n"
                     "ask first 1 32 4\n"
                     "until sends rid 1 blocks [6, 8)\n"
                     "for 50\n"
                     "release\n"
                     "until request 0 ends");
    assert_int_equal(summary.receives_done, 1);
}

/* Pages are there, first tokens are held back on the wire; the client goes, and
 * another request takes the session's place: neither sees the other's tokens.
 * [transfer T102 I25] */
static void first_tokens_held_back_are_nobody_elses(void **state)
{
    (void)state;
    tell("T102", "world sessions=1\n"
                 "ask first 1 24 4\n"
                 "until sends rid 1 blocks [4, 6)\n"
                 "silence 0 1\n"
                 "until worker 0 hears rid 1 word 22\n"
                 "leave 0\n"
                 "for 10\n"
                 "ask first 2 24 4\n"
                 "for 10\n"
                 "sound 0 1\n"
                 "until request 1 ends");
}

/* Two receivers pull the same pages, one is lost, the other one is held: they are
 * leased until it is through, whoever wants pages. [transfer T103 I1 I9] */
static void a_failed_sibling_gives_no_page_back(void **state)
{
    (void)state;
    tell("T103", "world generation=2 pages=30\n"
                 "ask after 1 24 2\n"
                 "until request 0 ends\n"
                 "hold 0 1\n"
                 "hold 0 2\n"
                 "ask after 1 25 4\n"
                 "ask after 1 26 4\n"
                 "until rid 4 pieces\n"
                 "for 5\n"
                 "crash 1\n"
                 "ask after 4 40 4\n"
                 "ask after 5 40 4\n"
                 "for 50\n"
                 "release\n"
                 "start 1\n"
                 "until request 2 ends");
}

/* The receiver cancels while it is written to: logically over at once, without
 * proof after the grace time, and its pages come back with the sender's answer
 * alone. [transfer T104 I9 I16] */
static void a_cancelled_receiver_keeps_its_pages(void **state)
{
    (void)state;
    tell("T104", "world pages=20\n"
                 "hold 0 1\n"
                 "ask first 1 24 4\n"
                 "until write by 0 to 1\n"
                 "leave 0\n"
                 "until worker 1 hears rid 1 word 4e\n"
                 "ask first 2 40 4\n"
                 "for 100\n"
                 "release\n"
                 "until worker 1 hears rid 1 word 6e\n"
                 "until request 1 ends");
}

/* A cancel before there is anything to send, and one between two slices: the
 * receiver, who knows the sender from before, is told each time.
 * [transfer T105] */
static void a_cancel_with_nothing_under_way_is_told(void **state)
{
    (void)state;
    tell("T105", "world chunk=4\n"
                 "ask first 3 8 4\n"
                 "until request 0 ends\n"
                 "freeze 1\n"
                 "ask first 1 24 4\n"
                 "until worker 0 offers rid 4\n"
                 "leave 1\n"
                 "until worker 0 hears rid 4 word 2e\n"
                 "thaw 1\n"
                 "for 50\n"
                 "ask first 2 24 4\n"
                 "until worker 0 hears rid 6 word 00 reason 0 awaited 1 "
                 "through 1\n"
                 "leave 2\n"
                 "for 50");
}

/* A block is missing from what the sender is told: the request fails, and begins
 * again. [transfer T106] */
static void a_block_too_few_fails_the_request(void **state)
{
    (void)state;
    struct sim_cluster_summary summary = tell("T106", "world\n"
                                                      "drop\n"
                                                      "ask first 1 24 4\n"
                                                      "until request 0 ends\n"
                                                      "drop\n"
                                                      "ask after 2 24 4\n"
                                                      "until request 1 ends");
    assert_int_equal(summary.answered, 2);
    assert_true(summary.integrity_failures >= 2);
}

/* The sender says of one write that it cannot tell, and it goes on, with others
 * waiting behind it: failed now, drained only when the writer is gone.
 * [transfer T107 T56 I15] */
static void a_write_in_doubt_drains_with_its_writer(void **state)
{
    (void)state;
    tell("T107", "world context=2\n"
                 "fate doubt\n"
                 "ask first 1 32 4\n"
                 "until hears rid 1 word 46\n"
                 "for 300\n"
                 "crash 0\n"
                 "until worker 2 hears rid 1 word 66\n"
                 "start 0");
}

/* Receivers ask for what never comes: a sender keeps as many as it has places,
 * the rest is told at once, those that were kept go with time, nothing is left,
 * and others are served again. [transfer T108 I21] */
static void what_is_never_served_is_bounded(void **state)
{
    (void)state;
    struct sim_cluster_summary summary =
        tell("T108", "world generation=3 sessions=2 timeout=2000\n"
                     "ask first 1 24 2\n"
                     "until request 0 ends\n"
                     "want 0 1\n"
                     "want 0 1\n"
                     "want 0 2\n"
                     "want 0 2\n"
                     "until worker 2 receives rid 6\n"
                     "for 5\n"
                     "want 0 3\n"
                     "want 0 3\n"
                     "until worker 3 hears rid 8 word 26\n"
                     "for 1000\n"
                     "ask after 2 24 2\n"
                     "until request 1 ends");
    assert_int_equal(summary.answered, 2);
}

/* Another receiver asks for what is being sent to one: it is refused, the first
 * one gets all. [transfer I20 I24] */
static void one_more_receiver_changes_nothing(void **state)
{
    (void)state;
    struct sim_cluster_summary summary =
        tell("second", "world generation=2\n"
                       "hold 0 1\n"
                       "ask first 1 24 2\n"
                       "until write by 0\n"
                       "pull 0 2\n"
                       "until worker 2 hears rid 1 word 26\n"
                       "release\n"
                       "until request 0 ends");
    assert_int_equal(summary.answered, 1);
    assert_int_equal(summary.receives_done, 1);
}

/* The writes to one peer never end: requests for others are served as ever.
 * [transfer T109 I24] */
static void a_peer_that_hangs_holds_nobody_else(void **state)
{
    (void)state;
    struct sim_cluster_summary summary = tell("T109", "world generation=2\n"
                                                      "hold 0 1\n"
                                                      "ask first 1 24 2\n"
                                                      "until write by 0 to 1\n"
                                                      "ask first 2 24 2\n"
                                                      "until request 1 ends\n"
                                                      "ask first 3 24 2\n"
                                                      "for 20\n"
                                                      "release\n"
                                                      "until request 2 ends");
    assert_int_equal(summary.answered, 3);
}

/* Another process serves at the address of the receiver that is written to: what
 * was for the old one never touches it, the next request is served by it. The
 * same with the sender. [transfer T110 I26] */
static void a_restart_is_another_peer(void **state)
{
    (void)state;
    tell("T110", "world\n"
                 "hold 0 1\n"
                 "ask first 1 24 4\n"
                 "until write by 0 to 1\n"
                 "crash 1\n"
                 "start 1\n"
                 "for 20\n"
                 "release\n"
                 "until worker 1 is ready\n"
                 "ask first 2 24 4\n"
                 "until sends rid\n"
                 "crash 0\n"
                 "start 0\n"
                 "until request 1 ends\n"
                 "for 1000\n"
                 "ask first 3 24 4\n"
                 "until request 2 ends");
}

/* One worker after the other goes in order and comes back, while requests come:
 * all are answered. [transfer T88 T72 I32] */
static void workers_are_replaced_one_by_one(void **state)
{
    (void)state;
    struct sim_cluster_summary summary = tell("T88", "world context=2 "
                                                     "generation=2\n"
                                                     "ask first 1 24 4\n"
                                                     "ask after 2 24 4\n"
                                                     "for 8\n"
                                                     "shut 0\n"
                                                     "ask first 3 24 4\n"
                                                     "start 0\n"
                                                     "for 3000\n"
                                                     "ask first 4 24 4\n"
                                                     "for 8\n"
                                                     "shut 2\n"
                                                     "ask after 5 24 4\n"
                                                     "start 2\n"
                                                     "for 3000\n"
                                                     "ask first 6 24 4\n"
                                                     "for 8\n"
                                                     "shut 1\n"
                                                     "start 1\n"
                                                     "for 3000\n"
                                                     "ask after 7 24 4\n"
                                                     "shut 3\n"
                                                     "start 3\n"
                                                     "until request 6 ends");
    assert_int_equal(summary.refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_leave_while_the_rest_is_computed),
        cmocka_unit_test(either_half_may_come_first),
        cmocka_unit_test(nothing_overtakes_a_held_slice),
        cmocka_unit_test(first_tokens_held_back_are_nobody_elses),
        cmocka_unit_test(a_failed_sibling_gives_no_page_back),
        cmocka_unit_test(a_cancelled_receiver_keeps_its_pages),
        cmocka_unit_test(a_cancel_with_nothing_under_way_is_told),
        cmocka_unit_test(a_block_too_few_fails_the_request),
        cmocka_unit_test(a_write_in_doubt_drains_with_its_writer),
        cmocka_unit_test(what_is_never_served_is_bounded),
        cmocka_unit_test(one_more_receiver_changes_nothing),
        cmocka_unit_test(a_peer_that_hangs_holds_nobody_else),
        cmocka_unit_test(a_restart_is_another_peer),
        cmocka_unit_test(workers_are_replaced_one_by_one),
    };
    log_setup(&(struct log_options){.level = LOG_ERROR + 1});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
