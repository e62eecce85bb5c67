/* io/resolver: over a name service of the test's own that hangs until it is
 * released, so that whatever comes meanwhile cannot have waited for it. */
#include <stdio.h>
#include <stdlib.h>

#include "names.h"

#include "io/dial.h"

struct waiter {
    struct io_query query;
    int answers;
    uint32_t address_count;
    char text[200];
};

static struct io_loop *loop;
static struct io_resolver *resolver;

static void on_answer(void *context, const struct io_addresses *addresses,
                      const char *text)
{
    struct waiter *waiter = context;
    waiter->answers++;
    waiter->address_count = addresses == NULL ? 0 : addresses->count;
    snprintf(waiter->text, sizeof(waiter->text), "%s", text);
}

static void open_resolver(uint32_t thread_max, uint32_t name_max)
{
    struct io_resolver_options options = {
        .look_up = NAMES, .thread_max = thread_max, .name_max = name_max};
    names_reset();
    assert_int_equal(io_loop_create(&loop), OK);
    assert_int_equal(io_loop_resolve_with(loop, &options), OK);
    assert_int_equal(io_loop_resolver(loop, NULL, &resolver), OK);
}

static void ask(struct waiter *waiter, const char *name)
{
    struct why why = {{0}};
    waiter->query.on_answer = on_answer;
    waiter->query.context = waiter;
    assert_int_equal(io_resolver_ask(resolver, name, &why, &waiter->query), OK);
    assert_int_equal(waiter->answers, 0); /* never from inside the call */
}

static void finish(void)
{
    names_release();
    io_loop_destroy(loop);
}

static void answers_come_from_the_loop(void **state)
{
    struct waiter one = {0}, two = {0}, none = {0};
    (void)state;
    open_resolver(0, 0);
    ask(&one, "one");
    ask(&two, "two");
    ask(&none, "nobody");
    TURN_UNTIL(loop, one.answers + two.answers + none.answers == 3);
    assert_int_equal(one.address_count, 1);
    assert_int_equal(two.address_count, 2);
    assert_int_equal(none.address_count, 0);
    assert_string_equal(none.text, "host \"nobody\": unknown here");
    finish();
}

/* The second asks in the same moment, the third while the name hangs. */
static void all_who_ask_for_a_name_share_one_question(void **state)
{
    struct waiter waiters[3] = {{{0}}};
    (void)state;
    open_resolver(0, 0);
    ask(&waiters[0], "hang-1");
    ask(&waiters[1], "HANG-1");
    names_wait_hanging(1);
    ask(&waiters[2], "hang-1");
    io_loop_turn(loop, 0);
    assert_int_equal(waiters[0].answers, 0);
    names_release();
    TURN_UNTIL(loop, waiters[2].answers == 1);
    assert_int_equal(waiters[0].answers, 1); /* in one step */
    assert_int_equal(waiters[1].answers, 1);
    assert_int_equal(names_asked(), 1);
    finish();
}

/* One hangs all the time; others come and are answered. */
static void a_name_that_hangs_leaves_others_alone(void **state)
{
    struct waiter hung = {0};
    (void)state;
    open_resolver(2, 0);
    ask(&hung, "hang-1");
    for (int i = 0; i < 20; i++) {
        struct waiter one = {0};
        ask(&one, i % 2 == 0 ? "one" : "nobody");
        TURN_UNTIL(loop, one.answers == 1);
        io_resolver_forget(resolver, "one");
    }
    assert_int_equal(hung.answers, 0);
    names_release();
    TURN_UNTIL(loop, hung.answers == 1);
    finish();
}

/* Both threads hang. One who asks for a third name loses patience; its place is
 * kept, and once a thread is back the name is known without another question,
 * before those that hung are asked for again. */
static void a_name_keeps_its_place_when_nobody_waits(void **state)
{
    struct waiter hung[2] = {{{0}}}, third = {0};
    struct io_addresses found;
    (void)state;
    open_resolver(2, 0);
    uint64_t now = io_loop_now(loop);
    ask(&hung[0], "hang-1");
    ask(&hung[1], "hang-2");
    names_wait_hanging(2);
    ask(&third, "one");
    io_resolver_cancel(&third.query);
    assert_false(io_resolver_find(resolver, "one", now, &found));
    names_release();
    TURN_UNTIL(loop, io_resolver_find(resolver, "one", now, &found));
    assert_int_equal(third.answers, 0);
    TURN_UNTIL(loop, hung[0].answers == 1 && hung[1].answers == 1);
    assert_int_equal(found.count, 1);
    assert_int_equal(names_asked(), 3);
    finish();
}

