/* The state machine with both legs at once: chosen stories as traces, and
 * random events held against its promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "route/request.h"

static struct route_pool pool;
static struct route_request request;
static char trace[4096];
static int64_t next_id;

static void know(int32_t server)
{
    static const char PARAMS[] = "{\"ctx_info_endpoint\":\"h:1\"}";
    struct route_peer *peer = &pool.servers[server].peer;
    peer->size = sizeof(PARAMS) - 1;
    memcpy(peer->params, PARAMS, sizeof(PARAMS));
}

/* Servers 0 and 1 are for context, 2 and 3 for generation. */
static void begin(bool is_stream, int32_t max_retries)
{
    static struct config_route config;
    config_route_init(&config);
    config.schedule_style = CONFIG_ROUTE_GENERATION_FIRST;
    for (uint16_t i = 0; i < 4; i++) {
        struct config_servers *side =
            i < 2 ? &config.context : &config.generation;
        strcpy(side->servers[side->count].host, "h");
        side->servers[side->count++].port = (uint16_t)(i + 1);
    }
    route_pool_init(&pool, &config, 0);
    for (uint32_t i = 0; i < pool.server_count; i++) {
        pool.servers[i].state = ROUTE_SERVER_READY;
    }
    know(0);
    know(1);
    request = route_request_of(
        &(struct route_request_options){.is_stream = is_stream,
                                        .max_retries = max_retries,
                                        .is_generation_first = true});
    trace[0] = 0;
    next_id = 100;
}

static void add_action(const struct route_action *action)
{
    static const char *const NAMES[] = {
        "post",  "cancel", "wait", "probe", "abort",  "begin", "reply",
        "final", "error",  "end",  "cut",   "linger", "done"};
    static const char *const LEGS[] = {"ctx", "gen", "whole"};
    char *at = trace + strlen(trace);
    switch (action->kind) {
    case ROUTE_ACTION_POST:
        sprintf(at, "%s%s %d #%d; ", action->is_pair ? "+" : "",
                LEGS[action->leg], action->server, (int)action->id);
        return;
    case ROUTE_ACTION_ABORT:
        sprintf(at, "abort %d #%d; ", action->server, (int)action->id);
        return;
    case ROUTE_ACTION_PROBE:
        sprintf(at, "probe %d; ", action->server);
        return;
    case ROUTE_ACTION_ERROR:
        sprintf(at, "error %d; ", action->status);
        return;
    default:
        sprintf(at, "%s; ", NAMES[action->kind]);
        return;
    }
}

static void step(struct route_event event, struct route_actions *actions)
{
    if (event.id == 0) {
        event.id = next_id++;
    }
    route_request_step(&request, &pool, &event, actions);
    for (uint32_t i = 0; i < actions->count; i++) {
        if (strlen(trace) < sizeof(trace) - 128) {
            add_action(&actions->actions[i]);
        }
    }
}

static void send(enum route_event_kind kind)
{
    struct route_actions actions;
    step((struct route_event){.kind = kind}, &actions);
}

static void end_of(enum route_event_kind kind, enum http_call_end end,
                   int status, bool is_kv_failed)
{
    struct route_actions actions;
    step((struct route_event){.kind = kind,
                              .outcome = {end, status, false, is_kv_failed},
                              .is_whole_stream = true},
         &actions);
}

static void end_gen(enum http_call_end end, int status)
{
    end_of(ROUTE_EVENT_LEG_END, end, status, false);
}

static void end_ctx(enum http_call_end end, int status)
{
    end_of(ROUTE_EVENT_BESIDE_END, end, status, false);
}

static void go_down(int32_t server)
{
    struct route_actions actions;
    pool.servers[server].state = ROUTE_SERVER_DOWN;
    step(
        (struct route_event){.kind = ROUTE_EVENT_SERVER_DOWN, .server = server},
        &actions);
}

static void assert_trace(const char *wanted)
{
    assert_string_equal(trace, wanted);
}

/* [serve T30] in one step, the generation leg first; whichever ends first. */
static void both_legs_are_posted_at_once(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_ctx(HTTP_CALL_COMPLETE, 200);
    end_gen(HTTP_CALL_COMPLETE, 200);
    assert_trace("+gen 2 #100; +ctx 0 #100; reply; done; ");
    begin(true, 1);
    send(ROUTE_EVENT_START);
    send(ROUTE_EVENT_CHUNK);
    end_ctx(HTTP_CALL_COMPLETE, 200);
    end_gen(HTTP_CALL_COMPLETE, 200);
    assert_trace("+gen 2 #100; +ctx 0 #100; begin; end; done; ");
}

