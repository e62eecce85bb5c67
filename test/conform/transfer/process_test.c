/* Hand-offs between two processes: over ucx random pages, a killed sender, a
 * killed receiver, a stopped sender; and a killed sender over an adapter. The
 * other side is this program again, started with fork and exec; it says what it
 * knows on descriptor 3. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"
#include "node.h"

#include "base/digest.h"
#include "io/clock.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    Q = AGREE_QUIET,
    U = AGREE_UNSAFE,
    BLOCKS = 48,
    RID = 12
};
#define MS UINT64_C(1000000)

static const char *program;

struct child {
    pid_t pid;
    FILE *in, *out;
};

static struct child start(const char *role, const char *endpoint)
{
    int down[2], up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(down[0], 0);
        dup2(up[1], 3);
        for (int fd = 4; fd < 128; fd++) {
            close(fd);
        }
        execl(program, program, role, endpoint, NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    return (struct child){pid, fdopen(down[1], "w"), fdopen(up[0], "r")};
}

static void reap(struct child *child)
{
    fclose(child->in);
    fclose(child->out);
    waitpid(child->pid, NULL, 0);
}

static void pages_of(uint64_t seed, kv_page_id *pages)
{
    struct rng rng = rng_from_seed(seed);
    node_pick(&rng, pages, BLOCKS, 0);
}

static void open_node(struct node *node, enum node_body body,
                      struct io_loop *loop, uint64_t incarnation)
{
    node_open(node,
              &(struct node_setup){.body = body,
                                   .loop = loop,
                                   .incarnation = incarnation,
                                   .grace_ns = body == NODE_RDMA ? 200 * MS : 0,
                                   .heartbeat_ns = 20 * MS});
}

/* -------- the other process -------- */

static struct node child_node;

static void release(int signal_number)
{
    (void)signal_number;
    child_node.fault.hold_writes = false;
}

static void be_sender(struct node *node)
{
    static kv_page_id pages[BLOCKS];
    pages_of(1, pages);
    node_fill(node, 5);
    node->fault.hold_writes = true;
    node_send(node, 1, RID, pages, BLOCKS, 0);
    FILE *out = fdopen(3, "w");
    fprintf(out, "%s\n", transfer_endpoint(node->transfer));
    fflush(out);
    while (node->fault.held == 0) {
        node_turns(node, 1);
    }
    fprintf(out, "held\n");
    fflush(out);
    while (!(node_word(node, 1) & Q)) {
        node_turns(node, 1);
    }
    fprintf(out, "word %d\n", node_word(node, 1));
    fflush(out);
}

static void be_receiver(struct node *node, const char *endpoint)
{
    static kv_page_id pages[BLOCKS];
    pages_of(2, pages);
    node_receive_from(node, endpoint, 0xa, 1, RID, pages, BLOCKS, 0);
    while (!(node_word(node, 1) & Q)) {
        node_turns(node, 1);
    }
    uint32_t crc = 0;
    for (int i = 0; i < BLOCKS; i++) {
        crc = digest_crc32c(
            crc, span_of(node_page(node, pages[i]), node->pool.page_bytes));
    }
    FILE *out = fdopen(3, "w");
    fprintf(out, "word %d crc %u\n", node_word(node, 1), crc);
    fflush(out);
}

static int run_child(const char *role, const char *endpoint)
{
    struct io_loop *loop;
    if (io_loop_create(&loop)) {
        return 1;
    }
    struct node *node = &child_node;
    bool is_receiver = strcmp(role, "receiver") == 0;
    bool is_rdma = strcmp(endpoint, "rdma") == 0;
    open_node(node, is_rdma ? NODE_RDMA : NODE_UCX, loop,
              is_receiver ? 0xc : 0xb);
    if (is_receiver) {
        be_receiver(node, endpoint);
    } else {
        signal(SIGUSR1, release);
        be_sender(node);
    }
    /* It answers who asks until its parent has what it wants. */
    char byte;
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    while (read(STDIN_FILENO, &byte, 1) != 0) {
        node_turns(node, 1);
    }
    node_turns(node, 5);
    node_close(node);
    io_loop_destroy(loop);
    return 0;
}

/* -------- this process -------- */

static void read_line(struct child *child, char *line, int size)
{
    assert_non_null(fgets(line, size, child->out));
    line[strcspn(line, "\n")] = 0;
}

