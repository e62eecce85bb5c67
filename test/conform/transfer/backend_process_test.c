/* transfer/backend.h across processes: what arrives, and what a process that
 * is killed or stopped leaves behind. */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/digest.h"
#include "pair.h"

static const char *program;

struct child {
    pid_t pid;
    int to, from;
};

static const char *const BODIES[] = {"inproc", "ucx",  "tcp",      "tcp6",
                                     "auto",   "rdma", "auto_rdma"};

static struct child start_child(const char *role, enum body body)
{
    int down[2], up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(down[0], 0);
        dup2(up[1], 3);
        for (int fd = 4; fd < 64; fd++) {
            close(fd);
        }
        execl(program, program, role, BODIES[body], NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    return (struct child){pid, down[1], up[0]};
}

static void read_all(int fd, void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, (char *)data + at, size - at);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

static void end_child(struct child *child, int signal_number)
{
    if (signal_number != 0) {
        kill(child->pid, signal_number);
    }
    close(child->to);
    int status;
    waitpid(child->pid, &status, 0);
    assert_true(signal_number != 0 || status == 0);
    close(child->from);
}

/* -------- in the child -------- */

static struct side open_child_side(const char *name, uint64_t incarnation)
{
    struct kind kind = {INPROC, PLAIN};
    while (strcmp(BODIES[kind.body], name) != 0) {
        kind.body++;
    }
    struct pair pair = {0};
    return open_side(&pair, kind, incarnation);
}

static void say_blob(const struct side *side, int fd)
{
    struct buf blob;
    export_side(side, &blob);
    uint32_t size = (uint32_t)blob.size;
    assert_int_equal(write(fd, &size, 4), 4);
    assert_int_equal(write(fd, blob.data, size), size);
    buf_finish(&blob);
}

static struct transfer_backend_peer *hear_blob(const struct side *side, int fd)
{
    uint8_t blob[TRANSFER_BLOB_SIZE_MAX];
    uint32_t size;
    struct why why = {{0}};
    read_all(fd, &size, 4);
    assert_true(size <= sizeof(blob));
    read_all(fd, blob, size);
    struct transfer_backend_peer *peer;
    enum err err = transfer_backend_peer_open(
        side->backend, span_of(blob, size), POOL_SIZE, &why, &peer);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
    }
    assert_int_equal(err, OK);
    return peer;
}

static bool has_word(int fd)
{
    struct pollfd at = {fd, POLLIN, 0};
    return poll(&at, 1, 0) == 1;
}

/* Offers a pool, turns until there is a word, tells the digest of the pool. */
static int run_receiver(const char *body)
{
    struct side side = open_child_side(body, RECEIVER);
    allow(&side, SENDER, WHOLE, 0, POOL_SIZE);
    say_blob(&side, 3);
    while (!has_word(0)) {
        bool is_busy;
        assert_null(transfer_backend_poll(side.backend, &is_busy));
        if (!is_busy && transfer_backend_arm(side.backend) == OK) {
            struct pollfd at[2] = {
                {0, POLLIN, 0}, {transfer_backend_fd(side.backend), POLLIN, 0}};
            poll(at, 2, 1000);
        }
    }
    char word;
    if (read(0, &word, 1) == 1) {
        uint32_t crc = digest_crc32c(0, span_of(side.pool, POOL_SIZE));
        assert_int_equal(write(3, &crc, 4), 4);
    }
    close_side(&side);
    return 0;
}

/* Writes its pool, full of 7, again and again until it is killed. */
static void run_sender(const char *body)
{
    struct side side = open_child_side(body, SENDER);
    memset(side.pool, 7, POOL_SIZE);
    struct transfer_backend_peer *peer = hear_blob(&side, 0);
    for (;;) {
        struct transfer_piece piece = {0, 0, POOL_SIZE, 0};
        struct transfer_write write = {
            .peer = peer, .token = WHOLE, .pieces = &piece, .piece_count = 1};
        transfer_backend_write(side.backend, &write);
        bool is_busy;
        while (transfer_backend_poll(side.backend, &is_busy) == NULL) {
        }
    }
}

/* -------- in the parent -------- */

static struct side open_parent(enum body body)
{
    struct pair pair = {0};
    return open_side(&pair, (struct kind){body, PLAIN}, SENDER);
}

static struct transfer_write *turn_until(struct side *side)
{
    struct pair pair = {.sender = *side};
    return poll_until(&pair);
}

