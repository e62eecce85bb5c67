/* The state machine alone: chosen stories as traces, and random events held
 * against its promises. */
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
static char trace[2048];
static int64_t next_id;

/* Servers 0 and 1 are for context, 2 and 3 for generation. */
static void begin(bool is_stream, int32_t max_retries)
{
    static struct config_route config;
    config_route_init(&config);
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
    request = route_request_of(&(struct route_request_options){
        .is_stream = is_stream, .max_retries = max_retries});
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
        sprintf(at, "post %s %d #%d; ", LEGS[action->leg], action->server,
                (int)action->id);
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

static void end_leg(enum http_call_end end, int status, bool is_kv_failed)
{
    struct route_actions actions;
    step((struct route_event){.kind = ROUTE_EVENT_LEG_END,
                              .outcome = {end, status, false, is_kv_failed},
                              .is_whole_stream = true},
         &actions);
}

static void assert_trace(const char *wanted)
{
    assert_string_equal(trace, wanted);
}

/* [serve T29] the adopted id goes with the generation leg, I3. */
static void two_legs_and_an_answer(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_leg(HTTP_CALL_COMPLETE, 200, false);
    assert_trace("post ctx 0 #100; post gen 2 #7; reply; done; ");
}

/* [serve T78] another server, a new id; the old one is aborted when it may
 * have arrived. */
static void a_context_retry_takes_a_new_id(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_leg(HTTP_CALL_REFUSED, 0, false);
    assert_trace("post ctx 0 #100; post ctx 1 #101; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_leg(HTTP_CALL_LOST, 0, false);
    assert_trace("post ctx 0 #100; abort 0 #100; post ctx 1 #101; ");
}

static void end_refused(int status)
{
    struct route_actions actions;
    step((struct route_event){.kind = ROUTE_EVENT_LEG_END,
                              .outcome = {.end = HTTP_CALL_COMPLETE,
                                          .status = status,
                                          .is_handoff_refused = true}},
         &actions);
}

/* Nobody there could take the KV, or the context worker gives none: whole, on the
 * one with less to do. A pair of others may still be split. */
static void who_takes_no_hand_off_is_asked_whole(void **state)
{
    (void)state;
    begin(false, 1);
    pool.servers[2].is_whole_only = pool.servers[3].is_whole_only = true;
    send(ROUTE_EVENT_START);
    assert_trace("post whole 0 #100; ");
    begin(false, 1);
    pool.servers[0].is_whole_only = true;
    pool.servers[0].open_legs = 1;
    send(ROUTE_EVENT_START);
    assert_trace("post whole 2 #100; ");
    begin(false, 1);
    pool.servers[3].is_whole_only = true;
    send(ROUTE_EVENT_START);
    assert_trace("post ctx 0 #100; ");
}

/* A worker that takes part in no hand-off of ours, since its key is another: the
 * KV is where it was, another worker may take it. Once, and never the same. */
static void a_refused_hand_off_goes_to_another(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_refused(403);
    end_leg(HTTP_CALL_COMPLETE, 200, false);
    assert_trace(
        "post ctx 0 #100; post gen 2 #7; post gen 3 #7; reply; done; ");
    begin(false, 1);
    send(ROUTE_EVENT_START);
    end_refused(401);
    end_refused(401);
    assert_trace(
        "post ctx 0 #100; post ctx 1 #101; abort 1 #101; error 502; done; ");
    begin(false, 1);
    pool.servers[3].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_refused(403);
    assert_trace("post ctx 0 #100; post gen 2 #7; abort 0 #7; abort 2 #7; "
                 "error 502; done; ");
}

/* [serve T81] I2: an undelivered generation leg keeps its id. */
static void a_generation_retry_keeps_its_id(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(true, 1);
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_leg(HTTP_CALL_UNDELIVERED, 0, false);
    send(ROUTE_EVENT_CHUNK);
    end_leg(HTTP_CALL_COMPLETE, 200, false);
    assert_trace("post ctx 0 #100; post gen 2 #7; post gen 3 #7; begin; end; "
                 "done; ");
}

/* [serve T96] a failed transfer begins again once, then it is an error. */
static void a_failed_transfer_restarts_once(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    end_leg(HTTP_CALL_COMPLETE, 502, true);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 8},
         &actions);
    end_leg(HTTP_CALL_COMPLETE, 502, true);
    assert_trace("post ctx 0 #100; post gen 2 #7; abort 0 #7; abort 2 #7; "
                 "post ctx 1 #101; post gen 3 #8; abort 1 #8; abort 3 #8; "
                 "error 502; done; ");
}

