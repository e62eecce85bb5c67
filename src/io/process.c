#include "io/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"

enum { LINE_SIZE_MAX = 4096 };

struct io_process {
    struct io_process_options options;
    pid_t pid;
    int pidfd;
    int pipe_fd;
    struct io_watch *exit_watch;
    struct io_watch *pipe_watch;
    struct buf line;
};

static void keep_open(const struct io_process_options *options)
{
    for (uint32_t i = 0; i < options->keep_count; i++) {
        fcntl(options->keep_fds[i], F_SETFD, 0);
    }
}

/* Between fork and exec: async-signal-safe calls only. */
static void become_child(const struct io_process_options *options,
                         int pipe_write, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(127);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_DFL);
    }
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0) {
        dup2(null_fd, STDIN_FILENO);
    }
    dup2(pipe_write, STDOUT_FILENO);
    keep_open(options);
    execv(options->path, options->argv);
    _exit(127);
}

static void give_lines(struct io_process *process)
{
    struct buf *line = &process->line;
    uint8_t *end;
    while (line->size > 0 &&
           (end = memchr(line->data, '\n', line->size)) != NULL) {
        *end = 0;
        size_t size = (size_t)(end - line->data) + 1;
        if (process->options.on_line != NULL) {
            process->options.on_line(process->options.context,
                                     buf_string(line));
        }
        buf_drop_front(line, size);
    }
    if (buf_error(line) != OK || line->size > LINE_SIZE_MAX) {
        buf_reset(line);
    }
}

/* True: there may be more to read. */
static bool read_some(struct io_process *process)
{
    uint8_t bytes[LINE_SIZE_MAX];
    ssize_t size = read(process->pipe_fd, bytes, sizeof(bytes));
    if (size > 0) {
        buf_add(&process->line, bytes, (size_t)size);
        give_lines(process);
        return true;
    }
    if (size == 0) {
        io_watch_set(process->pipe_watch, 0);
    }
    return false;
}

static void on_pipe(void *context, int ready)
{
    (void)ready;
    read_some(context);
}

static void on_exit_ready(void *context, int ready)
{
    (void)ready;
    struct io_process *process = context;
    int status = 0;
    if (waitpid(process->pid, &status, WNOHANG) != process->pid) {
        return;
    }
    while (read_some(process)) {
    }
    io_watch_destroy(process->exit_watch);
    io_watch_destroy(process->pipe_watch);
    close(process->pidfd);
    close(process->pipe_fd);
    buf_finish(&process->line);
    struct io_process_options options = process->options;
    mem_free(process);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    options.on_exit(options.context, code);
}

static enum err watch_child(struct io_loop *loop, struct io_process *process)
{
    process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (process->pidfd < 0) {
        return ERR_IO;
    }
    fcntl(process->pidfd, F_SETFD, FD_CLOEXEC);
    fcntl(process->pipe_fd, F_SETFL, O_NONBLOCK);
    process->exit_watch =
        io_watch_create(loop, process->pidfd, on_exit_ready, process);
    process->pipe_watch =
        io_watch_create(loop, process->pipe_fd, on_pipe, process);
    io_watch_set(process->exit_watch, IO_READABLE);
    io_watch_set(process->pipe_watch, IO_READABLE);
    return OK;
}

enum err io_process_start(struct io_loop *loop,
                          const struct io_process_options *options,
                          struct why *why, struct io_process **process_out)
{
    CHECK(options->keep_count <= IO_PROCESS_KEEP_MAX);
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return why_say(why, ERR_IO, "pipe: %s", strerror(errno));
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_child(options, fds[1], parent);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return why_say(why, ERR_IO, "fork: %s", strerror(errno));
    }
    struct io_process *process = mem_new(sizeof(*process));
    process->options = *options;
    process->options.argv = NULL;
    process->pid = pid;
    process->pipe_fd = fds[0];
    buf_init(&process->line, 4 * LINE_SIZE_MAX);
    if (watch_child(loop, process) != OK) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(fds[0]);
        mem_free(process);
        return why_say(why, ERR_IO, "pidfd_open: %s", strerror(errno));
    }
    *process_out = process;
    return OK;
}

pid_t io_process_pid(const struct io_process *process)
{
    return process->pid;
}

void io_process_signal(struct io_process *process, int signal_number)
{
    kill(process->pid, signal_number);
}

int io_process_memory_file(const char *name, struct span content)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (write(fd, content.data, content.size) != (ssize_t)content.size) {
        close(fd);
        return -1;
    }
    return fd;
}

void io_process_close_file(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

enum err io_process_own_path(char *path_out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path_out, size - 1);
    if (length <= 0) {
        return ERR_IO;
    }
    path_out[length] = 0;
    return OK;
}
