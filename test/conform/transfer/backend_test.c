/* One suite for all bodies of transfer/backend.h: inproc, ucx, and fault over
 * each with all switches off. ucx also across two processes. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/digest.h"
#include "leaks.h"
#include "base/rng.h"
#include "transfer/backend.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"
#include "transfer/backend_ucx.h"

enum { PAGE = 12288, PAGE_COUNT = 64, POOL_SIZE = PAGE * PAGE_COUNT };

enum body { INPROC, UCX, FAULT_INPROC, FAULT_UCX, BODY_COUNT };

struct side {
    struct transfer_backend *backend;
    uint8_t *pool;
};

struct pair {
    struct transfer_inproc_hub *hub;
    struct transfer_fault fault;
    struct side sender, receiver;
    struct transfer_backend_peer *peer;
};

static struct transfer_backend *make(struct pair *pair, enum body body,
                                     uint64_t incarnation)
{
    struct transfer_backend *backend;
    struct why why;
    if (body == INPROC || body == FAULT_INPROC) {
        assert_int_equal(
            transfer_backend_inproc_create(pair->hub, incarnation, &backend),
            OK);
    } else {
        struct transfer_backend_ucx_options options = {incarnation};
        assert_int_equal(transfer_backend_ucx_create(&options, &why, &backend),
                         OK);
    }
    if (body == FAULT_INPROC || body == FAULT_UCX) {
        backend = transfer_backend_fault_create(backend, &pair->fault);
    }
    return backend;
}

static struct side open_side(struct pair *pair, enum body body,
                             uint64_t incarnation)
{
    struct side side = {.backend = make(pair, body, incarnation)};
    struct why why;
    void *pool;
    assert_int_equal(
        transfer_backend_alloc(side.backend, POOL_SIZE, &why, &pool), OK);
    side.pool = pool;
    return side;
}

static struct transfer_backend_peer *open_peer(struct transfer_backend *backend,
                                               const struct side *target)
{
    struct why why = {0};
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(transfer_backend_export(target->backend, target->pool,
                                             POOL_SIZE, &why, &blob),
                     OK);
    struct transfer_backend_peer *peer = NULL;
    enum err err = transfer_backend_peer_open(backend, buf_span(&blob),
                                              POOL_SIZE, &why, &peer);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
    }
    assert_int_equal(err, OK);
    buf_finish(&blob);
    return peer;
}

static void open_pair(struct pair *pair, enum body body)
{
    memset(pair, 0, sizeof(*pair));
    pair->hub = transfer_inproc_hub_create();
    pair->sender = open_side(pair, body, 11);
    pair->receiver = open_side(pair, body, 22);
    pair->peer = open_peer(pair->sender.backend, &pair->receiver);
}

static void close_side(struct side *side)
{
    transfer_backend_free(side->backend, side->pool);
    transfer_backend_destroy(side->backend);
}

static void close_pair(struct pair *pair)
{
    if (pair->peer != NULL) {
        transfer_backend_peer_close(pair->peer);
    }
    close_side(&pair->sender);
    close_side(&pair->receiver);
    transfer_inproc_hub_destroy(pair->hub);
}

static struct transfer_write *poll_until(struct transfer_backend *backend)
{
    for (int i = 0; i < 100000; i++) {
        bool is_busy;
        struct transfer_write *write = transfer_backend_poll(backend, &is_busy);
        if (write != NULL) {
            return write;
        }
    }
    fail_msg("the write never came back");
    return NULL;
}

static void fill(uint8_t *data, size_t size, uint64_t seed)
{
    struct rng rng = rng_from_seed(seed);
    for (size_t i = 0; i < size; i++) {
        data[i] = (uint8_t)rng_next(&rng);
    }
}

/* Fills both pools, writes pages in scattered order through the table and
 * compares every byte of the target, written or not, and every digest. */