/* The client has its answer; the context leg ends by itself, well or not, or
 * is ended: by time, or because its server is down. */
static void a_late_context_leg_does_not_delay_the_answer(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_gen(HTTP_CALL_COMPLETE, 200);
    end_ctx(HTTP_CALL_COMPLETE, 200);
    assert_trace("+gen 2 #100; +ctx 0 #100; reply; linger; done; ");
    begin(true, 1);
    send(ROUTE_EVENT_START);
    send(ROUTE_EVENT_CHUNK);
    end_gen(HTTP_CALL_COMPLETE, 200);
    trace[0] = 0;
    end_ctx(HTTP_CALL_COMPLETE, 500);
    assert_trace("abort 0 #100; done; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_gen(HTTP_CALL_COMPLETE, 200);
    trace[0] = 0;
    send(ROUTE_EVENT_DEADLINE);
    assert_trace("cancel; abort 0 #100; done; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_gen(HTTP_CALL_COMPLETE, 200);
    trace[0] = 0;
    go_down(2); /* its leg has ended */
    go_down(0);
    assert_trace("cancel; abort 0 #100; done; ");
}

/* [serve T31] and [serve T32]: the other leg ends with it, both are told. */
static void the_first_failure_ends_both(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_gen(HTTP_CALL_COMPLETE, 500);
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "abort 2 #100; error 500; done; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    end_ctx(HTTP_CALL_COMPLETE, 400);
    assert_trace("cancel; abort 0 #100; abort 2 #100; error 400; done; ");
    begin(true, 1);
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    end_gen(HTTP_CALL_COMPLETE, 200); /* a stream without a chunk */
    assert_trace("cancel; abort 0 #100; abort 2 #100; error 502; done; ");
}

/* [serve T32 T87] once bytes are out, a failure of either is shown. */
static void a_failure_after_a_chunk_cuts_the_stream(void **state)
{
    static const char WANTED[] =
        "cancel; abort 0 #100; abort 2 #100; cut; done; ";
    (void)state;
    for (int i = 0; i < 5; i++) {
        begin(true, 1);
        send(ROUTE_EVENT_START);
        send(ROUTE_EVENT_CHUNK);
        trace[0] = 0;
        if (i == 0) {
            end_ctx(HTTP_CALL_COMPLETE, 500);
        } else if (i == 1) {
            end_ctx(HTTP_CALL_LOST, 0);
        } else if (i == 2) {
            end_gen(HTTP_CALL_LOST, 0);
        } else {
            go_down(i == 3 ? 0 : 2);
        }
        assert_trace(WANTED);
    }
}

/* [serve T78 T79] a retry is one of both legs, under a new id, and keeps away
 * from the server that failed. */
static void a_retry_takes_both_legs_and_a_new_id(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_ctx(HTTP_CALL_COMPLETE, 503);
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "abort 2 #100; +gen 3 #101; +ctx 1 #101; ");
    end_ctx(HTTP_CALL_COMPLETE, 503);
    assert_int_equal(request.state, ROUTE_STATE_DONE);
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_gen(HTTP_CALL_REFUSED, 0); /* it holds nothing */
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "+gen 3 #101; +ctx 1 #101; ");
}

/* An id that one side has already: both again under a new one, once. The side
 * that has it keeps what it has, the other one is told. */
static void a_taken_id_takes_both_legs_along(void **state)
{
    (void)state;
    begin(false, 0);
    send(ROUTE_EVENT_START);
    end_gen(HTTP_CALL_COMPLETE, 409);
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "+gen 3 #101; +ctx 1 #101; ");
    trace[0] = 0;
    end_ctx(HTTP_CALL_COMPLETE, 409);
    assert_trace("cancel; abort 3 #101; error 502; done; ");
}

/* Nobody else is there: the same pair, a moment later. */
static void a_retry_waits_when_there_is_nobody_else(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 1);
    pool.servers[1].state = pool.servers[3].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    struct route_event busy = {
        .kind = ROUTE_EVENT_LEG_END,
        .outcome = {HTTP_CALL_COMPLETE, 429, true, false}};
    step(busy, &actions);
    send(ROUTE_EVENT_WAITED);
    assert_trace("cancel; abort 0 #100; wait; +gen 2 #102; +ctx 0 #102; ");
    trace[0] = 0;
    step(busy, &actions); /* the budget is used up */
    assert_trace("cancel; abort 0 #102; abort 2 #102; error 429; done; ");
}

