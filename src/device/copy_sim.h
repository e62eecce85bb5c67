#pragma once
/* device/copy_sim: the body of device/copy.h for tests and simulation: no
 * threads, hostile within the contract, the same from the same chance
 * (engine.md 7.3, F2 and F3).
 *
 * - Each step ends one submission drawn from all that may run, however young.
 * - Bytes move when a submission ends and are read then: a source that is
 *   written too early shows in the copy.
 * - With `poison`, targets are garbage from the moment a submission may begin:
 *   a reader that does not wait for its end sees it at once.
 * - A failed submission has moved some of its copies, or none.
 * - Two copies of one submission that touch the same bytes are a broken
 *   promise. */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "device/copy.h"

struct io_waker;

enum { DEVICE_COPIER_SIM_POISON = 0xa5 };

struct device_copier_sim_options {
    struct device_copier_limits limits;
    struct rng rng; /* a child of the simulation's own */
    uint32_t fail_per_1024; /* submissions with bytes end with ERR_IO */
    bool poison;
    struct io_waker *waker; /* as in device/copy_host.h */
};
MUST_USE enum err device_copier_sim_create(
    const struct device_copier_sim_options *options,
    struct device_copier **copier_out);

/* Ends one submission that may run. False: there is none, so none waits. */
bool device_copier_sim_step(struct device_copier *copier);
