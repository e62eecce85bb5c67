/* Pages that a batch under way uses are touched by nobody but batches. */
#include "unit/engine/rig.h"

#include "engine/state.h"

static bool uses(const struct engine_plan *plan, kv_page_id page)
{
    for (uint32_t i = 0; i < plan->run_count; i++) {
        uint32_t blocks = (plan->runs[i].position + 4) / 4;
        for (uint32_t j = 0; j < blocks; j++) {
            if (plan->runs[i].pages[0][j] == page) {
                return true;
            }
        }
    }
    return false;
}

static struct rig *create(enum sched_policy policy)
{
    struct engine_core_options options = rig_options();
    options.is_overlapped = true;
    options.policy = policy;
    options.max_seq = 64;
    options.page_counts[0] = 17;
    options.host_page_counts[0] = policy == SCHED_MAX_UTILIZATION ? 24 : 0;
    options.max_batch = 3;
    return rig_create(&options);
}

static void ask(struct rig *rig, uint64_t id, uint32_t prompt_count,
                uint32_t max_new)
{
    struct engine_request *request = rig_request(id, (int)id, prompt_count);
    request->max_new_tokens = max_new;
    rig_submit(rig, request);
}

/* A pool too small for two: who is put away in flight has pages that the batch
 * still writes. Their copies are not shown before that one's end, and with them
 * no transfer's order and no event; then they are. */
static void copies_wait_for_the_batch_that_writes(void **state)
{
    (void)state;
    struct rig *rig = create(SCHED_MAX_UTILIZATION);
    ask(rig, 1, 20, 30);
    ask(rig, 2, 22, 36);
    uint32_t kept_back = 0;
    for (int i = 0; i < 200; i++) {
        const struct engine_plan *plan =
            engine_core_plan(rig->core, rig->now_ns);
        uint32_t all = 0;
        uint32_t shown = 0;
        const struct kv_order *orders =
            kv_manager_orders(rig->core->cache, &all);
        engine_core_copies(rig->core, &shown);
        if (shown < all) {
            const struct engine_plan *before = rig->flights[rig->settled % 2];
            assert_int_equal(rig_flight_count(rig), 1);
            bool is_target = orders[shown].to_level == 0;
            assert_true(uses(before, is_target ? orders[shown].to_slot
                                               : orders[shown].from_slot));
            rig_settle(rig); /* copies what was shown, then what is now */
            kept_back++;
            engine_core_copies(rig->core, &shown);
            assert_int_equal(shown, 0);
        }
        rig_copy(rig);
        if (plan->run_count > 0 && engine_core_flight(rig->core) > 0) {
            if (engine_core_plan_state(rig->core) == ENGINE_PLAN_LOST) {
                engine_core_abort(rig->core);
            } else {
                rig_launch(rig, plan);
            }
        }
        while (rig_flight_count(rig) > (plan->run_count > 0)) {
            rig_settle(rig);
        }
        rig_drain(rig);
    }
    assert_true(kept_back > 0);
    assert_int_equal(rig_count(rig, 1, ENGINE_EVENT_FINISHED), 1);
    assert_int_equal(rig_count(rig, 2, ENGINE_EVENT_FINISHED), 1);
    rig_assert_idle(rig);
    rig_destroy(rig);
}

/* A client leaves while its batch is under way and a receive gets its pages: the
 * peer hears of them when the batch has ended. */
static void a_receive_waits_for_the_batch_that_had_its_pages(void **state)
{
    (void)state;
    struct rig *rig = create(SCHED_GUARANTEED_NO_EVICT);
    ask(rig, 1, 50, 10);
    const struct engine_plan *plan = rig_plan(rig);
    assert_true(rig_launch(rig, plan));
    rig_command(rig, ENGINE_CANCEL, 1, 0);
    struct engine_request *receive = rig_request(2, 2, 40);
    receive->kind = ENGINE_GENERATION_ONLY;
    rig_submit(rig, receive);
    assert_int_equal(rig_plan(rig)->run_count, 0);
    struct transfer_command order = {0};
    assert_false(rig_take_order(rig, &order));
    assert_int_equal(rig->core->order_count, 1);
    rig_settle(rig);
    assert_true(rig_take_order(rig, &order));
    assert_int_equal(order.kind, TRANSFER_RECEIVE);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_wait_for_the_batch_that_writes),
        cmocka_unit_test(a_receive_waits_for_the_batch_that_had_its_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
