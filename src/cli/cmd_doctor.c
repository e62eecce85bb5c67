/* Looks at this host as Baton will use it: each line says what was found and,
 * where it is not enough, what to do. Exit code 1 when something must change. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "io/file.h"
#include "io/thread.h"
#include "node/limits.h"
#include "transfer/backend_ucx.h"
#include "transfer/rdma_devices.h"

enum { OPEN_FILES_WANTED = 4096 };
/* Of queues between workers, for some; the KV pools lie elsewhere. */
static const uint64_t SHM_WANTED = (uint64_t)64 << 20;
static const uint64_t PROBE_BYTES = (uint64_t)4 << 20;

enum health { HEALTH_GOOD, HEALTH_POOR, HEALTH_BAD };

static enum health worst = HEALTH_GOOD;

static void report(enum health health, const char *what, const char *found,
                   const char *advice)
{
    static const char *const MARKS[] = {"ok  ", "warn", "FAIL"};
    printf("%s  %-16s %s\n", MARKS[health], what, found);
    if (health != HEALTH_GOOD) {
        printf("      %-16s -> %s\n", "", advice);
    }
    worst = health > worst ? health : worst;
}

static void check_cpu(void)
{
    __builtin_cpu_init();
    bool has_fast =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_wide = __builtin_cpu_supports("avx512vnni");
    char found[128];
    snprintf(found, sizeof(found), "%u CPUs, %s", io_thread_cpu_count(),
             has_wide   ? "AVX2, FMA, AVX-512 with VNNI"
             : has_fast ? "AVX2, FMA"
                        : "neither AVX2 nor FMA");
    report(has_fast ? HEALTH_GOOD : HEALTH_POOR, "processor", found,
           "the plain kernels will run, many times slower; use a CPU of 2015 "
           "or newer");
}

static void check_memory(void)
{
    char found[64];
    uint64_t bytes = node_host_memory();
    snprintf(found, sizeof(found), "%.1f GiB", (double)bytes / 1073741824.0);
    report(bytes >= ((uint64_t)1 << 30) ? HEALTH_GOOD : HEALTH_POOR, "memory",
           found, "give the host 1 GiB or more");
}

static void check_shared_memory(void)
{
    struct statvfs stat;
    char found[96];
    if (statvfs("/dev/shm", &stat) != 0) {
        report(HEALTH_POOR, "/dev/shm", "not mounted",
               "mount a tmpfs there: mount -t tmpfs -o size=1g tmpfs /dev/shm");
        return;
    }
    uint64_t size = (uint64_t)stat.f_blocks * stat.f_frsize;
    uint64_t unused = (uint64_t)stat.f_bavail * stat.f_frsize;
    snprintf(found, sizeof(found), "%.0f MiB, %.0f free",
             (double)size / 1048576.0, (double)unused / 1048576.0);
    report(unused >= SHM_WANTED ? HEALTH_GOOD : HEALTH_POOR, "/dev/shm", found,
           "each worker keeps some 9 MiB of queues there, or its KV moves by "
           "TCP: in a container --shm-size=256m, else mount -o "
           "remount,size=256m /dev/shm");
}

static void check_number_file(const char *what, const char *path,
                              uint64_t wanted, const char *advice)
{
    struct buf text;
    buf_init(&text, 256);
    uint64_t value = 0;
    if (io_file_read(path, NULL, &text) == OK) {
        for (size_t i = 0; i < text.size && text.data[i] >= '0' &&
                           text.data[i] <= '9' && value < UINT64_MAX / 100;
             i++) {
            value = value * 10 + (uint64_t)(text.data[i] - '0');
        }
        char found[64];
        snprintf(found, sizeof(found), "%.0f MiB at most",
                 (double)value / 1048576.0);
        report(value >= wanted ? HEALTH_GOOD : HEALTH_POOR, what, found,
               advice);
    }
    buf_finish(&text);
}

static void check_open_files(void)
{
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    char found[64];
    snprintf(found, sizeof(found), "%llu (hard limit %llu)",
             (unsigned long long)limit.rlim_cur,
             (unsigned long long)limit.rlim_max);
    report(limit.rlim_cur >= OPEN_FILES_WANTED ? HEALTH_GOOD : HEALTH_POOR,
           "open files", found,
           "each request needs three at the front end: ulimit -n 20000");
}

/* The shared-memory lane maps a peer's memory; the kernel's ptrace rules and a
 * container's may forbid parts of it. */
static void check_ptrace(void)
{
    struct buf text;
    buf_init(&text, 16);
    char scope = '0';
    if (io_file_read("/proc/sys/kernel/yama/ptrace_scope", NULL, &text) == OK &&
        text.size > 0) {
        scope = (char)text.data[0];
    }
    buf_finish(&text);
    char found[64];
    snprintf(found, sizeof(found), "scope %c", scope);
    report(scope < '2' ? HEALTH_GOOD : HEALTH_POOR, "ptrace", found,
           "workers of different users may not map each other's memory: run "
           "them as one user, or sysctl kernel.yama.ptrace_scope=1");
}

/* Does not guess: takes a pool as a worker would and describes it. */
static void check_lane(void)
{
    struct why why = {{0}};
    struct transfer_backend *backend = NULL;
    void *memory = NULL;
    struct transfer_backend_ucx_options options = {rng_system()};
    enum err code = transfer_backend_ucx_create(&options, &why, &backend);
    if (code == OK) {
        code = transfer_backend_alloc(backend, PROBE_BYTES, &why, &memory);
    }
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    if (code == OK) {
        code =
            transfer_backend_export(backend, memory, PROBE_BYTES, &why, &blob);
    }
    struct transfer_backend_peer *peer = NULL;
    if (code == OK) {
        code = transfer_backend_peer_open(backend, buf_span(&blob), PROBE_BYTES,
                                          &why, &peer);
    }
    if (code == OK) {
        report(HEALTH_GOOD, "KV lane", "UCX shared memory works", "");
        transfer_backend_peer_close(peer);
    } else {
        report(HEALTH_POOR, "KV lane", why.text,
               "KV moves by TCP, slower: for shared memory allow System V or "
               "POSIX shared memory (a container may need --ipc=host)");
    }
    buf_finish(&blob);
    if (memory != NULL) {
        transfer_backend_free(backend, memory);
    }
    transfer_backend_destroy(backend);
}

/* None is no fault: most hosts have none. */
static void check_adapters(void)
{
    struct buf names;
    buf_init(&names, 4096);
    size_t count = rdma_devices_find(&names);
    if (count == 0) {
        buf_add_string(&names, "none: KV between hosts moves by TCP, and "
                               "--backend rdma ends at start");
    }
    report(HEALTH_GOOD, "RDMA devices", buf_string(&names), "");
    buf_finish(&names);
}

static const struct cli_option OPTIONS[] = {{0}};

const struct cli_syntax cli_doctor_syntax = {
    .command = "baton doctor",
    .arguments = "",
    .about = "Checks this host and says what to do. Ends with 1 when "
             "something must change before Baton can work.",
    .options = OPTIONS,
};

int cli_doctor(int argc, char **argv)
{
    cli_parse(&cli_doctor_syntax, argc, argv, NULL);
    check_cpu();
    check_memory();
    check_shared_memory();
    check_number_file("SysV segment", "/proc/sys/kernel/shmmax",
                      (uint64_t)64 << 20,
                      "sysctl kernel.shmmax=1073741824 or more");
    check_open_files();
    check_ptrace();
    check_lane();
    check_adapters();
    return worst == HEALTH_BAD ? CLI_FAILED : CLI_OK;
}
