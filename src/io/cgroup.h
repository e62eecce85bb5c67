#pragma once
/* io/cgroup: what a container or a service may use of its host: memory, and CPU
 * time as a number of CPUs. Both versions of control groups; a limit of a group
 * holds for the groups in it too, so the least on the way to the top counts.
 * Any thread. */
#include <stdint.h>

struct io_cgroup {
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    uint32_t cpu_count; /* rounded up; UINT32_MAX: no limit */
};
/* Of this process. What cannot be read is no limit. `root` stands before every
 * path, "" but in tests. */
struct io_cgroup io_cgroup_read(const char *root);