/* [serve T80 T82] */
static void without_retries_each_leg_is_posted_once(void **state)
{
    static const enum http_call_end ENDS[] = {
        HTTP_CALL_REFUSED, HTTP_CALL_UNDELIVERED, HTTP_CALL_LOST,
        HTTP_CALL_PROTOCOL, HTTP_CALL_TIMEOUT};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(ENDS) / sizeof(ENDS[0]); i++) {
        begin(false, 1);
        request.is_retry_off = true;
        send(ROUTE_EVENT_START);
        (i % 2 == 0 ? end_gen : end_ctx)(ENDS[i / 2], 0);
        assert_int_equal(request.state, ROUTE_STATE_DONE);
        assert_null(strstr(trace, "#101"));
        assert_non_null(strstr(trace, "cancel; "));
    }
}

/* [serve T96] one more try, and not by what the worker had said of itself: a
 * context worker that has changed its place is met through its answer. */
static void a_failed_transfer_begins_again_once(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 1);
    pool.servers[1].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    end_of(ROUTE_EVENT_LEG_END, HTTP_CALL_COMPLETE, 502, true);
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "abort 2 #100; ctx 0 #101; ");
    assert_true(pool.servers[0].is_stale);
    trace[0] = 0;
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_of(ROUTE_EVENT_LEG_END, HTTP_CALL_COMPLETE, 502, true);
    assert_trace("gen 3 #7; abort 0 #7; abort 3 #7; error 502; done; ");
}

/* [serve T81] a generation leg that may have arrived is posted again only when
 * its worker is proven gone. */
static void a_lost_generation_leg_waits_for_proof(void **state)
{
    struct route_actions actions;
    (void)state;
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        begin(false, 1);
        send(ROUTE_EVENT_START);
        trace[0] = 0;
        end_gen(HTTP_CALL_LOST, 0);
        step((struct route_event){.kind = ROUTE_EVENT_PROBED,
                                  .is_gone = is_gone},
             &actions);
        assert_trace(is_gone ? "cancel; probe 2; abort 0 #100; +gen 3 #102; "
                               "+ctx 1 #102; "
                             : "cancel; probe 2; abort 0 #100; abort 2 #100; "
                               "error 502; done; ");
    }
}

/* The only context worker dies: the generation worker does both phases. */
static void a_dead_role_is_stood_in_for(void **state)
{
    (void)state;
    begin(false, 1);
    pool.servers[1].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    end_ctx(HTTP_CALL_LOST, 0);
    assert_trace("cancel; abort 0 #100; abort 2 #100; whole 3 #101; ");
    assert_int_equal(pool.servers[0].state, ROUTE_SERVER_SUSPECT);
    begin(false, 1);
    pool.servers[1].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    go_down(0);
    assert_trace("cancel; abort 0 #100; abort 2 #100; whole 3 #101; ");
}

/* [serve T96] I2: a frozen generation worker keeps the id it has. */
static void a_pair_leaves_a_down_server(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    go_down(2);
    go_down(3);
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "abort 2 #100; +gen 3 #101; +ctx 1 #101; cancel; "
                 "abort 1 #101; abort 3 #101; error 502; done; ");
}

/* Servers that say nothing of themselves are asked first. */
static void an_unknown_place_means_context_first(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 1);
    pool.servers[0].peer.size = 0;
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_gen(HTTP_CALL_COMPLETE, 200);
    assert_trace("ctx 0 #100; gen 2 #7; reply; done; ");
    begin(false, 1);
    request.is_whole = true; /* one token: nothing is handed off */
    send(ROUTE_EVENT_START);
    assert_trace("whole 0 #100; ");
}

