/* Properties of the whole engine over many worlds (engine.md 7.3). How many: the
 * first argument, else few. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "unit/base/test.h"

#include "base/log.h"
#include "base/mem.h"
#include "engine/state.h"
#include "sim/engine.h"

static uint64_t seed_count = 12;

/* ---- states ---- */

enum { ID_MAX = 400, STATE_COUNT = ITEM_DRAINING + 1 };

/* What a request was at the last step, by its id. */
struct watch {
    uint8_t states[ID_MAX];
    uint64_t seed;
    uint32_t seen[STATE_COUNT][STATE_COUNT];
};

#define BIT(state) (1u << (state))

/* engine.md 5.1, as far as we have it; ITEM_FREE: not here, or gone. Several
 * steps of one turn may lie between two looks. */
static const uint32_t MAY_BECOME[STATE_COUNT] = {
    [ITEM_FREE] = BIT(ITEM_WAITING) | BIT(ITEM_CONTEXT_WAIT),
    /* Who is awaited may start in the same turn. */
    [ITEM_CONTEXT_WAIT] = BIT(ITEM_FREE) | BIT(ITEM_WAITING) |
                          BIT(ITEM_PREFILL) | BIT(ITEM_DRAINING),
    /* A prompt that is started and ends in one turn is seen in its plan. */
    [ITEM_WAITING] = BIT(ITEM_FREE) | BIT(ITEM_PREFILL) | BIT(ITEM_RECEIVING) |
                     BIT(ITEM_DRAINING),
    [ITEM_RECEIVING] = BIT(ITEM_RECEIVED) | BIT(ITEM_DRAINING) |
                       BIT(ITEM_DECODE) | BIT(ITEM_FREE),
    [ITEM_RECEIVED] = BIT(ITEM_DECODE) | BIT(ITEM_DRAINING) | BIT(ITEM_FREE),
    /* RECEIVING: it has its pages, and the ranks were asked first. */
    [ITEM_PREFILL] = BIT(ITEM_WAITING) | BIT(ITEM_DECODE) | BIT(ITEM_SENDING) |
                     BIT(ITEM_RECEIVING) | BIT(ITEM_DRAINING) | BIT(ITEM_FREE),
    [ITEM_DECODE] = BIT(ITEM_FREE),
    [ITEM_SENDING] = BIT(ITEM_DRAINING) | BIT(ITEM_FREE),
    [ITEM_DRAINING] = BIT(ITEM_FREE),
};

static uint8_t state_of(const struct engine_core *core, uint64_t id)
{
    for (const struct item *item = core->oldest; item != NULL;
         item = item->younger) {
        if (item->id == id) {
            return (uint8_t)item->state;
        }
    }
    return ITEM_FREE;
}

static void watch_states(void *context, const struct engine_core *core)
{
    struct watch *watch = context;
    for (uint64_t id = 1; id < ID_MAX; id++) {
        uint8_t before = watch->states[id];
        uint8_t now = state_of(core, id);
        if (before != now && !(MAY_BECOME[before] & BIT(now))) {
            fail_msg("seed %" PRIu64 ": request %" PRIu64 " goes from state %u "
                     "to %u",
                     watch->seed, id, before, now);
        }
        watch->seen[before][now] += before != now;
        watch->states[id] = now;
    }
}

/* Whatever happens in whatever order: a request only goes where the table of
 * states lets it, and the worlds together go most ways. [engine F6] */
static void requests_go_from_state_to_state_as_the_table_says(void **state)
{
    (void)state;
    struct watch *watch = mem_new(sizeof(*watch));
    for (uint64_t seed = 1001; seed <= 1000 + 6 * seed_count; seed++) {
        struct sim_engine_options options = {
            .seed = seed, .on_step = watch_states, .context = watch};
        struct sim_engine_summary summary;
        watch->seed = seed;
        memset(watch->states, ITEM_FREE, sizeof(watch->states));
        if (!sim_engine_run(&options, &summary)) {
            fail_msg("seed %" PRIu64 ": %s", seed, summary.failure);
        }
    }
    assert_true(watch->seen[ITEM_WAITING][ITEM_PREFILL] > 0);
    assert_true(watch->seen[ITEM_WAITING][ITEM_RECEIVING] > 0);
    assert_true(watch->seen[ITEM_PREFILL][ITEM_DECODE] > 0);
    assert_true(watch->seen[ITEM_PREFILL][ITEM_SENDING] > 0);
    assert_true(watch->seen[ITEM_CONTEXT_WAIT][ITEM_PREFILL] > 0);
    assert_true(watch->seen[ITEM_CONTEXT_WAIT][ITEM_DRAINING] > 0);
    assert_true(watch->seen[ITEM_PREFILL][ITEM_DRAINING] > 0);
    assert_true(watch->seen[ITEM_RECEIVING][ITEM_DRAINING] > 0);
    assert_true(watch->seen[ITEM_SENDING][ITEM_DRAINING] > 0);
    assert_true(watch->seen[ITEM_DECODE][ITEM_FREE] > 0);
    mem_free(watch);
}

/* ---- waits ---- */

static struct sim_engine_summary run_calm(uint64_t seed, bool without_waits)
{
    struct sim_engine_options options = {
        .seed = seed, .without_faults = true, .without_waits = without_waits};
    struct sim_engine_summary summary;
    if (!sim_engine_run(&options, &summary)) {
        fail_msg("seed %" PRIu64 ": %s", seed, summary.failure);
    }
    return summary;
}

/* The same worlds with and without the planner, room for all: those that wait
 * compute no more than those that do not, but for a hundredth: what is cached when
 * somebody comes differs too. Nobody waits beyond the bound; all end.
 * [engine F4] */
static void waiting_for_a_prefix_saves_work(void **state)
{
    (void)state;
    uint64_t with = 0;
    uint64_t without = 0;
    uint64_t waits = 0;
    for (uint64_t seed = 2001; seed <= 2000 + 2 * seed_count; seed++) {
        struct sim_engine_summary one = run_calm(seed, false);
        struct sim_engine_summary other = run_calm(seed, true);
        assert_int_equal(other.waits, 0);
        assert_true(one.waits_max <= 128);
        /* A hand-off that is late is not followed: a request more or less. */
        with += one.prefill_tokens * other.requests;
        without += other.prefill_tokens * one.requests;
        waits += one.waits;
    }
    assert_true(waits > 0);
    assert_true(with <= without + without / 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_from_state_to_state_as_the_table_says),
        cmocka_unit_test(waiting_for_a_prefix_saves_work),
    };
    if (argc > 1) {
        seed_count = strtoull(argv[1], NULL, 10);
    }
    log_setup(&(struct log_options){.level = LOG_ERROR});
    return cmocka_run_group_tests(tests, NULL, NULL);
}