/* Of two who wait for a name that hangs one leaves: the other is told, and the
 * memory of the first may be anything. */
static void who_cancels_hears_nothing(void **state)
{
    struct waiter stays = {0};
    struct waiter *leaves = calloc(1, sizeof(*leaves));
    (void)state;
    open_resolver(0, 0);
    ask(leaves, "hang-1");
    ask(&stays, "hang-1");
    names_wait_hanging(1);
    io_resolver_cancel(&leaves->query);
    io_resolver_cancel(&leaves->query);
    free(leaves);
    names_release();
    TURN_UNTIL(loop, stays.answers == 1);
    finish();
}

/* Two places, both with names that hang: a third is refused by name and number,
 * one that waits already is not. A place comes free when nobody waits for a name
 * that no thread has yet, or when one is known. */
static void too_many_names_are_refused(void **state)
{
    struct waiter first = {0}, second = {0}, third = {0}, again = {0};
    struct why why = {{0}};
    (void)state;
    open_resolver(1, 2);
    third.query.on_answer = on_answer;
    third.query.context = &third;
    ask(&first, "hang-1");
    names_wait_hanging(1);
    ask(&second, "hang-2");
    assert_int_equal(io_resolver_ask(resolver, "one", &why, &third.query),
                     ERR_FULL);
    assert_string_equal(why.text, "host \"one\": the name service does not "
                                  "answer, 2 names wait");
    ask(&again, "hang-2");
    io_resolver_cancel(&again.query);
    io_resolver_cancel(&second.query);
    ask(&third, "one");
    names_release();
    TURN_UNTIL(loop, first.answers == 1 && third.answers == 1);
    assert_int_equal(names_asked(), 2); /* not for hang-2 */
    ask(&second, "two"); /* both others are known, which is room enough */
    TURN_UNTIL(loop, second.answers == 1);
    finish();
}

/* For a second an answer is good without a question, unless somebody found that
 * it leads nowhere; that a name is unknown is asked each time. */
static void answers_are_kept_for_a_second(void **state)
{
    struct waiter waiters[5] = {{{0}}};
    struct io_addresses found = {0};
    (void)state;
    open_resolver(0, 0);
    uint64_t now = io_loop_now(loop);
    ask(&waiters[0], "one");
    TURN_UNTIL(loop, waiters[0].answers == 1);
    assert_true(io_resolver_find(resolver, "one", now, &found));
    assert_int_equal(found.count, 1);
    assert_int_equal(names_asked(), 1);
    io_resolver_forget(resolver, "one");
    io_resolver_forget(resolver, "never asked");
    assert_false(io_resolver_find(resolver, "one", now, &found));
    ask(&waiters[1], "one");
    TURN_UNTIL(loop, waiters[1].answers == 1);
    assert_int_equal(names_asked(), 2);
    for (int i = 2; i < 4; i++) {
        ask(&waiters[i], "nobody");
        TURN_UNTIL(loop, waiters[i].answers == 1);
        assert_false(io_resolver_find(resolver, "nobody", now, &found));
        assert_int_equal(names_asked(), i + 1);
    }
    finish();
}

/* Who needs it later has the last addresses at once while they are asked for
 * anew, also of a service that is ill or silent; what leads nowhere is gone. */
static void old_answers_are_used_until_they_lead_nowhere(void **state)
{
    const uint64_t later = 2000000000;
    struct waiter waiters[4] = {{{0}}};
    struct io_addresses found = {0};
    (void)state;
    open_resolver(0, 0);
    ask(&waiters[0], "hang-1");
    names_wait_hanging(1);
    names_release();
    TURN_UNTIL(loop, waiters[0].answers == 1);
    for (int i = 1; i < 3; i++) {
        names_set_ill(i == 2);
        assert_true(io_resolver_find(resolver, "hang-1",
                                     io_loop_now(loop) + later, &found));
        assert_int_equal(found.count, 1);
        ask(&waiters[i], "hang-1"); /* of the same question */
        TURN_UNTIL(loop, waiters[i].answers == 1);
        assert_int_equal(names_asked(), i + 1);
        assert_int_equal(waiters[i].address_count, i == 1);
    }
    names_reset(); /* silent */
    for (int i = 0; i < 3; i++) {
        found.count = 0;
        assert_true(io_resolver_find(resolver, "hang-1",
                                     io_loop_now(loop) + later, &found));
        assert_int_equal(found.count, 1);
    }
    names_wait_hanging(1);
    io_resolver_forget(resolver, "hang-1");
    assert_false(io_resolver_find(resolver, "hang-1", 0, &found));
    ask(&waiters[3], "hang-1");
    assert_int_equal(names_asked(), 1);
    names_release();
    TURN_UNTIL(loop, waiters[3].answers == 1);
    assert_int_equal(waiters[3].address_count, 1);
    finish();
}