/* A worker that has another request under the id is asked once more under a new
 * id, whatever the budget; what it holds under the old one is not aborted, what
 * the context worker holds of ours is. Then it is a 502. */
static void a_taken_id_is_changed_once(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(false, 0);
    send(ROUTE_EVENT_START);
    end_leg(HTTP_CALL_COMPLETE, 409, false);
    assert_trace("post ctx 0 #100; post ctx 1 #101; ");
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 101},
         &actions);
    end_leg(HTTP_CALL_COMPLETE, 409, false);
    assert_trace("post ctx 0 #100; post ctx 1 #101; post gen 2 #101; "
                 "abort 1 #101; error 502; done; ");
    begin(false, 1);
    request.is_retry_off = true;
    send(ROUTE_EVENT_START);
    end_leg(HTTP_CALL_COMPLETE, 409, false);
    assert_trace("post ctx 0 #100; error 502; done; ");
    begin(true, 0);
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 100},
         &actions);
    end_leg(HTTP_CALL_COMPLETE, 409, false);
    assert_trace("post ctx 0 #100; post gen 2 #100; abort 0 #100; "
                 "post ctx 1 #101; ");
    end_leg(HTTP_CALL_COMPLETE, 409, false);
    assert_trace("post ctx 0 #100; post gen 2 #100; abort 0 #100; "
                 "post ctx 1 #101; error 502; done; ");
}

/* A lost generation leg begins again only when its worker is proven gone. */
static void a_lost_leg_waits_for_proof(void **state)
{
    struct route_actions actions;
    (void)state;
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        begin(false, 1);
        send(ROUTE_EVENT_START);
        step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
             &actions);
        trace[0] = 0;
        end_leg(HTTP_CALL_LOST, 0, false);
        step((struct route_event){.kind = ROUTE_EVENT_PROBED,
                                  .is_gone = is_gone},
             &actions);
        assert_trace(is_gone ? "probe 2; abort 0 #7; post ctx 1 #102; "
                             : "probe 2; abort 0 #7; abort 2 #7; error 502; "
                               "done; ");
    }
}

static void go_down(int32_t server)
{
    struct route_actions actions;
    pool.servers[server].state = ROUTE_SERVER_DOWN;
    step(
        (struct route_event){.kind = ROUTE_EVENT_SERVER_DOWN, .server = server},
        &actions);
}

static void hand_off(int64_t id)
{
    struct route_actions actions;
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = id},
         &actions);
}

/* [serve T78] a frozen context worker: its KV is let go, another one prefills
 * under a new id. */
static void a_context_leg_leaves_a_down_server(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    go_down(0);
    assert_trace("post ctx 0 #100; cancel; abort 0 #100; post ctx 1 #101; ");
}

/* [serve T96] I2: a generation leg on a frozen worker may have arrived. Its id
 * is used up: the request begins again, once; the second time is an error. */
static void a_generation_leg_on_a_down_server_begins_again_once(void **state)
{
    (void)state;
    begin(true, 1);
    send(ROUTE_EVENT_START);
    hand_off(7);
    go_down(2);
    hand_off(8);
    go_down(3);
    assert_trace("post ctx 0 #100; post gen 2 #7; cancel; abort 0 #7; "
                 "abort 2 #7; post ctx 1 #101; post gen 3 #8; cancel; "
                 "abort 1 #8; abort 3 #8; error 502; done; ");
}

/* The only generation worker freezes: one context worker does it all. */
static void the_last_of_a_role_going_down_is_stood_in_for(void **state)
{
    (void)state;
    begin(false, 1);
    pool.servers[3].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    hand_off(7);
    trace[0] = 0;
    go_down(2);
    assert_trace("cancel; abort 0 #7; abort 2 #7; post whole 1 #101; ");
}

