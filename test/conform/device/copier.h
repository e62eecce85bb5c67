#pragma once
/* A copier of either body for the tests of this folder, and how its owner
 * passes the time: a step of the simulation, a sleep until woken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "device/copy_host.h"
#include "device/copy_sim.h"
#include "io/mailbox.h"

enum copier_body { HOST_ONE, HOST_FOUR, SIM, SIM_POISON, BODY_COUNT };

struct setup {
    enum copier_body body;
    struct device_copier_limits limits;
    uint64_t seed;
    uint32_t fail_per_1024; /* sim only */
};

struct rig {
    enum copier_body body;
    struct io_waker *waker;
    struct device_copier *copier;
};

static inline struct rig rig_open(const struct setup *setup)
{
    struct rig rig = {.body = setup->body};
    assert_int_equal(io_waker_create(&rig.waker), OK);
    if (setup->body == HOST_ONE || setup->body == HOST_FOUR) {
        struct device_copier_host_options options = {
            .limits = setup->limits,
            .thread_count = setup->body == HOST_ONE ? 1 : 4,
            .waker = rig.waker,
        };
        assert_int_equal(device_copier_host_create(&options, &rig.copier), OK);
    } else {
        struct device_copier_sim_options options = {
            .limits = setup->limits,
            .rng = rng_from_seed(setup->seed),
            .fail_per_1024 = setup->fail_per_1024,
            .poison = setup->body == SIM_POISON,
            .waker = rig.waker,
        };
        assert_int_equal(device_copier_sim_create(&options, &rig.copier), OK);
    }
    return rig;
}

static inline void rig_close(struct rig *rig)
{
    device_copier_destroy(rig->copier);
    io_waker_destroy(rig->waker);
}

static inline bool rig_is_sim(const struct rig *rig)
{
    return rig->body == SIM || rig->body == SIM_POISON;
}

/* A wake that never comes ends the wait after ten seconds and the test with
 * it. */
static inline void rig_pass(struct rig *rig)
{
    if (rig_is_sim(rig)) {
        device_copier_sim_step(rig->copier);
    }
    io_waker_wait(rig->waker, UINT64_C(10000000000));
}

/* Polls, sleeping when there is nothing, until one has ended. Wakes of what was
 * taken before its wake came may stand in between. */
static inline struct device_copy_done rig_await(struct rig *rig)
{
    struct device_copy_done done;
    for (int i = 0; i < 64; i++) {
        if (device_copier_poll(rig->copier, &done)) {
            return done;
        }
        rig_pass(rig);
    }
    fail_msg("woken many times, and nothing had ended");
    return (struct device_copy_done){0};
}

static inline struct device_copy copy_between(const void *to, const void *from,
                                              size_t bytes)
{
    return (struct device_copy){device_address_host(to),
                                device_address_host(from), bytes};
}

static inline device_ticket rig_submit(struct rig *rig,
                                       const struct device_copy *copies,
                                       uint32_t copy_count,
                                       const device_ticket *waits,
                                       uint32_t wait_count)
{
    struct device_copy_order order = {copies, copy_count, waits, wait_count};
    device_ticket ticket = 0;
    assert_int_equal(device_copier_submit(rig->copier, &order, &ticket), OK);
    assert_int_not_equal(ticket, 0);
    return ticket;
}

/* No two words of a fill are equal, nor those of two seeds at one place. */
static inline void fill(void *data, size_t size, uint64_t seed)
{
    uint64_t *words = data;
    uint64_t value = seed * UINT64_C(0xd1342543de82ef95);
    for (size_t i = 0; i < size / sizeof(*words); i++) {
        words[i] = value += UINT64_C(0x9e3779b97f4a7c15);
    }
}

static inline uint8_t *take_bytes(size_t size)
{
    uint8_t *bytes = mem_try_aligned(64, size);
    assert_non_null(bytes);
    return bytes;
}

/* One test function a body. */
#define EACH_BODY(name)                         \
    static void name##_host_one(void **state)   \
    {                                           \
        (void)state;                            \
        name(HOST_ONE);                         \
    }                                           \
    static void name##_host_four(void **state)  \
    {                                           \
        (void)state;                            \
        name(HOST_FOUR);                        \
    }                                           \
    static void name##_sim(void **state)        \
    {                                           \
        (void)state;                            \
        name(SIM);                              \
    }                                           \
    static void name##_sim_poison(void **state) \
    {                                           \
        (void)state;                            \
        name(SIM_POISON);                       \
    }
#define EACH_BODY_TEST(name)                                               \
    cmocka_unit_test(name##_host_one), cmocka_unit_test(name##_host_four), \
        cmocka_unit_test(name##_sim), cmocka_unit_test(name##_sim_poison)