static void note_found(void *context)
{
    *(bool *)context = true;
}

/* A probe gives a second to all addresses of a worker: a silent one has 0.4 s
 * where there is another, the last one all that is left. */
static void a_silent_address_leaves_time_for_the_next(void **state)
{
    const uint64_t ms = 1000000;
    bool is_found = false;
    struct io_endpoint endpoint;
    struct io_dial *dial = NULL;
    (void)state;
    open_resolver(0, 0);
    uint64_t now = io_loop_now(loop);
    struct io_dial_options options = {.host = "two",
                                      .port = 1,
                                      .resolver = resolver,
                                      .now = now,
                                      .limit_ns = now + 5000 * ms,
                                      .on_found = note_found,
                                      .context = &is_found};
    assert_int_equal(io_dial_create(&options, NULL, &dial), OK);
    TURN_UNTIL(loop, is_found);
    assert_int_equal(io_dial_next(dial, now, NULL, &endpoint), OK);
    assert_int_equal(io_dial_until_ns(dial), now + 400 * ms);
    assert_int_equal(io_dial_next(dial, now + 400 * ms, NULL, &endpoint), OK);
    assert_int_equal(io_dial_until_ns(dial), now + 5000 * ms);
    assert_int_equal(io_dial_next(dial, now + 5000 * ms, NULL, &endpoint),
                     ERR_NOT_FOUND);
    io_dial_destroy(dial);
    finish();
}

static struct waiter next;
static void ask_again(void *context, const struct io_addresses *addresses,
                      const char *text)
{
    on_answer(context, addresses, text);
    io_resolver_forget(resolver, "one");
    ask(&next, addresses == NULL ? "nobody" : "one");
}

/* In on_answer, for the very name it is about, and with a neighbour that is
 * cancelled there. */
static void who_asks_in_an_answer_is_answered(void **state)
{
    (void)state;
    open_resolver(0, 0);
    for (int i = 0; i < 2; i++) {
        struct waiter first = {0};
        next = (struct waiter){0};
        first.query.on_answer = ask_again;
        first.query.context = &first;
        assert_int_equal(io_resolver_ask(resolver, i == 0 ? "one" : "nobody",
                                         NULL, &first.query),
                         OK);
        TURN_UNTIL(loop, first.answers == 1 && next.answers == 1);
        assert_int_equal(next.address_count, first.address_count);
    }
    finish();
}

/* Were the end to wait for the look-up it would never come: only after it is the
 * name service released, and what it brings then meets nobody. */
static void the_end_waits_for_no_look_up(void **state)
{
    struct waiter waiters[3] = {{{0}}};
    (void)state;
    open_resolver(1, 0);
    ask(&waiters[0], "hang-1");
    ask(&waiters[1], "hang-2");
    ask(&waiters[2], "hang-3");
    names_wait_hanging(1);
    for (int i = 0; i < 3; i++) {
        io_resolver_cancel(&waiters[i].query);
    }
    io_loop_destroy(loop);
    assert_int_equal(names_asked(), 1);
    names_release();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waiters[i].answers, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_come_from_the_loop),
        cmocka_unit_test(all_who_ask_for_a_name_share_one_question),
        cmocka_unit_test(a_name_that_hangs_leaves_others_alone),
        cmocka_unit_test(a_name_keeps_its_place_when_nobody_waits),
        cmocka_unit_test(who_cancels_hears_nothing),
        cmocka_unit_test(too_many_names_are_refused),
        cmocka_unit_test(answers_are_kept_for_a_second),
        cmocka_unit_test(a_silent_address_leaves_time_for_the_next),
        cmocka_unit_test(old_answers_are_used_until_they_lead_nowhere),
        cmocka_unit_test(who_asks_in_an_answer_is_answered),
        cmocka_unit_test(the_end_waits_for_no_look_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