/* [serve T93] S7: bytes are out, so the break is shown. */
static void a_begun_stream_on_a_down_server_is_cut(void **state)
{
    (void)state;
    begin(true, 1);
    send(ROUTE_EVENT_START);
    hand_off(7);
    send(ROUTE_EVENT_CHUNK);
    trace[0] = 0;
    go_down(2);
    assert_trace("cancel; abort 0 #7; abort 2 #7; cut; done; ");
}

/* Only the leg under way counts; and without retries it is an error. */
static void a_down_server_touches_only_its_own_legs(void **state)
{
    (void)state;
    begin(false, 1);
    send(ROUTE_EVENT_START);
    hand_off(7);
    trace[0] = 0;
    go_down(0);
    go_down(3);
    assert_trace("");
    request.is_retry_off = request.leg.is_retry_off = true;
    go_down(2);
    assert_trace("cancel; abort 0 #7; abort 2 #7; error 502; done; ");
}

/* No generation server left: one context worker does it all. */
static void a_missing_role_is_stood_in_for(void **state)
{
    (void)state;
    begin(false, 1);
    pool.servers[2].state = ROUTE_SERVER_DOWN;
    pool.servers[3].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    assert_trace("post whole 0 #100; ");
    begin(false, 1);
    pool.servers[0].state = ROUTE_SERVER_DOWN;
    pool.servers[1].state = ROUTE_SERVER_DOWN;
    send(ROUTE_EVENT_START);
    end_leg(HTTP_CALL_COMPLETE, 200, false);
    assert_trace("post whole 2 #100; reply; done; ");
}

/* [serve T89] in each state: cancel, tell who may hold something, done. */
static void a_gone_client_ends_all(void **state)
{
    struct route_actions actions;
    (void)state;
    begin(true, 1);
    send(ROUTE_EVENT_START);
    send(ROUTE_EVENT_CLIENT_GONE);
    assert_trace("post ctx 0 #100; cancel; abort 0 #100; done; ");
    send(ROUTE_EVENT_CLIENT_GONE);
    assert_int_equal(request.state, ROUTE_STATE_DONE);
    begin(true, 1);
    send(ROUTE_EVENT_START);
    step((struct route_event){.kind = ROUTE_EVENT_CTX_PENDING, .id = 7},
         &actions);
    send(ROUTE_EVENT_CHUNK);
    trace[0] = 0;
    send(ROUTE_EVENT_CLIENT_GONE);
    assert_trace("cancel; abort 0 #7; abort 2 #7; done; ");
}

/* What a shell would see: one call or timer at a time. */
struct shell {
    bool has_call, has_wait, has_probe, is_done, has_begun;
    int answers, posts;
};

static void check_action(struct shell *shell, const struct route_action *a)
{
    assert_false(shell->is_done);
    switch (a->kind) {
    case ROUTE_ACTION_POST:
        assert_false(shell->has_call || shell->has_wait || shell->has_probe);
        assert_in_range(a->server, 0, 3);
        assert_false(shell->has_begun);
        shell->has_call = true;
        shell->posts++;
        return;
    case ROUTE_ACTION_CANCEL:
        shell->has_call = false;
        return;
    case ROUTE_ACTION_WAIT:
        shell->has_wait = true;
        return;
    case ROUTE_ACTION_PROBE:
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
    case ROUTE_ACTION_DONE:
        shell->is_done = true;
        return;
    default:
        return;
    }
}

