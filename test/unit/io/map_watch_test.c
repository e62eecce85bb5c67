#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/file.h"
#include "io/map_watch.h"

enum { EXIT_CODE = 77, SIZE = 1 << 16 };

static char path[] = "/tmp/baton-map-XXXXXX";

static void make_file(void)
{
    static char zeros[SIZE];
    int fd;
    memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, zeros, SIZE), SIZE);
    close(fd);
}

/* In a child: what it says is read back, and how it ended. */
static int run(void (*act)(void), char *said, size_t size)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        io_map_watch(EXIT_CODE);
        act();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], said + used, size - 1 - used)) > 0) {
        used += (size_t)got;
    }
    said[used] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void touch_last(struct span bytes)
{
    volatile uint8_t sink = bytes.data[bytes.size - 1];
    (void)sink;
}

static void touch_what_was_cut(void)
{
    struct io_map *map = NULL;
    struct why why;
    if (io_map_open(path, &why, &map) != OK || truncate(path, 4096) != 0) {
        _exit(1);
    }
    touch_last(io_map_span(map));
}

/* Proof: a child maps a file, cuts it and touches the end: it says which file
 * it was and ends with the code of the watch, not by the signal. */
static void a_cut_file_is_named_in_the_last_word(void **state)
{
    char said[1024];
    (void)state;
    make_file();
    int status = run(touch_what_was_cut, said, sizeof(said));
    unlink(path);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_CODE);
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, "cut short"));
}

static void touch_a_stranger(void)
{
    struct io_map *map = NULL;
    struct why why;
    if (io_map_open(path, &why, &map) != OK) {
        _exit(1);
    }
    io_map_close(map);
    int fd = open(path, O_RDWR);
    void *memory = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || ftruncate(fd, 0) != 0) {
        _exit(1);
    }
    touch_last(span_of(memory, SIZE));
}

/* Proof: a mapping that is not ours (any more) dies of the signal, unnamed. */
static void another_bus_error_stays_one(void **state)
{
    char said[1024];
    (void)state;
    make_file();
    int status = run(touch_a_stranger, said, sizeof(said));
    unlink(path);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    assert_null(strstr(said, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_file_is_named_in_the_last_word),
        cmocka_unit_test(another_bus_error_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