static int segments_of(pid_t pid)
{
    FILE *file = fopen("/proc/sysvipc/shm", "r");
    char line[512];
    int count = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        long key, id, mode, size, made;
        if (sscanf(line, "%ld %ld %lo %ld %ld", &key, &id, &mode, &size,
                   &made) == 5) {
            count += made == pid;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

struct here {
    struct io_loop *loop;
    struct node node;
};

static void open_here_over(struct here *here, enum node_body body)
{
    assert_int_equal(io_loop_create(&here->loop), OK);
    open_node(&here->node, body, here->loop, 0xa);
    node_fill(&here->node, 9);
}

static void open_here(struct here *here)
{
    open_here_over(here, NODE_UCX);
}

static void close_here(struct here *here)
{
    node_close(&here->node);
    io_loop_destroy(here->loop);
    assert_int_equal(segments_of(getpid()), 0);
}

/* We send, the child receives and says the digest of what it got. */
static void pages_arrive_in_another_process(void **state)
{
    (void)state;
    static struct here here;
    open_here(&here);
    kv_page_id pages[BLOCKS];
    pages_of(1, pages);
    node_send(&here.node, 1, RID, pages, BLOCKS, 0);
    struct child child =
        start("receiver", transfer_endpoint(here.node.transfer));
    assert_int_equal(node_await(&here.node, 1, Q), T | Q);
    assert_string_equal(node_last(&here.node, 1)->backend, "ucx");
    const char *lane = node_last(&here.node, 1)->lane;
    assert_true(strcmp(lane, "sysv") == 0 || strcmp(lane, "posix") == 0);
    uint32_t crc = 0;
    for (int i = 0; i < BLOCKS; i++) {
        crc = digest_crc32c(crc, span_of(node_page(&here.node, pages[i]),
                                         here.node.pool.page_bytes));
    }
    char line[128], expected[128];
    read_line(&child, line, sizeof(line));
    snprintf(expected, sizeof(expected), "word %d crc %u", T | Q, crc);
    assert_string_equal(line, expected);
    reap(&child);
    node_turns(&here.node, 5);
    close_here(&here);
}

static void start_receive(struct here *here, struct child *child,
                          const kv_page_id *pages)
{
    char endpoint[300], line[64];
    read_line(child, endpoint, sizeof(endpoint));
    node_receive_from(&here->node, endpoint, 0xb, 2, RID, pages, BLOCKS, 0);
    for (int i = 0; i < 100; i++) {
        node_turns(&here->node, 1);
    }
    read_line(child, line, sizeof(line));
    assert_string_equal(line, "held");
}

/* The sender dies with our pages exposed: we fail at once, and are quiet by
 * its process being gone; nothing of it is left in memory. [transfer T57] */
static void killed_sender_is_proof_of_quiet(void **state)
{
    (void)state;
    static struct here here;
    open_here(&here);
    struct child child = start("sender", "");
    kv_page_id pages[BLOCKS];
    pages_of(2, pages);
    start_receive(&here, &child, pages);
    assert_int_equal(node_word(&here.node, 2), 0);
    kill(child.pid, SIGKILL);
    uint8_t word = node_await(&here.node, 2, Q);
    assert_int_equal(word, T | F | Q);
    reap(&child);
    assert_int_equal(segments_of(child.pid), 0);
    close_here(&here);
}

/* The same over an adapter, which may still write what it was given: we fail at
 * once and the sender's end proves nothing; no time makes it quiet, and what it
 * may write to cannot be taken down. [transfer T57 T60 I15] */
static void killed_sender_over_an_adapter_proves_nothing(void **state)
{
    (void)state;
    static struct here here;
    open_here_over(&here, NODE_RDMA);
    struct child child = start("sender", "rdma");
    kv_page_id pages[BLOCKS];
    pages_of(2, pages);
    start_receive(&here, &child, pages);
    kill(child.pid, SIGKILL);
    reap(&child);
    assert_int_equal(node_await(&here.node, 2, U), T | F | U);
    node_turns(&here.node, 300);
    assert_int_equal(node_word(&here.node, 2), T | F | U);
    assert_string_equal(node_last(&here.node, 2)->lane, "rdma");
    assert_int_equal(transfer_destroy(here.node.transfer), ERR_BUSY);
}

/* The receiver dies while our write is held: we fail at once, and are quiet
 * when our own write has come back. [transfer T57] */
static void killed_receiver_fails_the_sender(void **state)
{
    (void)state;
    static struct here here;
    open_here(&here);
    here.node.fault.hold_writes = true;
    kv_page_id pages[BLOCKS];
    pages_of(1, pages);
    node_send(&here.node, 1, RID, pages, BLOCKS, 0);
    struct child child =
        start("receiver", transfer_endpoint(here.node.transfer));
    while (here.node.fault.held == 0) {
        node_turns(&here.node, 1);
    }
    kill(child.pid, SIGKILL);
    assert_int_equal(node_await(&here.node, 1, T), T | F);
    node_turns(&here.node, 20);
    assert_int_equal(node_word(&here.node, 1), T | F);
    here.node.fault.hold_writes = false;
    assert_int_equal(node_await(&here.node, 1, Q), T | F | Q);
    reap(&child);
    node_turns(&here.node, 10);
    assert_int_equal(segments_of(child.pid), 0);
    close_here(&here);
}

/* A stopped sender is silent but alive: we give up logically, never quiet.
 * When it goes on it is asked again, but its write is still under way; only
 * after that has come back its answer is the proof.
 * [transfer T58] */
static void stopped_sender_is_asked_again(void **state)
{
    (void)state;
    static struct here here;
    open_here(&here);
    struct child child = start("sender", "");
    kv_page_id pages[BLOCKS];
    pages_of(2, pages);
    start_receive(&here, &child, pages);
    kill(child.pid, SIGSTOP);
    assert_int_equal(node_await(&here.node, 2, T), T | F);
    node_turns(&here.node, 300);
    assert_int_equal(node_word(&here.node, 2), T | F);
    kill(child.pid, SIGCONT);
    node_turns(&here.node, 300);
    assert_int_equal(node_word(&here.node, 2), T | F);
    kill(child.pid, SIGUSR1);
    assert_int_equal(node_await(&here.node, 2, Q), T | F | Q);
    char line[64];
    read_line(&child, line, sizeof(line));
    assert_true(strncmp(line, "word ", 5) == 0);
    assert_int_equal(atoi(line + 5) & (T | F | Q), T | F | Q);
    reap(&child);
    node_turns(&here.node, 5);
    close_here(&here);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc > 2) {
        return run_child(argv[1], argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_arrive_in_another_process),
        cmocka_unit_test(killed_sender_is_proof_of_quiet),
        cmocka_unit_test(killed_receiver_fails_the_sender),
        cmocka_unit_test(stopped_sender_is_asked_again),
        cmocka_unit_test(killed_sender_over_an_adapter_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
