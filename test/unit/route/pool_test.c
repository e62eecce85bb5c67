/* Placement and server states, with time handed in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "route/pool.h"

#define SECOND 1000000000ull

static void add(struct config_servers *servers, uint16_t port)
{
    struct io_address *address = &servers->servers[servers->count++];
    strcpy(address->host, "h");
    address->port = port;
}

/* `count` servers for context, one of its own and the first of them for
 * generation. */
static void make(struct route_pool *pool, uint16_t count)
{
    static struct config_route config;
    config_route_init(&config);
    for (uint16_t i = 0; i < count; i++) {
        add(&config.context, (uint16_t)(i + 1));
    }
    add(&config.generation, 100);
    add(&config.generation, 1);
    route_pool_init(pool, &config, 0);
    assert_true(route_pool_is_valid(pool));
    for (uint32_t i = 0; i < pool->server_count; i++) {
        pool->servers[i].state = ROUTE_SERVER_READY;
    }
}

static int32_t place(struct route_pool *pool, int32_t exclude)
{
    return route_pool_place(pool, ROUTE_CONTEXT, exclude, true);
}

/* [serve T38] the examples of serve.md 3.1. */
static void round_robin_follows_the_examples(void **state)
{
    static struct route_pool pool;
    (void)state;
    make(&pool, 3);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(place(&pool, ROUTE_NO_SERVER), i % 3);
    }
    assert_int_equal(place(&pool, ROUTE_NO_SERVER), 0);
    assert_int_equal(place(&pool, 1), 2);
    assert_int_equal(place(&pool, ROUTE_NO_SERVER), 0);
    make(&pool, 1);
    assert_int_equal(place(&pool, 0), ROUTE_NO_SERVER);
}

/* I19: excluded only while somebody else is there, unless it failed. */
static void exclusion_is_a_preference(void **state)
{
    static struct route_pool pool;
    (void)state;
    make(&pool, 1);
    assert_int_equal(route_pool_place(&pool, ROUTE_CONTEXT, 0, false), 0);
    assert_int_equal(pool.server_count, 2);
    assert_true(pool.servers[0].has_role[ROUTE_GENERATION]);
}

static void a_suspect_is_used_only_for_want_of_others(void **state)
{
    static struct route_pool pool;
    (void)state;
    make(&pool, 2);
    route_pool_on_refused(&pool, 0, 5);
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_SUSPECT);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(place(&pool, ROUTE_NO_SERVER), 1);
    }
    route_pool_on_refused(&pool, 1, 5);
    assert_int_not_equal(place(&pool, ROUTE_NO_SERVER), ROUTE_NO_SERVER);
    assert_int_equal(route_pool_ready_count(&pool, ROUTE_CONTEXT), 0);
}

static bool probe(struct route_pool *pool, enum route_probe result,
                  uint64_t *now)
{
    *now += 60 * SECOND;
    assert_int_equal(route_pool_next_probe(pool, *now), 0);
    return route_pool_on_probe(pool, 0, result, *now);
}

/* [serve T9] one refusal, two good probes; three bad ones take it out, and the
 * way back leads over a new preparation. */
static void a_server_leaves_and_returns(void **state)
{
    static struct route_pool pool;
    uint64_t now = SECOND;
    (void)state;
    make(&pool, 1);
    route_pool_on_refused(&pool, 0, now);
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_SUSPECT);
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now)); /* what does it say? */
    route_pool_on_prepared(&pool, 0, true, now);
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_READY);
    for (int i = 0; i < 3; i++) {
        assert_false(probe(&pool, ROUTE_PROBE_BAD, &now));
    }
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_DOWN);
    assert_int_equal(place(&pool, ROUTE_NO_SERVER), ROUTE_NO_SERVER);
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
    route_pool_on_prepared(&pool, 0, true, now);
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_READY);
}

/* A death that no request meets is known within a second: the next probe of a
 * server that is well comes so soon. */
static void a_ready_server_is_probed_twice_a_second(void **state)
{
    static struct route_pool pool;
    uint64_t now = SECOND;
    (void)state;
    make(&pool, 1);
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_READY);
    assert_int_equal(pool.servers[0].next_probe_ns, now + SECOND / 2);
    assert_int_equal(route_pool_next_probe(&pool, now + SECOND / 2), 0);
    assert_false(
        route_pool_on_probe(&pool, 0, ROUTE_PROBE_BAD, now + SECOND / 2));
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_SUSPECT);
}

