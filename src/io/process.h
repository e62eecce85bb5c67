#pragma once
/* io/process: child processes of a supervisor, on its loop.
 *
 * A child gets our standard error, a pipe as standard output whose lines come
 * to `on_line`, nothing as standard input, default signals, and the listed
 * descriptors (readable as /dev/fd/N). When we die, however, the kernel tells
 * it with SIGTERM. `on_exit` comes once, after the last line; then the object
 * is gone. */
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/span.h"
#include "io/loop.h"

struct io_process;

enum { IO_PROCESS_KEEP_MAX = 4 };

struct io_process_options {
    const char *path;
    char *const *argv; /* ends with NULL; used during the call */
    int keep_fds[IO_PROCESS_KEEP_MAX];
    uint32_t keep_count;
    void (*on_line)(void *context, const char *line); /* may be NULL */
    /* `code`: exit status, or 128 + signal. */
    void (*on_exit)(void *context, int code);
    void *context;
};
MUST_USE enum err io_process_start(struct io_loop *loop,
                                   const struct io_process_options *options,
                                   struct why *why,
                                   struct io_process **process_out);
pid_t io_process_pid(const struct io_process *process);
void io_process_signal(struct io_process *process, int signal_number);

/* An unnamed file in memory holding `content`, for /dev/fd/N; -1: refused. */
int io_process_memory_file(const char *name, struct span content);
void io_process_close_file(int fd);
/* Path of the running program. ERR_IO. */
MUST_USE enum err io_process_own_path(char *path_out, size_t size);
