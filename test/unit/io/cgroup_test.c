/* io/cgroup: limits read from folders like the system's. */
#include "unit/base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/cgroup.h"
#include "io/file.h"

static char root[256];

static void make_folders(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        IGNORE(mkdir(path, 0700));
        *at = '/';
    }
}

static void put(const char *name, const char *content)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s", root, name);
    make_folders(path);
    assert_int_equal(io_file_write(path, span_of_string(content), NULL), OK);
}

static int open_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s/baton-cgroup-XXXXXX", P_tmpdir);
    return mkdtemp(root) == NULL;
}

static int close_root(void **state)
{
    (void)state;
    char command[512];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

static void expect(uint64_t memory_bytes, uint32_t cpu_count)
{
    struct io_cgroup limits = io_cgroup_read(root);
    assert_true(limits.memory_bytes == memory_bytes);
    assert_int_equal(limits.cpu_count, cpu_count);
}

/* Without files, without values, and with "max". */
static void no_limit_is_none(void **state)
{
    (void)state;
    expect(UINT64_MAX, UINT32_MAX);
    put("/proc/self/cgroup", "0::/a\n\nodd\n1:x\n");
    expect(UINT64_MAX, UINT32_MAX);
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    expect(UINT64_MAX, UINT32_MAX);
}

/* The least of the groups on the way up, each kind by itself; parts of a CPU
 * are one. */
static void the_least_counts(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/pod/one\n");
    put("/sys/fs/cgroup/pod/one/memory.max", "9000000000\n");
    put("/sys/fs/cgroup/pod/one/cpu.max", "150000 100000\n");
    expect(9000000000u, 2);
    put("/sys/fs/cgroup/pod/memory.max", "8000000000\n");
    put("/sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
    expect(8000000000u, 2);
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/other/memory.max", "1\n");
    expect(8000000000u, 1);
}

/* A container's mount is its own group, whatever the path says. */
static void a_path_of_the_host_is_no_hindrance(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/../../not/here\n");
    put("/sys/fs/cgroup/memory.max", "7000000000\n");
    expect(7000000000u, UINT32_MAX);
}

/* Version 1: a mount for each list of controllers; -1 and nearly 2^63 are
 * none. */
static void the_first_version_is_read(void **state)
{
    (void)state;
    put("/proc/self/cgroup",
        "5:cpuset:/x\n4:memory:/x\n3:cpu,cpuacct:/x\n0::/\n");
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes",
        "9223372036854771712\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    expect(UINT64_MAX, UINT32_MAX);
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "6000000000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n");
    put("/sys/fs/cgroup/cpuset/x/memory.limit_in_bytes", "1\n");
    expect(6000000000u, 3);
}

/* This process's own: whatever it is, it can be read. */
static void the_system_is_read(void **state)
{
    (void)state;
    struct io_cgroup limits = io_cgroup_read("");
    assert_true(limits.memory_bytes > 1 << 20);
    assert_true(limits.cpu_count > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_root, close_root)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_limit_is_none),
        TEST(the_least_counts),
        TEST(a_path_of_the_host_is_no_hindrance),
        TEST(the_first_version_is_read),
        cmocka_unit_test(the_system_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
