/* transfer/pool_key: blobs of like pools decode, all others are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/pool_key.h"

/* A key with the number 11, whose bytes also stand at its start. */
static size_t build(uint8_t *out, int32_t segment, uint64_t address)
{
    memcpy(out, "\x0b\0\0\0\0\0\0\0\0\0\x0c", 11);
    memcpy(out + 11, &segment, 4);
    memcpy(out + 15, &address, 8);
    out[23] = 0;
    return 24;
}

static struct pool_key ours;

static void learn(void)
{
    uint8_t bytes[32];
    size_t size = build(bytes, 11, 0x7f0011223344);
    assert_int_equal(
        pool_key_learn(&ours, span_of(bytes, size), 11, 0x7f0011223344, NULL),
        OK);
    assert_int_equal(ours.segment_at, 11);
}

static enum err decode(const uint8_t *key, size_t size, uint64_t address,
                       struct pool_blob *blob_out)
{
    struct buf out;
    buf_init(&out, 4096);
    struct pool_blob blob = {5, address, 4096, 0, span_of(key, size)};
    pool_blob_encode(&blob, &out);
    static uint8_t kept[4096];
    memcpy(kept, out.data, out.size);
    enum err err =
        pool_blob_decode(span_of(kept, out.size), &ours, NULL, blob_out);
    buf_finish(&out);
    return err;
}

/* Another segment and address of the same kind: taken, with its number. */
static void like_pools_are_taken(void **state)
{
    (void)state;
    learn();
    uint8_t key[32];
    struct pool_blob blob;
    size_t size = build(key, 99, 0x7f00aa);
    assert_int_equal(decode(key, size, 0x7f00aa, &blob), OK);
    assert_int_equal(blob.segment, 99);
    assert_int_equal(blob.incarnation, 5);
    assert_int_equal(blob.pool_size, 4096);
}

/* Any other byte that differs, another length, and an address that the key
 * does not have. */
static void other_kinds_are_refused(void **state)
{
    (void)state;
    learn();
    uint8_t key[32];
    struct pool_blob blob;
    size_t size = build(key, 99, 0x7f00aa);
    for (size_t i = 0; i < size; i++) {
        key[i] ^= 1;
        bool is_segment = i >= 11 && i < 15;
        assert_int_equal(decode(key, size, 0x7f00aa, &blob),
                         is_segment ? OK : ERR_UNSUPPORTED);
        key[i] ^= 1;
    }
    assert_int_equal(decode(key, size - 1, 0x7f00aa, &blob), ERR_UNSUPPORTED);
    assert_int_equal(decode(key, size, 0x7f00ab, &blob), ERR_UNSUPPORTED);
    assert_int_equal(pool_blob_decode(span_of(key, 3), &ours, NULL, &blob),
                     ERR_INVALID);
}

/* A key in which the parts cannot be found is not learnt. */
static void strange_keys_are_not_learnt(void **state)
{
    (void)state;
    uint8_t key[32];
    size_t size = build(key, 1, 2);
    struct pool_key learnt = {0};
    assert_int_equal(pool_key_learn(&learnt, span_of(key, size), 1, 3, NULL),
                     ERR_UNSUPPORTED);
    assert_int_equal(learnt.size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_pools_are_taken),
        cmocka_unit_test(other_kinds_are_refused),
        cmocka_unit_test(strange_keys_are_not_learnt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
