#include "transfer/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/loop.h"

enum { INSTANCE_COUNT_MAX = 256, START_FIELD = 22 };

struct transfer_process {
    uint64_t incarnation;
    int pidfd; /* -1: none */
    struct io_watch *watch;
    bool is_local, is_gone;
};

static _Atomic uint64_t instances[INSTANCE_COUNT_MAX];

enum err transfer_instance_begin(uint64_t incarnation)
{
    for (int i = 0; i < INSTANCE_COUNT_MAX; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&instances[i], &none, incarnation)) {
            return OK;
        }
    }
    return ERR_FULL;
}

void transfer_instance_end(uint64_t incarnation)
{
    for (int i = 0; i < INSTANCE_COUNT_MAX; i++) {
        uint64_t that = incarnation;
        if (atomic_compare_exchange_strong(&instances[i], &that, 0)) {
            return;
        }
    }
}

static bool is_instance_alive(uint64_t incarnation)
{
    for (int i = 0; i < INSTANCE_COUNT_MAX; i++) {
        if (atomic_load(&instances[i]) == incarnation) {
            return true;
        }
    }
    return false;
}

/* Field 22 of /proc/<pid>/stat; the name before it may hold anything, so it is
 * counted from the last parenthesis. */
static enum err read_start(uint64_t pid, uint64_t *started_out)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
    struct buf text;
    buf_init(&text, 4096);
    enum err err = io_file_read(path, NULL, &text);
    const char *at = err ? NULL : strrchr(buf_string(&text), ')');
    for (int field = 2; at != NULL && field < START_FIELD; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL) {
        *started_out = strtoull(at + 1, NULL, 10);
    }
    buf_finish(&text);
    return at != NULL ? OK : ERR_NOT_FOUND;
}

static enum err read_namespace(const char *name, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
    ssize_t got = readlink(path, out, size - 1);
    out[got > 0 ? got : 0] = 0;
    return got > 0 ? OK : ERR_IO;
}

enum err transfer_identity_read(struct why *why,
                                struct transfer_identity *identity_out)
{
    struct buf boot;
    buf_init(&boot, 256);
    char pids[24], segments[24];
    struct transfer_identity identity = {.pid = (uint64_t)getpid()};
    enum err err = io_file_read("/proc/sys/kernel/random/boot_id", why, &boot);
    if (!err && (read_namespace("pid", pids, sizeof(pids)) ||
                 read_namespace("ipc", segments, sizeof(segments)) ||
                 read_start(identity.pid, &identity.started))) {
        err = why_say(why, ERR_IO, "/proc/self cannot be read");
    }
    if (!err) {
        snprintf(identity.host, sizeof(identity.host), "%.36s %s %s",
                 buf_string(&boot), pids, segments);
        *identity_out = identity;
    }
    buf_finish(&boot);
    return err;
}

static int open_pidfd(uint64_t pid)
{
    return pid <= INT32_MAX ? (int)syscall(SYS_pidfd_open, (int)pid, 0) : -1;
}

/* The whole process is gone, not only its first thread. */
static void on_exit_seen(void *context, int ready)
{
    (void)ready;
    struct transfer_process *process = context;
    process->is_gone = true;
    io_watch_set(process->watch, 0);
}

static void watch_process(struct transfer_process *process,
                          struct io_loop *loop,
                          const struct transfer_identity *theirs)
{
    process->pidfd = open_pidfd(theirs->pid);
    uint64_t started;
    enum err err = read_start(theirs->pid, &started);
    /* Another process, or none, has that pid now: ours is gone. */
    process->is_gone =
        err == ERR_NOT_FOUND || (!err && started != theirs->started);
    if (process->pidfd >= 0 && !process->is_gone) {
        process->watch =
            io_watch_create(loop, process->pidfd, on_exit_seen, process);
        io_watch_set(process->watch, IO_READABLE);
    }
}

struct transfer_process *transfer_process_open(
    struct io_loop *loop, const struct transfer_identity *ours,
    const struct transfer_identity *theirs, uint64_t incarnation)
{
    struct transfer_process *process = mem_new(sizeof(*process));
    process->incarnation = incarnation;
    process->pidfd = -1;
    bool is_same_host = strcmp(ours->host, theirs->host) == 0;
    process->is_local = is_same_host && theirs->pid == ours->pid &&
                        theirs->started == ours->started;
    if (is_same_host && !process->is_local) {
        watch_process(process, loop, theirs);
    }
    return process;
}

void transfer_process_close(struct transfer_process *process)
{
    if (process == NULL) {
        return;
    }
    io_watch_destroy(process->watch);
    if (process->pidfd >= 0) {
        close(process->pidfd);
    }
    mem_free(process);
}

bool transfer_process_is_gone(struct transfer_process *process)
{
    if (process->is_local) {
        process->is_gone = !is_instance_alive(process->incarnation);
    }
    return process->is_gone;
}
