#include <pthread.h>

#include "unit/io/test.h"

#include "io/thread.h"

enum { MEMBERS = 4, ROUNDS = 2000 };

struct job {
    struct io_team *team;
    int runs[MEMBERS]; /* a cell a member: plain memory on purpose */
    int phase[MEMBERS];
    int mismatch_count[MEMBERS];
    pthread_t caller;
    int caller_index;
};

static void count_run(void *context, uint32_t index)
{
    struct job *job = context;
    job->runs[index]++;
    if (pthread_equal(job->caller, pthread_self())) {
        job->caller_index += (int)index;
    }
}

/* Each index once a run, index 0 on the caller, and the caller sees what the
 * members wrote. */
static void run_reaches_each_index_once(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MEMBERS; size++) {
        struct job job = {.caller = pthread_self()};
        assert_int_equal(io_team_create(size, &job.team), OK);
        assert_int_equal(io_team_size(job.team), size);
        for (int round = 1; round <= ROUNDS / 4; round++) {
            io_team_run(job.team, count_run, &job);
            for (uint32_t i = 0; i < size; i++) {
                assert_int_equal(job.runs[i], round);
            }
        }
        assert_int_equal(job.caller_index, 0);
        io_team_destroy(job.team);
    }
}

static void step_together(void *context, uint32_t index)
{
    struct job *job = context;
    for (int step = 1; step <= ROUNDS; step++) {
        job->phase[index] = step;
        io_team_barrier(job->team);
        for (int i = 0; i < MEMBERS; i++) {
            job->mismatch_count[index] += job->phase[i] != step;
        }
        io_team_barrier(job->team);
    }
}

/* Behind a barrier everybody sees the same step of everybody. */
static void barrier_holds_all_until_the_last(void **state)
{
    (void)state;
    struct job job = {0};
    assert_int_equal(io_team_create(MEMBERS, &job.team), OK);
    io_team_run(job.team, step_together, &job);
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(job.mismatch_count[i], 0);
    }
    io_team_destroy(job.team);
}

/* No members, or absurdly many, is an answer. */
static void size_is_checked(void **state)
{
    (void)state;
    struct io_team *team;
    assert_int_equal(io_team_create(0, &team), ERR_INVALID);
    assert_int_equal(io_team_create(1u << 20, &team), ERR_INVALID);
    io_team_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_reaches_each_index_once),
        cmocka_unit_test(barrier_holds_all_until_the_last),
        cmocka_unit_test(size_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