static struct route_event random_event(struct rng *rng,
                                       const struct shell *shell)
{
    static const int STATUS[] = {200, 200, 400, 409, 500, 502, 503, 429};
    if (shell->has_wait) {
        return (struct route_event){.kind = ROUTE_EVENT_WAITED};
    }
    if (shell->has_probe) {
        return (struct route_event){.kind = ROUTE_EVENT_PROBED,
                                    .is_gone = rng_below(rng, 2)};
    }
    bool is_ctx = request.leg.kind == ROUTE_LEG_CONTEXT;
    if (shell->has_call && rng_below(rng, 8) == 0) {
        return (struct route_event){.kind = ROUTE_EVENT_SERVER_DOWN,
                                    .server = is_ctx ? request.ctx_server
                                                     : request.gen_server};
    }
    uint64_t pick = rng_below(rng, 6);
    if (is_ctx && pick < 3) {
        return (struct route_event){
            .kind = (enum route_event_kind)(ROUTE_EVENT_CTX_PENDING + pick)};
    }
    if (!is_ctx && pick < 2 && request.is_stream && !shell->has_begun) {
        return (struct route_event){.kind = ROUTE_EVENT_CHUNK};
    }
    struct route_event event = {.kind = ROUTE_EVENT_LEG_END};
    event.outcome.end = (enum http_call_end)rng_below(rng, 6);
    event.outcome.status = STATUS[rng_below(rng, is_ctx ? 5 : 8)];
    event.outcome.status += is_ctx && event.outcome.status == 200 ? 300 : 0;
    event.outcome.is_not_accepted =
        event.outcome.status == 503 && rng_below(rng, 2);
    event.outcome.is_kv_failed = event.outcome.status == 502;
    event.is_whole_stream = rng_below(rng, 2);
    return event;
}

/* I1, I7: whatever happens, one answer and one settlement, in bounded steps. */
static void every_story_ends_with_one_answer(void **state)
{
    struct rng rng = rng_from_seed(3);
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct shell shell = {0};
        struct route_event event = {.kind = ROUTE_EVENT_START};
        bool client_left = false;
        begin(rng_below(&rng, 2), (int32_t)rng_below(&rng, 3));
        for (int steps = 0; !shell.is_done; steps++) {
            struct route_actions actions;
            assert_true(steps < 100);
            for (int i = 0; i < 4; i++) {
                if (rng_below(&rng, 8) == 0) {
                    pool.servers[i].state = (enum route_server_state)rng_below(
                        &rng, ROUTE_SERVER_STATE_COUNT);
                }
            }
            step(event, &actions);
            bool goes_on = event.kind == ROUTE_EVENT_CHUNK ||
                           event.kind == ROUTE_EVENT_SERVER_DOWN;
            shell.has_call = shell.has_call && goes_on;
            shell.has_wait = shell.has_probe = false;
            for (uint32_t i = 0; i < actions.count; i++) {
                check_action(&shell, &actions.actions[i]);
            }
            bool waits = shell.has_call || shell.has_wait || shell.has_probe;
            assert_true(waits || shell.is_done);
            event = random_event(&rng, &shell);
            if (rng_below(&rng, 40) == 0) {
                event.kind = ROUTE_EVENT_CLIENT_GONE;
            } else if (rng_below(&rng, 40) == 0) {
                event.kind = ROUTE_EVENT_DEADLINE;
            } else if (rng_below(&rng, 40) == 0) {
                event.kind = ROUTE_EVENT_SHUT;
            }
            client_left |=
                !shell.is_done && event.kind == ROUTE_EVENT_CLIENT_GONE;
        }
        assert_int_equal(shell.answers, client_left ? 0 : 1);
        assert_true(shell.posts <= 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taken_id_is_changed_once),
        cmocka_unit_test(two_legs_and_an_answer),
        cmocka_unit_test(who_takes_no_hand_off_is_asked_whole),
        cmocka_unit_test(a_refused_hand_off_goes_to_another),
        cmocka_unit_test(a_context_retry_takes_a_new_id),
        cmocka_unit_test(a_generation_retry_keeps_its_id),
        cmocka_unit_test(a_failed_transfer_restarts_once),
        cmocka_unit_test(a_lost_leg_waits_for_proof),
        cmocka_unit_test(a_context_leg_leaves_a_down_server),
        cmocka_unit_test(a_generation_leg_on_a_down_server_begins_again_once),
        cmocka_unit_test(the_last_of_a_role_going_down_is_stood_in_for),
        cmocka_unit_test(a_begun_stream_on_a_down_server_is_cut),
        cmocka_unit_test(a_down_server_touches_only_its_own_legs),
        cmocka_unit_test(a_missing_role_is_stood_in_for),
        cmocka_unit_test(a_gone_client_ends_all),
        cmocka_unit_test(every_story_ends_with_one_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
