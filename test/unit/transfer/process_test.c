/* transfer/process: proof that a process is gone, and no false proof. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/loop.h"
#include "transfer/process.h"

static struct transfer_identity ours;
static struct io_loop *loop;

static bool is_gone(struct transfer_process *process)
{
    io_loop_turn(loop, 1000000);
    return transfer_process_is_gone(process);
}

/* A child is not gone while it runs or is stopped, and gone once killed, also
 * before anyone has waited for it. */
static void killed_child_is_proven_gone(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct transfer_identity child;
        if (transfer_identity_read(NULL, &child) ||
            write(ready[1], &child, sizeof(child)) < 0) {
            _exit(1);
        }
        pause();
        _exit(0);
    }
    struct transfer_identity theirs;
    assert_int_equal(read(ready[0], &theirs, sizeof(theirs)), sizeof(theirs));
    struct transfer_process *process;
    process = transfer_process_open(loop, &ours, &theirs, 5);
    assert_false(is_gone(process));
    kill(pid, SIGSTOP);
    assert_false(is_gone(process));
    kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    assert_true(is_gone(process));
    transfer_process_close(process);
    waitpid(pid, NULL, 0);
    /* Known only after its end: the pid is nobody's. */
    process = transfer_process_open(loop, &ours, &theirs, 5);
    assert_true(is_gone(process));
    transfer_process_close(process);
}

/* The pid lives, but started at another tick: it is somebody else's now. */
static void reused_pid_is_not_mistaken(void **state)
{
    (void)state;
    struct transfer_identity parent = ours;
    parent.pid = (uint64_t)getppid();
    parent.started = 1;
    struct transfer_process *process;
    process = transfer_process_open(loop, &ours, &parent, 5);
    assert_true(is_gone(process));
    transfer_process_close(process);
}

/* Another host: no proof, ever. */
static void other_host_is_never_proven(void **state)
{
    (void)state;
    struct transfer_identity other = ours;
    other.host[0] ^= 1;
    other.pid = 1;
    struct transfer_process *process;
    process = transfer_process_open(loop, &ours, &other, 5);
    assert_false(is_gone(process));
    transfer_process_close(process);
}

/* Inside one process the instance itself says when it is over. */
static void own_instances_say_when_they_end(void **state)
{
    (void)state;
    assert_int_equal(transfer_instance_begin(77), OK);
    struct transfer_process *process;
    process = transfer_process_open(loop, &ours, &ours, 77);
    assert_false(is_gone(process));
    transfer_instance_end(77);
    assert_true(is_gone(process));
    transfer_process_close(process);
}

int main(void)
{
    if (transfer_identity_read(NULL, &ours) || io_loop_create(&loop)) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_child_is_proven_gone),
        cmocka_unit_test(reused_pid_is_not_mistaken),
        cmocka_unit_test(other_host_is_never_proven),
        cmocka_unit_test(own_instances_say_when_they_end),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    io_loop_destroy(loop);
    return failed;
}
