#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/thread.h"

/* Longer than a hand-over between two running threads, far shorter than a time
 * slice: on a machine with more threads than cores spinning only steals. */
enum { SPIN_NS = 20000, PAUSES_A_LOOK = 32, TEAM_COUNT_MAX = 1024 };

/* A gate counts rounds; who waits for the next round spins a little and then
 * sleeps. Closing the gap: a sleeper announces itself before the kernel
 * compares the round, an opener changes the round before it looks for
 * sleepers, both sequentially consistent. */
struct gate {
    _Alignas(64) _Atomic uint32_t round;
    _Atomic uint32_t sleeper_count;
};

struct member {
    struct io_team *team;
    struct io_thread *thread;
    uint32_t index;
};

struct io_team {
    struct gate start;
    struct gate done;
    struct gate barrier;
    _Alignas(64) _Atomic uint32_t unfinished_count;
    _Alignas(64) _Atomic uint32_t arrived_count;
    _Alignas(64) uint32_t count;
    uint64_t spin_ns;
    bool is_ending;
    void (*work)(void *context, uint32_t index);
    void *context;
    struct member *members; /* count; 0 is the caller and has no thread */
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void gate_open(struct gate *gate)
{
    atomic_fetch_add(&gate->round, 1);
    if (atomic_load(&gate->sleeper_count) > 0) {
        syscall(SYS_futex, &gate->round, FUTEX_WAKE_PRIVATE, INT_MAX, NULL,
                NULL, 0);
    }
}

static bool gate_spin(struct gate *gate, uint32_t old, uint64_t spin_ns)
{
    if (spin_ns == 0) {
        return atomic_load(&gate->round) != old;
    }
    uint64_t end = io_clock_now_ns() + spin_ns;
    do {
        for (int i = 0; i < PAUSES_A_LOOK; i++) {
            if (atomic_load(&gate->round) != old) {
                return true;
            }
            relax();
        }
    } while (io_clock_now_ns() < end);
    return false;
}

static void gate_wait(struct gate *gate, uint32_t old, uint64_t spin_ns)
{
    if (gate_spin(gate, old, spin_ns)) {
        return;
    }
    atomic_fetch_add(&gate->sleeper_count, 1);
    while (atomic_load(&gate->round) == old) {
        syscall(SYS_futex, &gate->round, FUTEX_WAIT_PRIVATE, old, NULL, NULL,
                0);
    }
    atomic_fetch_sub(&gate->sleeper_count, 1);
}

static void member_run(void *context)
{
    struct member *member = context;
    struct io_team *team = member->team;
    for (uint32_t round = 0;; round++) {
        gate_wait(&team->start, round, team->spin_ns);
        if (team->is_ending) {
            return;
        }
        team->work(team->context, member->index);
        if (atomic_fetch_sub(&team->unfinished_count, 1) == 1) {
            gate_open(&team->done);
        }
    }
}

static enum err start_members(struct io_team *team)
{
    for (uint32_t i = 1; i < team->count; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){.team = team, .index = i};
        char name[24];
        snprintf(name, sizeof(name), "compute-%u", i);
        enum err e = io_thread_start(name, member_run, member, &member->thread);
        if (e != OK) {
            member->thread = NULL;
            return e;
        }
    }
    return OK;
}

enum err io_team_create(uint32_t count, struct io_team **team_out)
{
    if (count == 0 || count > TEAM_COUNT_MAX) {
        return ERR_INVALID;
    }
    struct io_team *team =
        mem_try_aligned(_Alignof(struct io_team), sizeof(*team));
    if (team == NULL) {
        return ERR_NO_MEMORY;
    }
    team->count = count;
    team->spin_ns = count <= io_thread_cpu_count() ? SPIN_NS : 0;
    team->members = mem_new_array(count, sizeof(*team->members));
    enum err e = start_members(team);
    if (e != OK) {
        io_team_destroy(team);
        return e;
    }
    *team_out = team;
    return OK;
}

void io_team_destroy(struct io_team *team)
{
    if (team == NULL) {
        return;
    }
    team->is_ending = true;
    gate_open(&team->start);
    for (uint32_t i = 1; i < team->count; i++) {
        io_thread_join(team->members[i].thread);
    }
    mem_free(team->members);
    mem_free(team);
}

uint32_t io_team_size(const struct io_team *team)
{
    return team->count;
}

void io_team_run(struct io_team *team,
                 void (*work)(void *context, uint32_t index), void *context)
{
    if (team->count == 1) {
        work(context, 0);
        return;
    }
    CHECK(atomic_load(&team->unfinished_count) == 0);
    team->work = work;
    team->context = context;
    atomic_store(&team->unfinished_count, team->count - 1);
    uint32_t done = atomic_load(&team->done.round);
    gate_open(&team->start);
    work(context, 0);
    gate_wait(&team->done, done, team->spin_ns);
}

void io_team_barrier(struct io_team *team)
{
    uint32_t round = atomic_load(&team->barrier.round);
    if (atomic_fetch_add(&team->arrived_count, 1) + 1 < team->count) {
        gate_wait(&team->barrier, round, team->spin_ns);
        return;
    }
    atomic_store(&team->arrived_count, 0);
    gate_open(&team->barrier);
}