/* [serve T8] a failed preparation is asked for again, ever more slowly. */
static void preparation_is_retried_with_backoff(void **state)
{
    static struct route_pool pool;
    uint64_t now = SECOND, gap = 0;
    (void)state;
    make(&pool, 1);
    pool.servers[0].state = ROUTE_SERVER_NEW;
    pool.servers[1].is_probing = true; /* not of interest here */
    for (int i = 0; i < 8; i++) {
        assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
        route_pool_on_prepared(&pool, 0, false, now);
        uint64_t next = route_pool_wake_ns(&pool) - now;
        assert_true(next >= gap);
        assert_true(next <= 32 * SECOND);
        gap = next;
    }
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
    route_pool_on_prepared(&pool, 0, true, now);
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_READY);
}

/* [serve T7 T8] generation-first: what a context server said of itself is asked
 * for again once it may be another process, without it leaving the rotation;
 * a failed question is repeated. */
static void what_a_server_said_is_asked_again_after_a_break(void **state)
{
    static struct route_pool pool;
    uint64_t now = SECOND;
    (void)state;
    make(&pool, 1);
    pool.keeps_peers = true;
    pool.servers[0].peer.size = 1;
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
    route_pool_on_refused(&pool, 0, now);
    assert_false(route_peer_is_known(&pool.servers[0].peer));
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_READY);
    route_pool_on_prepared(&pool, 0, false, now);
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_READY);
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
    route_pool_on_prepared(&pool, 0, true, now);
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
    pool.servers[0].peer.size = 1;
    route_pool_forget_peer(&pool, 0, now);
    assert_false(route_peer_is_known(&pool.servers[0].peer));
    assert_true(route_pool_wake_ns(&pool) <= now);
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
    pool.keeps_peers = false; /* context-first asks nothing again */
    route_pool_on_prepared(&pool, 0, true, now);
    route_pool_forget_peer(&pool, 0, now);
    assert_false(probe(&pool, ROUTE_PROBE_GOOD, &now));
}

/* Another process at an address is asked what it serves before it gets work,
 * whatever the state of the one before; and what was known of that is not. */
static void another_process_is_a_new_server(void **state)
{
    static struct route_pool pool;
    uint64_t now = SECOND;
    (void)state;
    for (int before = ROUTE_SERVER_NEW; before < ROUTE_SERVER_STATE_COUNT;
         before++) {
        make(&pool, 1);
        strcpy(pool.servers[0].marks.incarnation, "77");
        pool.servers[0].state = (enum route_server_state)before;
        pool.servers[0].peer.size = 1;
        assert_true(probe(&pool, ROUTE_PROBE_RESTARTED, &now));
        assert_int_equal(pool.servers[0].state, ROUTE_SERVER_FRESH);
        assert_string_equal(pool.servers[0].marks.incarnation, "");
        assert_false(route_peer_is_known(&pool.servers[0].peer));
        assert_int_equal(place(&pool, ROUTE_NO_SERVER), ROUTE_NO_SERVER);
        route_pool_on_prepared(&pool, 0, true, now);
        assert_int_equal(place(&pool, ROUTE_NO_SERVER), 0);
    }
    /* A call finds out before a probe does. */
    strcpy(pool.servers[0].marks.incarnation, "78");
    route_pool_on_restarted(&pool, 0, now);
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_FRESH);
    assert_string_equal(pool.servers[0].marks.incarnation, "");
    assert_true(route_pool_wake_ns(&pool) <= now);
    assert_true(probe(&pool, ROUTE_PROBE_GOOD, &now));
    route_pool_on_prepared(&pool, 0, true, now);
    assert_int_equal(place(&pool, ROUTE_NO_SERVER), 0);
}

static void a_draining_server_gets_no_new_work(void **state)
{
    static struct route_pool pool;
    uint64_t now = SECOND;
    (void)state;
    make(&pool, 1);
    assert_false(probe(&pool, ROUTE_PROBE_DRAINING, &now));
    assert_int_equal(place(&pool, ROUTE_NO_SERVER), ROUTE_NO_SERVER);
    assert_true(route_pool_can_serve(&pool));
}

/* Any worker will do: READY ones of both roles come before a SUSPECT one, and
 * those that are down, new or excluded are never chosen. */
static void any_server_means_one_that_is_up(void **state)
{
    static struct route_pool pool; /* 0, 1: context; 2 generation; 0 both */
    (void)state;
    const int32_t asked[] = {2, 0};
    make(&pool, 2);
    pool.servers[0].state = ROUTE_SERVER_SUSPECT;
    pool.servers[1].state = ROUTE_SERVER_DOWN;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(route_pool_place_any(&pool, NULL, 0), 2);
    }
    assert_int_equal(route_pool_place_any(&pool, asked, 1), 0);
    assert_int_equal(route_pool_place_any(&pool, asked, 2), ROUTE_NO_SERVER);
    pool.servers[2].state = ROUTE_SERVER_NEW;
    assert_int_equal(route_pool_place_any(&pool, NULL, 0), 0);
    pool.servers[0].state = ROUTE_SERVER_DOWN;
    assert_int_equal(route_pool_place_any(&pool, NULL, 0), ROUTE_NO_SERVER);
}

