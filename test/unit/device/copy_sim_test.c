/* device/copy_sim: what it does to owners who break the contract, and that a seed
 * replays it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/copy_sim.h"
#include "io/mailbox.h"

enum { PAGE = 256, PAGES = 16, POISON = DEVICE_COPIER_SIM_POISON };

static _Alignas(64) uint8_t pages[PAGES][PAGE];

static void reset_pages(void)
{
    for (int i = 0; i < PAGES; i++) {
        memset(pages[i], i + 1, PAGE);
    }
}

static struct device_copier *open_sim(struct device_copier_sim_options options)
{
    struct device_copier *copier = NULL;
    options.limits = (struct device_copier_limits){PAGES, 4, PAGES};
    assert_int_equal(device_copier_sim_create(&options, &copier), OK);
    reset_pages();
    return copier;
}

static device_ticket copy_page(struct device_copier *copier, int to, int from,
                               device_ticket wait)
{
    struct device_copy copy = {device_address_host(pages[to]),
                               device_address_host(pages[from]), PAGE};
    struct device_copy_order order = {&copy, 1, &wait, 1};
    device_ticket ticket = 0;
    assert_int_equal(device_copier_submit(copier, &order, &ticket), OK);
    return ticket;
}

static void expect_page(int page, uint8_t value)
{
    uint8_t expected[PAGE];
    memset(expected, value, PAGE);
    assert_memory_equal(pages[page], expected, PAGE);
}

/* Looks at a target before and after its end. The target of a copy that still
 * waits is whole, since another may yet read it; it is poisoned when the wait
 * is over. */
static void target_is_poisoned_from_its_begin_to_its_end(void **state)
{
    (void)state;
    struct device_copier *copier = open_sim((struct device_copier_sim_options){
        .rng = rng_from_seed(1), .poison = true});
    device_ticket first = copy_page(copier, 1, 0, 0);
    copy_page(copier, 0, 2, first);
    expect_page(1, POISON);
    expect_page(0, 1);
    assert_true(device_copier_sim_step(copier));
    expect_page(1, 1);
    expect_page(0, POISON);
    assert_true(device_copier_sim_step(copier));
    expect_page(0, 3);
    assert_false(device_copier_sim_step(copier));
    device_copier_destroy(copier);
}

/* The source is overwritten after submit: the copy has the new bytes, as a
 * device that reads late would. */
static void source_is_read_at_the_end(void **state)
{
    (void)state;
    struct device_copier *copier =
        open_sim((struct device_copier_sim_options){.rng = rng_from_seed(1)});
    copy_page(copier, 1, 0, 0);
    expect_page(1, 2);
    memset(pages[0], 77, PAGE);
    device_copier_drain(copier);
    expect_page(1, 77);
    device_copier_destroy(copier);
}

/* Order of the ends of eight independent copies, as decimal digits. */
static uint64_t order_of_ends(uint64_t seed, uint32_t fail_per_1024)
{
    struct device_copier *copier = open_sim((struct device_copier_sim_options){
        .rng = rng_from_seed(seed), .fail_per_1024 = fail_per_1024});
    for (int i = 0; i < 8; i++) {
        copy_page(copier, 8 + i, i, 0);
    }
    uint64_t trace = 0;
    struct device_copy_done done;
    while (device_copier_sim_step(copier)) {
        assert_true(device_copier_poll(copier, &done));
        trace = trace * 20 + done.ticket * 2 + (done.err != OK);
    }
    device_copier_destroy(copier);
    return trace;
}

/* The same seed gives the same order and the same failures, another seed
 * another one; few of them are the order of submission. */
static void seed_decides_the_order(void **state)
{
    (void)state;
    uint64_t in_order = 0;
    for (uint64_t i = 1; i <= 8; i++) {
        in_order = in_order * 20 + i * 2;
    }
    int same_as_next = 0, in_order_count = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t trace = order_of_ends(seed, 300);
        assert_int_equal(order_of_ends(seed, 300), trace);
        same_as_next += order_of_ends(seed + 1, 300) == trace;
        in_order_count += order_of_ends(seed, 0) == in_order;
    }
    assert_int_equal(same_as_next, 0);
    assert_in_range(in_order_count, 0, 1);
}

/* All submissions fail: each says ERR_IO and has lost at least one of its two
 * copies, this, that or both; what waited ran all the same. */
static void failed_submission_has_lost_some_bytes(void **state)
{
    (void)state;
    struct device_copier *copier = open_sim((struct device_copier_sim_options){
        .rng = rng_from_seed(5), .fail_per_1024 = 1024, .poison = true});
    int lost[2] = {0}, arrived = 0, all_lost = 0;
    device_ticket last = 0;
    struct device_copy_done done;
    for (int round = 0; round < 60; round++) {
        struct device_copy copies[2] = {{device_address_host(pages[2]),
                                         device_address_host(pages[0]), PAGE},
                                        {device_address_host(pages[3]),
                                         device_address_host(pages[1]), PAGE}};
        struct device_copy_order order = {copies, 2, &last, 1};
        assert_int_equal(device_copier_submit(copier, &order, &last), OK);
        device_copier_drain(copier);
        assert_true(device_copier_poll(copier, &done));
        assert_int_equal(done.err, ERR_IO);
        bool is_first_lost = pages[2][0] == POISON;
        bool is_second_lost = pages[3][0] == POISON;
        assert_true(is_first_lost || is_second_lost);
        lost[0] += is_first_lost;
        lost[1] += is_second_lost;
        arrived += !is_first_lost || !is_second_lost;
        all_lost += is_first_lost && is_second_lost;
    }
    assert_true(lost[0] > 10);
    assert_true(lost[1] > 10);
    assert_true(arrived > 10);
    assert_true(all_lost > 10);
    assert_int_equal(device_copier_stats(copier).failures, 60);
    device_copier_destroy(copier);
}

/* A copy behind a failed one runs, and its end comes after: the owner knows by
 * then that what it read was no page. */
static void end_of_a_failure_comes_before_those_that_waited(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct device_copier *copier =
            open_sim((struct device_copier_sim_options){
                .rng = rng_from_seed(seed), .fail_per_1024 = 512});
        device_ticket last = 0;
        struct device_copy_done done;
        for (int i = 0; i < 5; i++) {
            last = copy_page(copier, i + 1, i, last);
            copy_page(copier, i + 8, i + 1, last);
        }
        device_copier_drain(copier);
        device_ticket chain = 1;
        for (int i = 0; i < 10; i++) {
            assert_true(device_copier_poll(copier, &done));
            bool is_link = done.ticket % 2 == 1;
            assert_true(!is_link || done.ticket == chain);
            assert_true(is_link || done.ticket < chain);
            chain += is_link ? 2 : 0;
        }
        device_copier_destroy(copier);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(target_is_poisoned_from_its_begin_to_its_end),
        cmocka_unit_test(source_is_read_at_the_end),
        cmocka_unit_test(seed_decides_the_order),
        cmocka_unit_test(failed_submission_has_lost_some_bytes),
        cmocka_unit_test(end_of_a_failure_comes_before_those_that_waited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
