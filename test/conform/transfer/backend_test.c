/* One suite for all bodies of transfer/backend.h, inproc, ucx, tcp and auto,
 * alone and under each decorator with its switches off. [transfer T87] */
#include "base/digest.h"
#include "pair.h"

/* Fills both pools, writes pages in scattered order through the table and
 * compares every byte of the target, written or not, and every digest. */
static void pages_arrive_and_nothing_else(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
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
    struct transfer_write write = {.peer = pair.peer,
                                   .token = WHOLE,
                                   .pieces = pieces,
                                   .piece_count = PAGE_COUNT / 2};
    transfer_backend_write(pair.sender.backend, &write);
    assert_ptr_equal(poll_until(&pair), &write);
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
static void write_only_queues(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    fill(pair.sender.pool, PAGE, 3);
    struct transfer_piece piece = {0, 0, PAGE, 0};
    struct transfer_write write = {
        .peer = pair.peer, .token = WHOLE, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(pair.sender.backend, &write);
    assert_int_equal(pair.receiver.pool[0] | pair.receiver.pool[PAGE - 1], 0);
    assert_ptr_equal(poll_until(&pair), &write);
    assert_memory_equal(pair.receiver.pool, pair.sender.pool, PAGE);
    close_pair(&pair);
}

/* A write without pieces is a write: it comes back DONE. */
static void empty_write_comes_back(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    struct transfer_write write = {.peer = pair.peer, .token = WHOLE};
    transfer_backend_write(pair.sender.backend, &write);
    assert_ptr_equal(poll_until(&pair), &write);
    assert_int_equal(write.outcome, TRANSFER_DONE);
    close_pair(&pair);
}

/* The peer is closed between write and poll: both writes come back STOPPED
 * and the target keeps its zeros. */
static void closing_a_peer_stops_its_writes(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    fill(pair.sender.pool, PAGE, 4);
    struct transfer_piece pieces[2] = {{0, 0, PAGE, 0}, {0, PAGE, PAGE, 0}};
    struct transfer_write writes[2] = {{.peer = pair.peer,
                                        .token = WHOLE,
                                        .pieces = &pieces[0],
                                        .piece_count = 1},
                                       {.peer = pair.peer,
                                        .token = WHOLE,
                                        .pieces = &pieces[1],
                                        .piece_count = 1}};
    transfer_backend_write(pair.sender.backend, &writes[0]);
    transfer_backend_write(pair.sender.backend, &writes[1]);
    transfer_backend_peer_close(pair.peer);
    pair.peer = NULL;
    for (int i = 0; i < 2; i++) {
        struct transfer_write *write = poll_until(&pair);
        assert_int_equal(write->outcome, TRANSFER_STOPPED);
    }
    for (size_t i = 0; i < 2 * PAGE; i++) {
        assert_int_equal(pair.receiver.pool[i], 0);
    }
    close_pair(&pair);
}

/* A backend has one pool; the second request is refused, the first stays. */
static void second_pool_is_refused(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    void *more;
    struct why why;
    assert_int_equal(
        transfer_backend_alloc(pair.sender.backend, PAGE, &why, &more),
        ERR_EXISTS);
    close_pair(&pair);
}

/* Every cut of a real blob, and random bytes, are refused without a crash. */
static void junk_blobs_are_refused(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
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
static void foreign_memory_is_not_exported(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
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
static void pool_comes_through_the_allocator(struct kind kind)
{
    struct pair pair = {.hub = transfer_inproc_hub_create(),
                        .trace = transfer_trace_create()};
    struct transfer_backend *backend = make(&pair, kind, 33);
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
    transfer_trace_destroy(pair.trace);
}

/* A backend may write into its own pool: both roles in one worker. */
static void own_pool_can_be_the_target(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    struct transfer_backend_peer *self =
        open_peer(pair.sender.backend, &pair.sender);
    allow(&pair.sender, SENDER, WHOLE, 0, POOL_SIZE);
    fill(pair.sender.pool, PAGE, 6);
    struct transfer_piece piece = {0, PAGE, PAGE, 0};
    struct transfer_write write = {
        .peer = self, .token = WHOLE, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(pair.sender.backend, &write);
    poll_until(&pair);
    assert_memory_equal(pair.sender.pool, pair.sender.pool + PAGE, PAGE);
    transfer_backend_peer_close(self);
    close_pair(&pair);
}

/* With nothing to do, polls become idle and arm lets the owner sleep. */
static void idle_backend_lets_its_owner_sleep(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    bool is_busy = true;
    bool slept = false;
    for (int i = 0; i < 100000 && !slept; i++) {
        assert_null(transfer_backend_poll(pair.sender.backend, &is_busy));
        slept = !is_busy && transfer_backend_arm(pair.sender.backend) == OK;
    }
    assert_true(slept);
    close_pair(&pair);
}

/* Ten thousand pieces of random places and sizes, in writes of random length,
 * several under way at once; a model of the target gets the same in order and
 * is compared byte for byte. [transfer T39] */
static void scattered_writes_equal_a_model(struct kind kind)
{
    enum { PIECES = 10000, BATCH_MAX = 400 };
    struct pair pair;
    open_pair(&pair, kind);
    fill(pair.sender.pool, POOL_SIZE, 8);
    uint8_t *model = calloc(1, POOL_SIZE);
    struct transfer_piece pieces[BATCH_MAX];
    struct rng rng = rng_from_seed(9);
    for (size_t done = 0; done < PIECES;) {
        size_t count = 1 + rng_below(&rng, BATCH_MAX);
        for (size_t i = 0; i < count; i++) {
            uint64_t size =
                rng_below(&rng, rng_below(&rng, 8) == 0 ? POOL_SIZE / 2 : 600);
            pieces[i] = (struct transfer_piece){
                rng_below(&rng, POOL_SIZE - size),
                rng_below(&rng, POOL_SIZE - size), size, 0};
            memcpy(model + pieces[i].target_offset,
                   pair.sender.pool + pieces[i].source_offset, size);
        }
        struct transfer_write write = {.peer = pair.peer,
                                       .token = WHOLE,
                                       .pieces = pieces,
                                       .piece_count = count};
        transfer_backend_write(pair.sender.backend, &write);
        assert_ptr_equal(poll_until(&pair), &write);
        assert_int_equal(write.outcome, TRANSFER_DONE);
        for (size_t i = 0; i < count; i++) {
            struct span from = span_of(
                pair.sender.pool + pieces[i].source_offset, pieces[i].size);
            assert_int_equal(pieces[i].crc32c, digest_crc32c(0, from));
        }
        done += count;
    }
    assert_memory_equal(pair.receiver.pool, model, POOL_SIZE);
    free(model);
    close_pair(&pair);
}

/* Forty writes are queued at once: each comes back once, and all landed. */
static void many_writes_come_back_once_each(struct kind kind)
{
    enum { COUNT = 40 };
    struct pair pair;
    open_pair(&pair, kind);
    fill(pair.sender.pool, POOL_SIZE, 10);
    struct transfer_piece pieces[COUNT];
    struct transfer_write writes[COUNT] = {0};
    int backs[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        pieces[i] = (struct transfer_piece){(uint64_t)i * PAGE,
                                            (uint64_t)i * PAGE, PAGE, 0};
        writes[i] = (struct transfer_write){.peer = pair.peer,
                                            .token = WHOLE,
                                            .pieces = &pieces[i],
                                            .piece_count = 1,
                                            .context = &backs[i]};
        transfer_backend_write(pair.sender.backend, &writes[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        struct transfer_write *write = poll_until(&pair);
        assert_int_equal(write->outcome, TRANSFER_DONE);
        assert_ptr_equal(write->peer, pair.peer);
        ++*(int *)write->context;
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(backs[i], 1);
    }
    assert_memory_equal(pair.receiver.pool, pair.sender.pool, COUNT * PAGE);
    close_pair(&pair);
}

/* Where the receiver's own thread writes, revoke is its proof: a write of eight
 * times the pool is stopped after a few turns, the pool is filled with a canary as
 * a next owner would, and all that still comes must leave it alone. Then the
 * same connection serves another attempt. [transfer T70 T80] */
static void nothing_lands_after_revoke(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    for (int turns = 0; turns < 12 && is_self_copy(&pair); turns++) {
        fill(pair.sender.pool, POOL_SIZE, 12);
        struct transfer_piece pieces[8];
        for (int i = 0; i < 8; i++) {
            pieces[i] = (struct transfer_piece){0, 0, POOL_SIZE, 0};
        }
        struct transfer_write write = {.peer = pair.peer,
                                       .token = WHOLE,
                                       .pieces = pieces,
                                       .piece_count = 8};
        transfer_backend_write(pair.sender.backend, &write);
        struct transfer_write *back = NULL;
        for (int i = 0; i < turns && back == NULL; i++) {
            bool is_busy;
            back = transfer_backend_poll(pair.sender.backend, &is_busy);
            turn_receiver(&pair);
        }
        transfer_backend_revoke(pair.receiver.backend, SENDER, WHOLE);
        memset(pair.receiver.pool, 0xca, POOL_SIZE);
        back = back != NULL ? back : poll_until(&pair);
        assert_ptr_equal(back, &write);
        for (size_t i = 0; i < POOL_SIZE; i++) {
            assert_int_equal(pair.receiver.pool[i], 0xca);
        }
        allow(&pair.receiver, SENDER, WHOLE, 0, POOL_SIZE);
    }
    struct transfer_piece piece = {0, PAGE, PAGE, 0};
    struct transfer_write again = {
        .peer = pair.peer, .token = WHOLE, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(pair.sender.backend, &again);
    assert_ptr_equal(poll_until(&pair), &again);
    assert_int_equal(again.outcome, TRANSFER_DONE);
    assert_memory_equal(pair.receiver.pool + PAGE, pair.sender.pool, PAGE);
    close_pair(&pair);
}

/* Of two pages one is allowed: a write of both, one with a token that nobody
 * gave, and one to nothing of the pool come back STOPPED and touch neither the
 * other page nor anything else; one of the allowed page lands. */
static void only_what_is_authorised_lands(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    fill(pair.sender.pool, POOL_SIZE, 13);
    struct transfer_token token = {2, 7}, unknown = {2, 8};
    allow(&pair.receiver, SENDER, token, 4 * PAGE, PAGE);
    struct transfer_piece both[2] = {{0, 3 * PAGE, PAGE, 0},
                                     {PAGE, 4 * PAGE, PAGE, 0}};
    struct transfer_write writes[4] = {
        {.peer = pair.peer, .token = token, .pieces = both, .piece_count = 2},
        {.peer = pair.peer,
         .token = unknown,
         .pieces = both + 1,
         .piece_count = 1},
        {.peer = pair.peer,
         .token = token,
         .pieces = both + 1,
         .piece_count = 1}};
    for (int i = 0; i < 3 && is_self_copy(&pair); i++) {
        transfer_backend_write(pair.sender.backend, &writes[i]);
        assert_ptr_equal(poll_until(&pair), &writes[i]);
        bool is_right = i == 2;
        assert_int_equal(writes[i].outcome,
                         is_right ? TRANSFER_DONE : TRANSFER_STOPPED);
        for (size_t at = 0; at < POOL_SIZE; at++) {
            bool is_allowed = at / PAGE == 4;
            assert_true(is_allowed || pair.receiver.pool[at] == 0);
        }
    }
    if (is_self_copy(&pair)) {
        assert_memory_equal(pair.receiver.pool + 4 * PAGE,
                            pair.sender.pool + PAGE, PAGE);
    }
    close_pair(&pair);
}

/* A token is one transfer's: a second one is refused while it lasts, and other
 * bodies need none at all. */
static void tokens_are_given_once(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    struct transfer_range range = {0, PAGE};
    bool knows_tokens = pair.receiver.backend->ops->revoke != NULL;
    enum err err = transfer_backend_authorise(pair.receiver.backend, SENDER,
                                              WHOLE, &range, 1);
    assert_true(err == OK || (knows_tokens && err == ERR_EXISTS));
    transfer_backend_revoke(pair.receiver.backend, SENDER, WHOLE);
    transfer_backend_revoke(pair.receiver.backend, SENDER, WHOLE);
    allow(&pair.receiver, SENDER, WHOLE, 0, POOL_SIZE);
    close_pair(&pair);
}

/* The receiver goes away under a write: it comes back, not later DONE than the
 * bytes could be, and the peer can be closed. [transfer T57] */
static void a_receiver_that_ends_gives_writes_back(struct kind kind)
{
    struct pair pair;
    open_pair(&pair, kind);
    struct transfer_piece pieces[8];
    for (int i = 0; i < 8; i++) {
        pieces[i] = (struct transfer_piece){0, 0, POOL_SIZE, 0};
    }
    struct transfer_write write = {
        .peer = pair.peer, .token = WHOLE, .pieces = pieces, .piece_count = 8};
    transfer_backend_write(pair.sender.backend, &write);
    bool is_busy;
    struct transfer_write *back =
        transfer_backend_poll(pair.sender.backend, &is_busy);
    close_side(&pair.receiver);
    pair.receiver.backend = NULL;
    back = back != NULL ? back : poll_until(&pair);
    assert_ptr_equal(back, &write);
    if (kind.body == TCP || kind.body == TCP_V6 || kind.body == INPROC) {
        assert_int_equal(write.outcome, TRANSFER_STOPPED);
    }
    close_pair(&pair);
}

#define CASES(X)                         \
    X(pages_arrive_and_nothing_else)     \
    X(write_only_queues)                 \
    X(empty_write_comes_back)            \
    X(closing_a_peer_stops_its_writes)   \
    X(second_pool_is_refused)            \
    X(junk_blobs_are_refused)            \
    X(foreign_memory_is_not_exported)    \
    X(pool_comes_through_the_allocator)  \
    X(own_pool_can_be_the_target)        \
    X(idle_backend_lets_its_owner_sleep) \
    X(scattered_writes_equal_a_model)    \
    X(many_writes_come_back_once_each)   \
    X(nothing_lands_after_revoke)        \
    X(only_what_is_authorised_lands)     \
    X(tokens_are_given_once)             \
    X(a_receiver_that_ends_gives_writes_back)
CASES(FOR_ALL_KINDS)

#define LIST(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {CASES(LIST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
