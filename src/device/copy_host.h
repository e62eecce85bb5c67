#pragma once
/* device/copy_host: the body of device/copy.h between memories that this
 * process loads and stores. Worker threads take the pieces that
 * device/copy_split.h cuts, from the submission that was ready first; without
 * work they sleep. */
#include <stdint.h>

#include "device/copy.h"

struct io_waker;

struct device_copier_host_options {
    struct device_copier_limits limits;
    uint32_t thread_count; /* at least 1 */
    /* Woken when poll has something to say again; outlives the copier. May be
     * NULL. */
    struct io_waker *waker;
};
/* ERR_NO_MEMORY, ERR_IO: a thread or descriptor is refused. */
MUST_USE enum err device_copier_host_create(
    const struct device_copier_host_options *options,
    struct device_copier **copier_out);