static void pages_arrive_and_nothing_else(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    fill(pair.sender.pool, POOL_SIZE, 1);
    fill(pair.receiver.pool, POOL_SIZE, 2);
    uint8_t *expected = malloc(POOL_SIZE);
    memcpy(expected, pair.receiver.pool, POOL_SIZE);
    struct transfer_piece pieces[PAGE_COUNT / 2];
    for (size_t i = 0; i < PAGE_COUNT / 2; i++) {
        size_t from = (i * 7 + 3) % PAGE_COUNT;
        size_t to = (i * 5 + 1) % PAGE_COUNT;
        pieces[i] = (struct transfer_piece){PAGE * from, PAGE * to, PAGE, 0};
        memcpy(expected + PAGE * to, pair.sender.pool + PAGE * from, PAGE);
    }
    struct transfer_write write = {
        .peer = pair.peer, .pieces = pieces, .piece_count = PAGE_COUNT / 2};
    transfer_backend_write(pair.sender.backend, &write);
    assert_ptr_equal(poll_until(pair.sender.backend), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
    assert_memory_equal(pair.receiver.pool, expected, POOL_SIZE);
    for (size_t i = 0; i < PAGE_COUNT / 2; i++) {
        struct span page =
            span_of(pair.sender.pool + pieces[i].source_offset, PAGE);
        assert_int_equal(pieces[i].crc32c, digest_crc32c(0, page));
    }
    free(expected);
    close_pair(&pair);
}

/* Nothing moves before poll: the target is compared right after write. */
static void write_only_queues(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    fill(pair.sender.pool, PAGE, 3);
    struct transfer_piece piece = {0, 0, PAGE, 0};
    struct transfer_write write = {
        .peer = pair.peer, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(pair.sender.backend, &write);
    assert_int_equal(pair.receiver.pool[0] | pair.receiver.pool[PAGE - 1], 0);
    assert_ptr_equal(poll_until(pair.sender.backend), &write);
    assert_memory_equal(pair.receiver.pool, pair.sender.pool, PAGE);
    close_pair(&pair);
}

/* A write without pieces is a write: it comes back DONE. */
static void empty_write_comes_back(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct transfer_write write = {.peer = pair.peer};
    transfer_backend_write(pair.sender.backend, &write);
    assert_ptr_equal(poll_until(pair.sender.backend), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
    close_pair(&pair);
}

/* The peer is closed between write and poll: both writes come back STOPPED
 * and the target keeps its zeros. */
static void closing_a_peer_stops_its_writes(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    fill(pair.sender.pool, PAGE, 4);
    struct transfer_piece pieces[2] = {{0, 0, PAGE, 0}, {0, PAGE, PAGE, 0}};
    struct transfer_write writes[2] = {
        {.peer = pair.peer, .pieces = &pieces[0], .piece_count = 1},
        {.peer = pair.peer, .pieces = &pieces[1], .piece_count = 1}};
    transfer_backend_write(pair.sender.backend, &writes[0]);
    transfer_backend_write(pair.sender.backend, &writes[1]);
    transfer_backend_peer_close(pair.peer);
    pair.peer = NULL;
    for (int i = 0; i < 2; i++) {
        struct transfer_write *write = poll_until(pair.sender.backend);
        assert_int_equal(write->outcome, TRANSFER_STOPPED);
    }
    for (size_t i = 0; i < 2 * PAGE; i++) {
        assert_int_equal(pair.receiver.pool[i], 0);
    }
    close_pair(&pair);
}

/* A backend has one pool; the second request is refused, the first stays. */
static void second_pool_is_refused(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    void *more;
    struct why why;
    assert_int_equal(
        transfer_backend_alloc(pair.sender.backend, PAGE, &why, &more),
        ERR_EXISTS);
    close_pair(&pair);
}

/* Every cut of a real blob, and random bytes, are refused without a crash. */
static void junk_blobs_are_refused(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct why why;
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(transfer_backend_export(pair.receiver.backend,
                                             pair.receiver.pool, POOL_SIZE,
                                             &why, &blob),
                     OK);
    struct transfer_backend_peer *peer;
    for (size_t size = 0; size < blob.size; size++) {
        assert_int_not_equal(transfer_backend_peer_open(
                                 pair.sender.backend, span_of(blob.data, size),
                                 POOL_SIZE, &why, &peer),
                             OK);
    }
    assert_int_not_equal(transfer_backend_peer_open(pair.sender.backend,
                                                    buf_span(&blob),
                                                    2 * POOL_SIZE, &why, &peer),
                         OK);
    uint8_t junk[64];
    fill(junk, sizeof(junk), 5);
    assert_int_not_equal(transfer_backend_peer_open(pair.sender.backend,
                                                    span_of(junk, 64),
                                                    POOL_SIZE, &why, &peer),
                         OK);
    buf_finish(&blob);
    close_pair(&pair);
}

/* Memory that the backend did not give cannot be offered. */
static void foreign_memory_is_not_exported(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct why why;
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    uint8_t other[64];
    assert_int_equal(
        transfer_backend_export(pair.sender.backend, other, 64, &why, &blob),
        ERR_INVALID);
    buf_finish(&blob);
    close_pair(&pair);
}

/* Pool memory is zeroed, aligned, and given and taken through the allocator
 * of device/memory.h. */
static void pool_comes_through_the_allocator(enum body body)
{
    struct pair pair = {.hub = transfer_inproc_hub_create()};
    struct transfer_backend *backend = make(&pair, body, 33);
    struct device_allocator allocator = transfer_backend_allocator(backend);
    struct device_memory memory;
    struct why why;
    assert_int_equal(device_memory_take(&allocator, PAGE, &why, &memory), OK);
    for (size_t i = 0; i < PAGE; i++) {
        assert_int_equal(memory.base[i], 0);
    }
    device_memory_give(&memory);
    transfer_backend_destroy(backend);
    transfer_inproc_hub_destroy(pair.hub);
}

/* A backend may write into its own pool: both roles in one worker. */
static void own_pool_can_be_the_target(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    struct transfer_backend_peer *self =
        open_peer(pair.sender.backend, &pair.sender);
    fill(pair.sender.pool, PAGE, 6);
    struct transfer_piece piece = {0, PAGE, PAGE, 0};
    struct transfer_write write = {
        .peer = self, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(pair.sender.backend, &write);
    poll_until(pair.sender.backend);
    assert_memory_equal(pair.sender.pool, pair.sender.pool + PAGE, PAGE);
    transfer_backend_peer_close(self);
    close_pair(&pair);
}

/* With nothing to do, polls become idle and arm lets the owner sleep. */
static void idle_backend_lets_its_owner_sleep(enum body body)
{
    struct pair pair;
    open_pair(&pair, body);
    bool is_busy = true;
    bool slept = false;
    for (int i = 0; i < 100000 && !slept; i++) {
        assert_null(transfer_backend_poll(pair.sender.backend, &is_busy));
        slept = !is_busy && transfer_backend_arm(pair.sender.backend) == OK;
    }
    assert_true(slept);
    close_pair(&pair);
}

#define CASES(X)                        \
    X(pages_arrive_and_nothing_else)    \
    X(write_only_queues)                \
    X(empty_write_comes_back)           \
    X(closing_a_peer_stops_its_writes)  \
    X(second_pool_is_refused)           \
    X(junk_blobs_are_refused)           \
    X(foreign_memory_is_not_exported)   \
    X(pool_comes_through_the_allocator) \
    X(own_pool_can_be_the_target)       \
    X(idle_backend_lets_its_owner_sleep)
#define DEFINE(name)                                    \
    static void test_##name(void **state)               \
    {                                                   \
        (void)state;                                    \
        for (int body = 0; body < BODY_COUNT; body++) { \
            name((enum body)body);                      \
        }                                               \
    }
CASES(DEFINE)

/* -------- two processes -------- */

static const char *program;

struct child {
    pid_t pid;
    int to, from;
};

static struct child start_child(void)
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
        execl(program, program, "child", NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    return (struct child){pid, down[1], up[0]};
}

/* The receiving process: offers a pool, waits for a word, tells the digest of
 * the pool, ends. */
static int run_child(void)
{
    struct transfer_backend *backend;
    struct why why;
    void *pool;
    struct transfer_backend_ucx_options options = {77};
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    if (transfer_backend_ucx_create(&options, &why, &backend) ||
        transfer_backend_alloc(backend, POOL_SIZE, &why, &pool) ||
        transfer_backend_export(backend, pool, POOL_SIZE, &why, &blob)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    uint32_t size = (uint32_t)blob.size;
    if (write(3, &size, 4) != 4 || write(3, blob.data, size) != (ssize_t)size) {
        return 2;
    }
    char word;
    if (read(0, &word, 1) == 1) {
        uint32_t crc = digest_crc32c(0, span_of(pool, POOL_SIZE));
        if (write(3, &crc, 4) != 4) {
            return 3;
        }
    }
    buf_finish(&blob);
    transfer_backend_free(backend, pool);
    transfer_backend_destroy(backend);
    return 0;
}

static void read_all(int fd, void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = read(fd, (char *)data + at, size - at);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

static struct transfer_backend_peer *open_child(
    struct transfer_backend *backend, const struct child *child)
{
    uint8_t blob[TRANSFER_BLOB_SIZE_MAX];
    uint32_t size;
    read_all(child->from, &size, 4);
    assert_true(size <= sizeof(blob));
    read_all(child->from, blob, size);
    struct transfer_backend_peer *peer;
    struct why why = {0};
    enum err err = transfer_backend_peer_open(backend, span_of(blob, size),
                                              POOL_SIZE, &why, &peer);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
    }
    assert_int_equal(err, OK);
    return peer;
}

static void write_pool(struct side *side, struct transfer_backend_peer *peer)
{
    struct transfer_piece piece = {0, 0, POOL_SIZE, 0};
    struct transfer_write write = {
        .peer = peer, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(side->backend, &write);
    assert_ptr_equal(poll_until(side->backend), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
}

/* Segments that `pid` made or touched last. */
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

/* The child says the digest of its own pool after our writes. */
static void test_bytes_arrive_in_another_process(void **state)
{
    (void)state;
    struct pair pair = {0};
    struct side side = open_side(&pair, UCX, 44);
    fill(side.pool, POOL_SIZE, 7);
    struct child child = start_child();
    struct transfer_backend_peer *peer = open_child(side.backend, &child);
    assert_true(strcmp(transfer_backend_peer_lane(peer), "sysv") == 0 ||
                strcmp(transfer_backend_peer_lane(peer), "posix") == 0);
    write_pool(&side, peer);
    assert_int_equal(write(child.to, "x", 1), 1);
    uint32_t crc;
    read_all(child.from, &crc, 4);
    assert_int_equal(crc, digest_crc32c(0, span_of(side.pool, POOL_SIZE)));
    int status;
    waitpid(child.pid, &status, 0);
    assert_int_equal(status, 0);
    transfer_backend_peer_close(peer);
    close_side(&side);
    assert_int_equal(segments_of(child.pid), 0);
    assert_int_equal(segments_of(getpid()), 0);
}

/* The child is killed; writes into its mapped pool neither fail nor crash,
 * and after close no segment of either process is left. */
static void test_killed_peer_leaves_no_trace(void **state)
{
    (void)state;
    struct pair pair = {0};
    struct side side = open_side(&pair, UCX, 45);
    struct child child = start_child();
    struct transfer_backend_peer *peer = open_child(side.backend, &child);
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    write_pool(&side, peer);
    transfer_backend_peer_close(peer);
    close_side(&side);
    assert_int_equal(segments_of(child.pid), 0);
    assert_int_equal(segments_of(getpid()), 0);
}

/* Each single bit of a live process's blob is spoilt in turn: refused, never a
 * crash, and the true blob still works afterwards. */
static void test_spoilt_blob_of_a_live_process_is_refused(void **state)
{
    (void)state;
    struct pair pair = {0};
    struct side side = open_side(&pair, UCX, 48);
    struct child child = start_child();
    uint8_t blob[TRANSFER_BLOB_SIZE_MAX];
    uint32_t size;
    read_all(child.from, &size, 4);
    read_all(child.from, blob, size);
    struct transfer_backend_peer *peer;
    struct why why;
    for (uint32_t i = 0; i < 8 * size; i++) {
        blob[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(transfer_backend_peer_open(side.backend,
                                                        span_of(blob, size),
                                                        POOL_SIZE, &why, &peer),
                             OK);
        blob[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    assert_int_equal(transfer_backend_peer_open(side.backend,
                                                span_of(blob, size), POOL_SIZE,
                                                &why, &peer),
                     OK);
    write_pool(&side, peer);
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    transfer_backend_peer_close(peer);
    close_side(&side);
}

/* A blob of a process that is gone cannot be mapped: verdict, no crash. */
static void test_blob_of_a_dead_process_is_refused(void **state)
{
    (void)state;
    struct pair pair = {0};
    struct side side = open_side(&pair, UCX, 46);
    struct child child = start_child();
    uint8_t blob[TRANSFER_BLOB_SIZE_MAX];
    uint32_t size;
    read_all(child.from, &size, 4);
    read_all(child.from, blob, size);
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    struct transfer_backend_peer *peer;
    struct why why;
    assert_int_equal(transfer_backend_peer_open(side.backend,
                                                span_of(blob, size), POOL_SIZE,
                                                &why, &peer),
                     ERR_UNSUPPORTED);
    close_side(&side);
}

/* UCX accepts wrong setting names and warns on standard output only: a child
 * that starts a backend and a pool must have said nothing. */
static void test_ucx_takes_every_setting_without_a_warning(void **state)
{
    (void)state;
    char command[4200];
    snprintf(command, sizeof(command), "'%s' child 3>/dev/null </dev/null 2>&1",
             program);
    FILE *output = popen(command, "r");
    char line[256] = "";
    char *got = fgets(line, sizeof(line), output);
    pclose(output);
    if (got != NULL) {
        fprintf(stderr, "said: %s\n", line);
    }
    assert_null(got);
}

/* libucs takes over SIGSEGV and others before main; after create they are ours
 * to set again (the test library has set some, libucs none). */
static void test_signals_are_no_longer_taken(void **state)
{
    (void)state;
    struct pair pair = {0};
    struct side side = open_side(&pair, UCX, 47);
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

#define LIST(name) cmocka_unit_test(test_##name),

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        return run_child();
    }
    const struct CMUnitTest tests[] = {
        CASES(LIST) LIST(bytes_arrive_in_another_process)
            LIST(killed_peer_leaves_no_trace)
                LIST(blob_of_a_dead_process_is_refused)
                    LIST(spoilt_blob_of_a_live_process_is_refused)
                        LIST(ucx_takes_every_setting_without_a_warning)
                            LIST(signals_are_no_longer_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