static void mark(struct route_pool *pool, int32_t server, const char *model)
{
    struct route_marks marks = {{0}};
    strcpy(marks.model, model);
    route_pool_note_marks(pool, server, &marks);
}

/* Whatever its state, who serves another model than most gets nothing and is not
 * counted; who goes down has no say, and a mark that is not known fits. */
static void a_misfit_gets_no_work(void **state)
{
    static struct route_pool pool; /* 0, 1: context; 2 generation; 0 both */
    uint64_t now = SECOND;
    (void)state;
    make(&pool, 2);
    mark(&pool, 1, "bb");
    mark(&pool, 2, "aa");
    assert_int_equal(pool.servers[2].misfit, ROUTE_MISFIT_MODEL);
    assert_string_equal(route_server_status(&pool.servers[2]), "misfit");
    assert_string_equal(route_server_status(&pool.servers[0]), "ready");
    mark(&pool, 0, "aa");
    assert_int_equal(pool.servers[2].misfit, ROUTE_FITS);
    assert_int_equal(route_pool_ready_count(&pool, ROUTE_CONTEXT), 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(place(&pool, ROUTE_NO_SERVER), 0);
        assert_int_not_equal(route_pool_place_any(&pool, NULL, 0), 1);
    }
    route_pool_on_refused(&pool, 0, now);
    route_pool_on_refused(&pool, 1, now);
    assert_int_equal(place(&pool, 0), ROUTE_NO_SERVER);
    mark(&pool, 2, "");
    pool.servers[1].is_probing = pool.servers[2].is_probing = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pool.servers[1].misfit, ROUTE_MISFIT_MODEL);
        assert_false(probe(&pool, ROUTE_PROBE_BAD, &now));
    }
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_DOWN);
    assert_int_equal(pool.servers[1].misfit, ROUTE_FITS);
    assert_int_equal(pool.servers[0].misfit, ROUTE_MISFIT_MODEL);
}

static void limit(struct route_pool *pool, int32_t server, const char *model,
                  uint32_t max_seq)
{
    struct route_marks marks = {.max_seq = max_seq};
    strcpy(marks.model, model);
    route_pool_note_marks(pool, server, &marks);
}

/* Of those that get work the least is what a request may have: who does not fit,
 * is down or says nothing bounds nobody. */
static void the_least_limit_is_everybodys(void **state)
{
    static struct route_pool pool; /* 0, 1: context; 2 generation; 0 both */
    uint64_t now = SECOND;
    (void)state;
    make(&pool, 2);
    assert_int_equal(pool.max_seq, 0);
    limit(&pool, 1, "aa", 4096);
    assert_int_equal(pool.max_seq, 4096);
    limit(&pool, 0, "aa", 128);
    limit(&pool, 2, "bb", 16);
    assert_int_equal(pool.servers[2].misfit, ROUTE_MISFIT_MODEL);
    assert_int_equal(pool.max_seq, 128);
    route_pool_on_refused(&pool, 0, now);
    assert_int_equal(pool.max_seq, 128);
    pool.servers[1].is_probing = pool.servers[2].is_probing = true;
    for (int i = 0; i < 3; i++) {
        assert_false(probe(&pool, ROUTE_PROBE_BAD, &now));
    }
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_DOWN);
    assert_int_equal(pool.servers[2].misfit, ROUTE_MISFIT_MODEL);
    assert_int_equal(pool.max_seq, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin_follows_the_examples),
        cmocka_unit_test(exclusion_is_a_preference),
        cmocka_unit_test(a_suspect_is_used_only_for_want_of_others),
        cmocka_unit_test(a_server_leaves_and_returns),
        cmocka_unit_test(a_ready_server_is_probed_twice_a_second),
        cmocka_unit_test(preparation_is_retried_with_backoff),
        cmocka_unit_test(what_a_server_said_is_asked_again_after_a_break),
        cmocka_unit_test(another_process_is_a_new_server),
        cmocka_unit_test(a_draining_server_gets_no_new_work),
        cmocka_unit_test(any_server_means_one_that_is_up),
        cmocka_unit_test(a_misfit_gets_no_work),
        cmocka_unit_test(the_least_limit_is_everybodys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