/* [serve T35] one server under both roles. */
static void a_mixed_server_takes_both_legs(void **state)
{
    (void)state;
    begin(false, 1);
    pool.member_count[ROUTE_CONTEXT] = pool.member_count[ROUTE_GENERATION] = 1;
    pool.members[ROUTE_GENERATION][0] = 0;
    pool.servers[0].has_role[ROUTE_GENERATION] = true;
    pool.servers[1].state = pool.servers[2].state = ROUTE_SERVER_DOWN;
    pool.servers[3].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    go_down(0);
    assert_trace("+gen 0 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "abort 0 #100; error 503; done; ");
}

/* [serve T89] in each state: cancel, tell who may hold something, done. */
static void a_gone_client_ends_both_legs(void **state)
{
    (void)state;
    begin(true, 1);
    send(ROUTE_EVENT_START);
    send(ROUTE_EVENT_CLIENT_GONE);
    assert_trace("+gen 2 #100; +ctx 0 #100; cancel; abort 0 #100; "
                 "abort 2 #100; done; ");
    begin(true, 1);
    send(ROUTE_EVENT_START);
    send(ROUTE_EVENT_CHUNK);
    end_ctx(HTTP_CALL_COMPLETE, 200);
    trace[0] = 0;
    send(ROUTE_EVENT_CLIENT_GONE);
    assert_trace("cancel; abort 0 #100; abort 2 #100; done; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    send(ROUTE_EVENT_DEADLINE);
    assert_trace("cancel; abort 0 #100; abort 2 #100; error 504; done; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    trace[0] = 0;
    send(ROUTE_EVENT_UNPOSTABLE);
    assert_trace("cancel; abort 0 #100; abort 2 #100; error 502; done; ");
}

/* What a shell would see. `ids` are those under which something was posted and
 * may still be held; a hand-off must end, or be told to. */
struct shell {
    bool has_call, has_beside, has_wait, has_probe, has_begun, lingers, is_done;
    int answers, posts;
    int64_t pair_id; /* of the last pair */
};

static void check_post(struct shell *shell, const struct route_action *a)
{
    bool is_beside = a->is_pair && a->leg == ROUTE_LEG_CONTEXT;
    assert_in_range(a->server, 0, 3);
    assert_false(shell->has_begun || shell->lingers);
    assert_false(shell->has_wait || shell->has_probe || shell->has_beside);
    if (is_beside) {
        assert_true(shell->has_call);
        assert_int_equal(a->id, shell->pair_id);
        shell->has_beside = true;
        return;
    }
    assert_false(shell->has_call);
    if (a->is_pair) {
        assert_true(a->id > shell->pair_id); /* never the same twice */
        shell->pair_id = a->id;
    }
    shell->has_call = true;
    shell->posts++;
}

static void check_action(struct shell *shell, const struct route_action *a)
{
    assert_false(shell->is_done);
    switch (a->kind) {
    case ROUTE_ACTION_POST:
        check_post(shell, a);
        return;
    case ROUTE_ACTION_CANCEL:
        shell->has_call = shell->has_beside = false;
        return;
    case ROUTE_ACTION_WAIT:
        assert_false(shell->has_beside);
        shell->has_wait = true;
        return;
    case ROUTE_ACTION_PROBE:
        assert_false(shell->has_beside);
        shell->has_probe = true;
        return;
    case ROUTE_ACTION_BEGIN:
        assert_false(shell->has_begun);
        shell->has_begun = true;
        return;
    case ROUTE_ACTION_REPLY:
    case ROUTE_ACTION_FINAL:
    case ROUTE_ACTION_ERROR:
        assert_false(shell->has_begun);
        shell->answers++;
        return;
    case ROUTE_ACTION_END:
    case ROUTE_ACTION_CUT:
        assert_true(shell->has_begun);
        shell->answers++;
        return;
    case ROUTE_ACTION_LINGER:
        assert_true(shell->has_beside);
        shell->lingers = true;
        return;
    case ROUTE_ACTION_DONE:
        assert_false(shell->has_beside);
        shell->is_done = true;
        return;
    default:
        return;
    }
}

static void draw_outcome(struct rng *rng, struct route_event *event)
{
    static const int STATUS[] = {200, 200, 400, 409, 429, 500, 502, 503};
    event->outcome.end = (enum http_call_end)rng_below(rng, 6);
    event->outcome.status = STATUS[rng_below(rng, 8)];
    event->outcome.is_not_accepted =
        event->outcome.status == 503 && rng_below(rng, 2);
    event->outcome.is_kv_failed = event->outcome.status == 502;
    event->is_whole_stream = rng_below(rng, 2);
}

static struct route_event random_event(struct rng *rng,
                                       const struct shell *shell)
{
    if (shell->has_wait) {
        return (struct route_event){.kind = ROUTE_EVENT_WAITED};
    }
    if (shell->has_probe) {
        return (struct route_event){.kind = ROUTE_EVENT_PROBED,
                                    .is_gone = rng_below(rng, 2)};
    }
    bool picks_beside =
        shell->has_beside && (!shell->has_call || rng_below(rng, 2));
    if (rng_below(rng, 8) == 0) {
        bool is_ctx = picks_beside || request.leg.kind == ROUTE_LEG_CONTEXT;
        return (struct route_event){.kind = ROUTE_EVENT_SERVER_DOWN,
                                    .server = is_ctx ? request.ctx_server
                                                     : request.gen_server};
    }
    struct route_event event = {.kind = picks_beside ? ROUTE_EVENT_BESIDE_END
                                                     : ROUTE_EVENT_LEG_END};
    draw_outcome(rng, &event);
    bool is_ctx = request.leg.kind == ROUTE_LEG_CONTEXT && !picks_beside;
    uint64_t pick = rng_below(rng, 6);
    if (is_ctx && (pick < 3 || event.outcome.status == 200)) {
        return (struct route_event){.kind = (enum route_event_kind)(
                                        ROUTE_EVENT_CTX_PENDING + pick % 3)};
    }
    bool may_begin = !is_ctx && !picks_beside && request.is_stream;
    if (may_begin && pick < 2 && !shell->has_begun) {
        event.kind = ROUTE_EVENT_CHUNK;
    }
    return event;
}

/* The calls that an event leaves open. */
static void note_event(struct shell *shell, const struct route_event *event)
{
    bool is_end = event->kind == ROUTE_EVENT_LEG_END ||
                  event->kind == ROUTE_EVENT_CTX_PENDING ||
                  event->kind == ROUTE_EVENT_CTX_FINAL ||
                  event->kind == ROUTE_EVENT_CTX_BAD;
    shell->has_call &= !is_end;
    shell->has_beside &= event->kind != ROUTE_EVENT_BESIDE_END;
    shell->has_wait = shell->has_probe = false;
}

static void shake_pool(struct rng *rng)
{
    for (int32_t i = 0; i < 4; i++) {
        if (rng_below(rng, 8) == 0) {
            pool.servers[i].state = (enum route_server_state)rng_below(
                rng, ROUTE_SERVER_STATE_COUNT);
        }
        if (i < 2 && rng_below(rng, 8) == 0) {
            know(i);
        } else if (i < 2 && rng_below(rng, 8) == 0) {
            pool.servers[i].peer.size = 0;
        }
    }
}

static struct shell run_story(struct rng *rng, bool *client_left)
{
    struct shell shell = {0};
    struct route_event event = {.kind = ROUTE_EVENT_START};
    *client_left = false;
    begin(rng_below(rng, 2), (int32_t)rng_below(rng, 3));
    for (int steps = 0; !shell.is_done; steps++) {
        struct route_actions actions;
        assert_true(steps < 100);
        shake_pool(rng);
        note_event(&shell, &event);
        step(event, &actions);
        for (uint32_t i = 0; i < actions.count; i++) {
            check_action(&shell, &actions.actions[i]);
        }
        bool waits = shell.has_call || shell.has_beside || shell.has_wait ||
                     shell.has_probe;
        assert_true(waits || shell.is_done);
        event = random_event(rng, &shell);
        if (rng_below(rng, 40) == 0 && !shell.lingers) {
            event = (struct route_event){.kind = ROUTE_EVENT_CLIENT_GONE};
        } else if (rng_below(rng, 40) == 0) {
            event = (struct route_event){.kind = ROUTE_EVENT_DEADLINE};
        }
        *client_left |= !shell.is_done && event.kind == ROUTE_EVENT_CLIENT_GONE;
    }
    return shell;
}

/* [serve T33] I1, I2, I7: whatever happens, one answer and one settlement, in
 * bounded steps, no pair twice under one id, and no call left open. */
static void every_story_ends_with_one_answer(void **state)
{
    struct rng rng = rng_from_seed(5);
    (void)state;
    for (int round = 0; round < 20000; round++) {
        bool client_left;
        struct shell shell = run_story(&rng, &client_left);
        assert_int_equal(shell.answers, client_left ? 0 : 1);
        assert_false(shell.has_beside);
        assert_true(shell.posts <= 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_legs_are_posted_at_once),
        cmocka_unit_test(a_late_context_leg_does_not_delay_the_answer),
        cmocka_unit_test(the_first_failure_ends_both),
        cmocka_unit_test(a_failure_after_a_chunk_cuts_the_stream),
        cmocka_unit_test(a_retry_takes_both_legs_and_a_new_id),
        cmocka_unit_test(a_taken_id_takes_both_legs_along),
        cmocka_unit_test(a_retry_waits_when_there_is_nobody_else),
        cmocka_unit_test(without_retries_each_leg_is_posted_once),
        cmocka_unit_test(a_failed_transfer_begins_again_once),
        cmocka_unit_test(a_lost_generation_leg_waits_for_proof),
        cmocka_unit_test(a_dead_role_is_stood_in_for),
        cmocka_unit_test(a_pair_leaves_a_down_server),
        cmocka_unit_test(an_unknown_place_means_context_first),
        cmocka_unit_test(a_mixed_server_takes_both_legs),
        cmocka_unit_test(a_gone_client_ends_both_legs),
        cmocka_unit_test(every_story_ends_with_one_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
