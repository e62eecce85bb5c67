/* transfer/segment: a pool is found by its number and known by its seal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cmocka.h>

#include "transfer/segment.h"

enum { POOL = 5000 };

static uint8_t *attach(int *id_out)
{
    *id_out = shmget(IPC_PRIVATE, segment_size(POOL), IPC_CREAT | 0600);
    assert_true(*id_out >= 0);
    uint8_t *pool = shmat(*id_out, NULL, 0);
    assert_int_equal(shmctl(*id_out, IPC_RMID, NULL), 0);
    return pool;
}

/* The number read off the mapping is the segment's own; heap and stack have
 * none. */
static void number_is_read_off_the_mapping(void **state)
{
    (void)state;
    int id;
    uint8_t *pool = attach(&id);
    int32_t found;
    assert_int_equal(segment_find(pool, NULL, &found), OK);
    assert_int_equal(found, id);
    uint8_t other[8];
    assert_int_equal(segment_find(other, NULL, &found), ERR_UNSUPPORTED);
    shmdt(pool);
}

/* Held with the right seal only: not before it is written, not with another
 * incarnation, not as a larger pool than it is, not under another number. */
static void only_the_sealed_pool_is_held(void **state)
{
    (void)state;
    int id;
    uint8_t *pool = attach(&id);
    struct segment_seal seal = segment_seal_of(7, POOL);
    assert_null(segment_hold(id, &seal));
    segment_write_seal(pool, &seal);
    struct segment_seal other = segment_seal_of(8, POOL);
    assert_null(segment_hold(id, &other));
    other = segment_seal_of(7, SEGMENT_POOL_SIZE_MAX);
    assert_null(segment_hold(id, &other));
    assert_null(segment_hold(-1, &seal));
    uint8_t *held = segment_hold(id, &seal);
    assert_non_null(held);
    pool[0] = 42;
    shmdt(pool);
    /* The owner is gone; what is held is still there. */
    assert_int_equal(held[0], 42);
    segment_release(held);
    assert_null(segment_hold(id, &seal));
    segment_release(NULL);
}

/* Steps end at the pool's size and leave every byte as it was. */
static void populating_keeps_the_bytes(void **state)
{
    (void)state;
    int id;
    uint8_t *pool = attach(&id);
    memset(pool, 9, POOL);
    size_t done = 0;
    for (int i = 0; i < 10 && done < POOL; i++) {
        done = segment_populate(pool, POOL, done);
    }
    assert_int_equal(done, POOL);
    for (size_t i = 0; i < POOL; i++) {
        assert_int_equal(pool[i], 9);
    }
    shmdt(pool);
}

/* Dropped by steps, every byte is still there for who looks again. */
static void dropping_keeps_the_bytes(void **state)
{
    (void)state;
    enum { LARGE = 9 << 20 };
    int id = shmget(IPC_PRIVATE, LARGE, IPC_CREAT | 0600);
    uint8_t *pool = shmat(id, NULL, 0);
    assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);
    memset(pool, 9, LARGE);
    size_t done = 0, steps = 0;
    while (done < LARGE) {
        done = segment_drop(pool, LARGE, done);
        steps++;
    }
    assert_int_equal(done, LARGE);
    assert_true(steps > 1);
    for (size_t i = 0; i < LARGE; i++) {
        assert_int_equal(pool[i], 9);
    }
    shmdt(pool);
}

static unsigned long attached(int id)
{
    struct shmid_ds about;
    assert_int_equal(shmctl(id, IPC_STAT, &about), 0);
    return about.shm_nattch;
}

/* Let go by another thread, in a while. */
static void a_hold_ends_aside(void **state)
{
    (void)state;
    int id;
    uint8_t *pool = attach(&id);
    struct segment_seal seal = segment_seal_of(7, POOL);
    segment_write_seal(pool, &seal);
    void *held = segment_hold(id, &seal);
    assert_int_equal(attached(id), 2);
    segment_release_aside(held);
    segment_release_aside(NULL);
    for (int i = 0; i < 10000 && attached(id) > 1; i++) {
        usleep(1000);
    }
    assert_int_equal(attached(id), 1);
    shmdt(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_is_read_off_the_mapping),
        cmocka_unit_test(only_the_sealed_pool_is_held),
        cmocka_unit_test(populating_keeps_the_bytes),
        cmocka_unit_test(dropping_keeps_the_bytes),
        cmocka_unit_test(a_hold_ends_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
