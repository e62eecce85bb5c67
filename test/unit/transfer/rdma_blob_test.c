/* transfer/rdma_blob: an address goes there and back; each single bit of it
 * spoilt, another key, and whatever breaks a limit is refused. [transfer T37] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "transfer/rdma_blob.h"

/* Domains 1 and 3: keys of two and of no bytes. */
static const uint8_t KEY[] = {0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 2, 7, 8, 0};
static const uint8_t WORKER[] = {1, 2, 3, 4, 5};
#define SECRET span_of_string("the key of all")

static struct rdma_blob good(void)
{
    return (struct rdma_blob){
        .incarnation = 5,
        .address = 0x7f0000000000,
        .pool_size = 4096,
        .worker = span_of(WORKER, sizeof(WORKER)),
        .key = span_of(KEY, sizeof(KEY)),
    };
}

static enum err encode(const struct rdma_blob *blob, struct buf *out)
{
    struct why why;
    buf_init(out, 16384);
    return rdma_blob_encode(blob, SECRET, &why, out);
}

static enum err decode(struct span bytes, struct span secret)
{
    struct rdma_blob blob;
    struct why why = {{0}};
    enum err err = rdma_blob_decode(bytes, secret, &why, &blob);
    assert_true(err == OK || why.text[0] != 0);
    return err;
}

static void address_goes_there_and_back(void **state)
{
    (void)state;
    struct rdma_blob blob = good(), back;
    struct buf bytes;
    struct why why;
    assert_int_equal(encode(&blob, &bytes), OK);
    assert_int_equal(rdma_blob_decode(buf_span(&bytes), SECRET, &why, &back),
                     OK);
    assert_int_equal(back.incarnation, 5);
    assert_true(back.address == blob.address && back.pool_size == 4096);
    assert_int_equal(back.worker.size, sizeof(WORKER));
    assert_memory_equal(back.worker.data, WORKER, sizeof(WORKER));
    assert_int_equal(back.key.size, sizeof(KEY));
    assert_memory_equal(back.key.data, KEY, sizeof(KEY));
    buf_finish(&bytes);
}

static void spoilt_and_foreign_ones_are_refused(void **state)
{
    (void)state;
    struct rdma_blob blob = good();
    struct buf bytes;
    assert_int_equal(encode(&blob, &bytes), OK);
    for (size_t i = 0; i < 8 * bytes.size; i++) {
        bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(decode(buf_span(&bytes), SECRET), OK);
        bytes.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t size = 0; size < bytes.size; size++) {
        assert_int_not_equal(decode(span_of(bytes.data, size), SECRET), OK);
    }
    assert_int_equal(decode(buf_span(&bytes), span_of_string("another")),
                     ERR_DENIED);
    assert_int_equal(decode(buf_span(&bytes), SECRET), OK);
    buf_finish(&bytes);
}

/* Well sealed, and still no address: what an encoder of ours never makes is
 * refused by the decoder too. */
static void limits_are_kept(void **state)
{
    (void)state;
    static const uint8_t long_worker[RDMA_ADDRESS_SIZE_MAX + 1] = {1};
    struct rdma_blob cases[7];
    for (int i = 0; i < 7; i++) {
        cases[i] = good();
    }
    cases[0].incarnation = 0;
    cases[1].address = 0;
    cases[2].pool_size = 0;
    cases[3].pool_size = RDMA_POOL_SIZE_MAX + 1;
    cases[4].address = UINT64_MAX - 100;
    cases[5].worker.size = 0;
    cases[6].worker = span_of(long_worker, sizeof(long_worker));
    for (int i = 0; i < 7; i++) {
        struct buf bytes;
        enum err err = encode(&cases[i], &bytes);
        err = err ? err : decode(buf_span(&bytes), SECRET);
        assert_int_equal(err, i == 6 ? ERR_UNSUPPORTED : ERR_INVALID);
        buf_finish(&bytes);
    }
}

/* Every cut of a key, one byte more, no domain, memory of another kind. */
static void keys_must_end_where_they_say(void **state)
{
    (void)state;
    uint8_t key[sizeof(KEY) + 1] = {0};
    memcpy(key, KEY, sizeof(KEY));
    assert_true(rdma_key_is_whole(span_of(key, sizeof(KEY))));
    for (size_t size = 0; size <= sizeof(key); size++) {
        assert_true(rdma_key_is_whole(span_of(key, size)) ==
                    (size == sizeof(KEY)));
    }
    key[0] = 0;
    assert_false(rdma_key_is_whole(span_of(key, 9)));
    key[0] = 0x0a;
    key[8] = 1;
    assert_false(rdma_key_is_whole(span_of(key, sizeof(KEY))));
    struct rdma_blob blob = good();
    struct buf bytes;
    blob.key.size--;
    assert_int_equal(encode(&blob, &bytes), ERR_UNSUPPORTED);
    buf_finish(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_goes_there_and_back),
        cmocka_unit_test(spoilt_and_foreign_ones_are_refused),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(keys_must_end_where_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