static void start_pool(struct side *side, struct transfer_backend_peer *peer,
                       struct transfer_piece *pieces, size_t times,
                       struct transfer_write *write)
{
    for (size_t i = 0; i < times; i++) {
        pieces[i] = (struct transfer_piece){0, 0, POOL_SIZE, 0};
    }
    *write = (struct transfer_write){
        .peer = peer, .token = WHOLE, .pieces = pieces, .piece_count = times};
    transfer_backend_write(side->backend, write);
}

static void write_pool(struct side *side, struct transfer_backend_peer *peer,
                       enum transfer_outcome outcome)
{
    struct transfer_piece piece;
    struct transfer_write write;
    start_pool(side, peer, &piece, 1, &write);
    assert_ptr_equal(turn_until(side), &write);
    assert_int_equal(write.outcome, outcome);
}

static void expect_digest(const struct child *child, const struct side *side)
{
    uint32_t crc;
    assert_int_equal(write(child->to, "x", 1), 1);
    read_all(child->from, &crc, 4);
    assert_int_equal(crc, digest_crc32c(0, span_of(side->pool, POOL_SIZE)));
}

/* Segments that `pid` made. */
static int segments_of(pid_t pid)
{
    FILE *file = fopen("/proc/sysvipc/shm", "r");
    char line[512];
    int count = 0;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        long key, id, mode, size, made, touched;
        if (sscanf(line, "%ld %ld %lo %ld %ld %ld", &key, &id, &mode, &size,
                   &made, &touched) == 6) {
            count += made == pid;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static void expect_no_segments(pid_t child)
{
    assert_int_equal(segments_of(child), 0);
    assert_int_equal(segments_of(getpid()), 0);
}

/* The child says the digest of its own pool after our writes, over each body
 * that reaches other processes; the lane is the body's. */
static void bytes_arrive_in_another_process(void **state)
{
    (void)state;
    static const char *const lanes[] = {"",     "sysv", "tcp", "tcp",
                                        "sysv", "rdma", "sysv"};
    for (enum body body = UCX; body <= AUTO_RDMA; body++) {
        struct side side = open_parent(body);
        fill(side.pool, POOL_SIZE, 7);
        struct child child = start_child("receiver", body);
        struct transfer_backend_peer *peer = hear_blob(&side, child.from);
        assert_string_equal(transfer_backend_peer_lane(peer), lanes[body]);
        write_pool(&side, peer, TRANSFER_DONE);
        expect_digest(&child, &side);
        transfer_backend_peer_close(peer);
        close_side(&side);
        end_child(&child, 0);
        expect_no_segments(child.pid);
    }
}

/* The receiver is killed. Into shared memory that is still mapped the write is
 * carried out; over a connection it comes back STOPPED. Neither fails the
 * sender, and nothing is left behind. [transfer T57] */
static void a_killed_receiver_leaves_no_trace(void **state)
{
    (void)state;
    for (enum body body = UCX; body <= AUTO_RDMA; body++) {
        struct side side = open_parent(body);
        struct child child = start_child("receiver", body);
        struct transfer_backend_peer *peer = hear_blob(&side, child.from);
        bool is_mapped = body == UCX || body == AUTO || body == AUTO_RDMA;
        end_child(&child, SIGKILL);
        write_pool(&side, peer, is_mapped ? TRANSFER_DONE : TRANSFER_STOPPED);
        transfer_backend_peer_close(peer);
        close_side(&side);
        expect_no_segments(child.pid);
    }
}

/* In the middle of a write of 75 MiB, more than sockets hold. [transfer T55] */
static void a_receiver_killed_in_mid_write_stops_it(void **state)
{
    (void)state;
    enum { TIMES = 100 };
    static struct transfer_piece pieces[TIMES];
    struct side side = open_parent(TCP);
    struct child child = start_child("receiver", TCP);
    struct transfer_backend_peer *peer = hear_blob(&side, child.from);
    write_pool(&side, peer, TRANSFER_DONE);
    struct transfer_write write;
    start_pool(&side, peer, pieces, TIMES, &write);
    for (int i = 0; i < 5; i++) {
        bool is_busy;
        assert_null(transfer_backend_poll(side.backend, &is_busy));
    }
    end_child(&child, SIGKILL);
    assert_ptr_equal(turn_until(&side), &write);
    assert_int_equal(write.outcome, TRANSFER_STOPPED);
    transfer_backend_peer_close(peer);
    close_side(&side);
}

/* One receiver is stopped under a write that its sockets cannot hold, with a
 * hundred more queued behind; another one is served meanwhile, each write of
 * it. Then the first goes on, and all of its come, right. [transfer T58 T82
 * T109] */
static void stop_one_of_two(enum body body)
{
    enum { TIMES = 100, QUEUED = 100 };
    static struct transfer_piece pieces[TIMES], more[QUEUED];
    static struct transfer_write write, queued[QUEUED];
    struct side side = open_parent(body);
    fill(side.pool, POOL_SIZE, 9);
    struct child slow = start_child("receiver", body);
    struct child fast = start_child("receiver", body);
    struct transfer_backend_peer *slow_peer = hear_blob(&side, slow.from);
    struct transfer_backend_peer *fast_peer = hear_blob(&side, fast.from);
    write_pool(&side, slow_peer, TRANSFER_DONE);
    kill(slow.pid, SIGSTOP);
    start_pool(&side, slow_peer, pieces, TIMES, &write);
    for (int i = 0; i < QUEUED; i++) {
        start_pool(&side, slow_peer, &more[i], 1, &queued[i]);
    }
    for (int i = 0; i < 20; i++) {
        write_pool(&side, fast_peer, TRANSFER_DONE);
    }
    expect_digest(&fast, &side);
    kill(slow.pid, SIGCONT);
    assert_ptr_equal(turn_until(&side), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
    for (int i = 0; i < QUEUED; i++) {
        assert_ptr_equal(turn_until(&side), &queued[i]);
        assert_int_equal(queued[i].outcome, TRANSFER_DONE);
    }
    expect_digest(&slow, &side);
    transfer_backend_peer_close(slow_peer);
    transfer_backend_peer_close(fast_peer);
    close_side(&side);
    end_child(&slow, 0);
    end_child(&fast, 0);
}

static void a_stopped_receiver_holds_nobody_else_up(void **state)
{
    (void)state;
    stop_one_of_two(TCP);
    stop_one_of_two(RDMA);
}

/* -------- adapters, over a transport that any host has -------- */

static void turn(struct side *side, int times)
{
    for (int i = 0; i < times; i++) {
        bool is_busy;
        assert_null(transfer_backend_poll(side->backend, &is_busy));
    }
}

/* Of three receivers one is killed in the middle of a write, with another write
 * queued behind: nobody knows what became of the first, the second was never
 * handed over. A write to each of the others is under way meanwhile, ends well,
 * and so do later ones. A new write to the dead one soon comes back, since it has
 * no endpoint any more. [transfer T55 T57 T109] */
static void a_receiver_killed_under_an_adapter_leaves_doubt(void **state)
{
    (void)state;
    enum { TIMES = 100, DEAD = 1 };
    static struct transfer_piece pieces[3][TIMES], more;
    struct transfer_write writes[3], queued;
    struct side side = open_parent(RDMA);
    struct child children[3];
    struct transfer_backend_peer *peers[3];
    fill(side.pool, POOL_SIZE, 3);
    for (int i = 0; i < 3; i++) {
        children[i] = start_child("receiver", RDMA);
        peers[i] = hear_blob(&side, children[i].from);
        write_pool(&side, peers[i], TRANSFER_DONE);
    }
    kill(children[DEAD].pid, SIGSTOP);
    for (int i = 0; i < 3; i++) {
        start_pool(&side, peers[i], pieces[i], TIMES, &writes[i]);
    }
    start_pool(&side, peers[DEAD], &more, 1, &queued);
    turn(&side, 5);
    end_child(&children[DEAD], SIGKILL);
    for (int i = 0; i < 4; i++) {
        const struct transfer_write *back = turn_until(&side);
        assert_int_equal(back->outcome, back == &queued ? TRANSFER_STOPPED
                                        : back == &writes[DEAD]
                                            ? TRANSFER_IN_DOUBT
                                            : TRANSFER_DONE);
    }
    write_pool(&side, peers[DEAD], TRANSFER_STOPPED);
    for (int i = 0; i < 3; i++) {
        if (i != DEAD) {
            write_pool(&side, peers[i], TRANSFER_DONE);
            expect_digest(&children[i], &side);
            end_child(&children[i], 0);
        }
        transfer_backend_peer_close(peers[i]);
    }
    close_side(&side);
}

/* The peer is closed under a write that its receiver takes on: what was handed
 * over is flushed, so nobody touches the pages any more when the write comes
 * back, STOPPED. The pool is filled anew then, and the receiver's stays as it
 * is. */
static void a_write_cut_by_a_close_is_flushed(void **state)
{
    (void)state;
    enum { TIMES = 400 };
    static struct transfer_piece pieces[TIMES];
    struct transfer_write write;
    struct side side = open_parent(RDMA);
    struct child child = start_child("receiver", RDMA);
    struct transfer_backend_peer *peer = hear_blob(&side, child.from);
    memset(side.pool, 7, POOL_SIZE);
    write_pool(&side, peer, TRANSFER_DONE);
    start_pool(&side, peer, pieces, TIMES, &write);
    turn(&side, 2);
    transfer_backend_peer_close(peer);
    assert_ptr_equal(turn_until(&side), &write);
    assert_int_equal(write.outcome, TRANSFER_STOPPED);
    memset(side.pool, 8, POOL_SIZE);
    turn(&side, 1000);
    memset(side.pool, 7, POOL_SIZE); /* what the receiver must have kept */
    expect_digest(&child, &side);
    end_child(&child, 0);
    close_side(&side);
}

/* The same with a receiver that does not go on: the close gives up after its
 * time, and what was handed over is in doubt; one that never began is not. */
static void a_close_does_not_wait_for_a_stopped_receiver(void **state)
{
    (void)state;
    enum { TIMES = 100 };
    static struct transfer_piece pieces[TIMES], more;
    struct transfer_write begun, queued;
    struct side side = open_parent(RDMA);
    struct child child = start_child("receiver", RDMA);
    struct transfer_backend_peer *peer = hear_blob(&side, child.from);
    write_pool(&side, peer, TRANSFER_DONE);
    kill(child.pid, SIGSTOP);
    start_pool(&side, peer, pieces, TIMES, &begun);
    start_pool(&side, peer, &more, 1, &queued);
    turn(&side, 5);
    transfer_backend_peer_close(peer);
    assert_ptr_equal(turn_until(&side), &queued);
    assert_int_equal(queued.outcome, TRANSFER_STOPPED);
    assert_ptr_equal(turn_until(&side), &begun);
    assert_int_equal(begun.outcome, TRANSFER_IN_DOUBT);
    end_child(&child, SIGKILL);
    close_side(&side);
}

/* A receiver that is not there any more when the first write begins: nothing
 * was handed over, each write comes back STOPPED; and one that restarted is
 * reached by its new address. */
static void a_receiver_that_restarts_is_reached_again(void **state)
{
    (void)state;
    struct side side = open_parent(RDMA);
    fill(side.pool, POOL_SIZE, 5);
    for (int i = 0; i < 3; i++) {
        struct child child = start_child("receiver", RDMA);
        struct transfer_backend_peer *peer = hear_blob(&side, child.from);
        write_pool(&side, peer, TRANSFER_DONE);
        expect_digest(&child, &side);
        end_child(&child, i == 0 ? SIGKILL : 0);
        transfer_backend_peer_close(peer);
        turn(&side, 100);
    }
    close_side(&side);
}

/* The sender is killed while it writes: the receiver ends the grant, gives the
 * pool a new content and turns on; not a byte of it changes. [transfer T57] */
static void a_killed_sender_writes_no_more(void **state)
{
    (void)state;
    struct pair pair = {0};
    struct side side = open_side(&pair, (struct kind){TCP, PLAIN}, RECEIVER);
    allow(&side, SENDER, WHOLE, 0, POOL_SIZE);
    struct child child = start_child("sender", TCP);
    say_blob(&side, child.to);
    bool is_busy;
    while (side.pool[POOL_SIZE - 1] != 7) {
        assert_null(transfer_backend_poll(side.backend, &is_busy));
    }
    memset(side.pool, 0, POOL_SIZE);
    while (side.pool[POOL_SIZE / 2] != 7) {
        assert_null(transfer_backend_poll(side.backend, &is_busy));
    }
    end_child(&child, SIGKILL);
    transfer_backend_revoke(side.backend, SENDER, WHOLE);
    memset(side.pool, 0xca, POOL_SIZE);
    is_busy = true;
    while (is_busy || transfer_backend_arm(side.backend) != OK) {
        assert_null(transfer_backend_poll(side.backend, &is_busy));
    }
    for (size_t i = 0; i < POOL_SIZE; i++) {
        assert_int_equal(side.pool[i], 0xca);
    }
    close_side(&side);
}

/* -------- shared memory alone -------- */

static uint32_t hear_bytes(const struct child *child,
                           uint8_t blob[TRANSFER_BLOB_SIZE_MAX])
{
    uint32_t size;
    read_all(child->from, &size, 4);
    assert_true(size <= TRANSFER_BLOB_SIZE_MAX);
    read_all(child->from, blob, size);
    return size;
}

/* Each single bit of a live process's blob is spoilt in turn: refused, never a
 * crash, and the true blob still works afterwards. */
static void spoilt_blob_of_a_live_process_is_refused(void **state)
{
    (void)state;
    static const enum body bodies[] = {UCX, TCP, AUTO, RDMA};
    for (int b = 0; b < 4; b++) {
        struct side side = open_parent(bodies[b]);
        struct child child = start_child("receiver", bodies[b]);
        uint8_t blob[TRANSFER_BLOB_SIZE_MAX];
        uint32_t size = hear_bytes(&child, blob);
        struct transfer_backend_peer *peer;
        struct why why;
        for (uint32_t i = 0; i < 8 * size; i++) {
            blob[i / 8] ^= (uint8_t)(1 << i % 8);
            assert_int_not_equal(
                transfer_backend_peer_open(side.backend, span_of(blob, size),
                                           POOL_SIZE, &why, &peer),
                OK);
            blob[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        assert_int_equal(transfer_backend_peer_open(side.backend,
                                                    span_of(blob, size),
                                                    POOL_SIZE, &why, &peer),
                         OK);
        write_pool(&side, peer, TRANSFER_DONE);
        transfer_backend_peer_close(peer);
        end_child(&child, SIGKILL);
        close_side(&side);
    }
}

/* A blob of a process that is gone cannot be mapped: verdict, no crash; where
 * there is another way it is tried, and its writes come back. */
static void blob_of_a_dead_process_gets_no_bytes(void **state)
{
    (void)state;
    static const enum body bodies[] = {UCX, TCP, AUTO, RDMA};
    for (int b = 0; b < 4; b++) {
        struct side side = open_parent(bodies[b]);
        struct child child = start_child("receiver", bodies[b]);
        uint8_t blob[TRANSFER_BLOB_SIZE_MAX];
        uint32_t size = hear_bytes(&child, blob);
        end_child(&child, SIGKILL);
        struct transfer_backend_peer *peer = NULL;
        struct why why;
        enum err err = transfer_backend_peer_open(
            side.backend, span_of(blob, size), POOL_SIZE, &why, &peer);
        assert_int_equal(err, bodies[b] == UCX ? ERR_UNSUPPORTED : OK);
        if (!err) {
            write_pool(&side, peer, TRANSFER_STOPPED);
            transfer_backend_peer_close(peer);
        }
        close_side(&side);
    }
}

/* UCX accepts wrong setting names and warns on standard output only: a child
 * that starts a backend and a pool must have said nothing. */
static void ucx_takes_every_setting_without_a_warning(void **state)
{
    (void)state;
    static const char *const bodies[] = {"ucx", "rdma"};
    for (int i = 0; i < 2; i++) {
        char command[4200];
        snprintf(command, sizeof(command),
                 "'%s' receiver %s 3>/dev/null </dev/null 2>&1", program,
                 bodies[i]);
        FILE *output = popen(command, "r");
        char line[256] = "";
        char *got = fgets(line, sizeof(line), output);
        pclose(output);
        if (got != NULL) {
            fprintf(stderr, "said: %s\n", line);
        }
        assert_null(got);
    }
}

/* libucs takes over SIGSEGV and others before main; after create they are ours
 * to set again (the test library has set some, libucs none). */
static void signals_are_no_longer_taken(void **state)
{
    (void)state;
    struct side side = open_parent(UCX);
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (int i = 0; i < 4; i++) {
        struct sigaction action;
        sigaction(signals[i], NULL, &action);
        Dl_info info;
        int found = dladdr((void *)action.sa_sigaction, &info);
        assert_true(!found || strstr(info.dli_fname, "libucs") == NULL);
    }
    close_side(&side);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc > 2 && strcmp(argv[1], "sender") == 0) {
        run_sender(argv[2]);
    }
    if (argc > 2) {
        return run_receiver(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_in_another_process),
        cmocka_unit_test(a_killed_receiver_leaves_no_trace),
        cmocka_unit_test(a_receiver_killed_in_mid_write_stops_it),
        cmocka_unit_test(a_stopped_receiver_holds_nobody_else_up),
        cmocka_unit_test(a_receiver_killed_under_an_adapter_leaves_doubt),
        cmocka_unit_test(a_write_cut_by_a_close_is_flushed),
        cmocka_unit_test(a_close_does_not_wait_for_a_stopped_receiver),
        cmocka_unit_test(a_receiver_that_restarts_is_reached_again),
        cmocka_unit_test(a_killed_sender_writes_no_more),
        cmocka_unit_test(spoilt_blob_of_a_live_process_is_refused),
        cmocka_unit_test(blob_of_a_dead_process_gets_no_bytes),
        cmocka_unit_test(ucx_takes_every_setting_without_a_warning),
        cmocka_unit_test(signals_are_no_longer_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
