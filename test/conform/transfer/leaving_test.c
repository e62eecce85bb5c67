/* Shared memory of a peer that has gone: it is let go in bounded steps of poll,
 * never at once, so that nobody else waits for it. */
#include <unistd.h>

#include "conform/transfer/leaks.h"
#include "conform/transfer/pair.h"

enum { LARGE = 64 << 20 };

/* Mappings of shared memory that are as large as the peer's pool. */
static uint32_t mapped_pools(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    uint32_t count = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from = 0, to = 0;
        assert_int_equal(sscanf(line, "%lx-%lx", &from, &to), 2);
        count += strstr(line, "/SYSV") != NULL && to - from >= LARGE;
    }
    IGNORE(fclose(maps));
    return count;
}

static struct transfer_backend_peer *meet(struct transfer_backend *sender,
                                          struct transfer_backend *receiver,
                                          void *pool)
{
    struct buf blob;
    struct why why = {{0}};
    struct transfer_backend_peer *peer = NULL;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(
        transfer_backend_export(receiver, pool, LARGE, &why, &blob), OK);
    assert_int_equal(
        transfer_backend_peer_open(sender, buf_span(&blob), LARGE, &why, &peer),
        OK);
    buf_finish(&blob);
    return peer;
}

/* Polls while there is more to do. */
static uint32_t poll_to_rest(struct transfer_backend *backend)
{
    bool is_busy = true;
    uint32_t polls = 0;
    for (; is_busy && polls < 100000; polls++) {
        assert_null(transfer_backend_poll(backend, &is_busy));
    }
    assert_false(is_busy);
    return polls;
}

/* Its pages are touched, its owner ends, the peer is closed: several steps later
 * no mapping of it is left. A second time, by destroy. */
static void a_pool_goes_in_steps(void **state)
{
    (void)state;
    struct transfer_backend *sender = make_ucx(SENDER);
    struct why why;
    void *own;
    assert_int_equal(transfer_backend_alloc(sender, PAGE, &why, &own), OK);
    for (int i = 0; i < 2; i++) {
        struct transfer_backend *receiver = make_ucx(RECEIVER);
        void *pool;
        assert_int_equal(transfer_backend_alloc(receiver, LARGE, &why, &pool),
                         OK);
        struct transfer_backend_peer *peer = meet(sender, receiver, pool);
        assert_true(poll_to_rest(sender) > 8); /* populated */
        transfer_backend_free(receiver, pool);
        transfer_backend_destroy(receiver);
        transfer_backend_peer_close(peer);
        assert_true(mapped_pools() > 0);
        if (i == 0) {
            assert_true(poll_to_rest(sender) > 8);
        } else {
            transfer_backend_free(sender, own);
            transfer_backend_destroy(sender);
        }
        for (int k = 0; k < 10000 && mapped_pools() > 0; k++) {
            usleep(1000);
        }
        assert_int_equal(mapped_pools(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_goes_in_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
