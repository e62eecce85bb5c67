#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/base/test.h"

#include "base/check.h"

/* What a child that breaks its promise leaves: signal and last line. */
static void break_promise(int line_out)
{
    dup2(line_out, STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    int pages = 3;
    CHECK(pages == 3);
    CHECK(pages == 4);
    _exit(0);
}

static void broken_promise_ends_the_process(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        break_promise(ends[1]);
    }
    int status;
    char line[200] = {0};
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
    assert_non_null(strstr(line, "pages == 4"));
    assert_non_null(strstr(line, "check_test.c"));
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_promise_ends_the_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
