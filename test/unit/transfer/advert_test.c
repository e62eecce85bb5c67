/* transfer/advert: the sender's table of receivers that wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/advert.h"
#include "wire/bytes.h"

static struct buf list;

static struct wire_recv_request request_of(int64_t rid, int64_t first)
{
    buf_reset(&list);
    wire_write_u64(&list, (uint64_t)first);
    wire_write_u64(&list, (uint64_t)-1);
    wire_write_u64(&list, 3);
    wire_write_u64(&list, (uint64_t)-1);
    return (struct wire_recv_request){
        .rid = rid,
        .prompt_tokens = 9,
        .block_count = 2,
        .group_count = 2,
        .groups = {span_of(list.data, 16), span_of(list.data + 16, 16)}};
}

static enum err store(struct transfer_adverts *adverts, int64_t rid,
                      uint64_t receiver, uint32_t attempt, int64_t page,
                      uint64_t now, struct transfer_advert **advert_out)
{
    struct wire_recv_request request = request_of(rid, page);
    const uint32_t page_counts[2] = {8, 4};
    return transfer_adverts_store(adverts, receiver, attempt, &request,
                                  page_counts, 2, now, advert_out);
}

/* The same again is the same entry; another attempt or list under the key is
 * refused; pages outside the receiver's pool never get in. */
static void key_holds_one_advertisement(void **state)
{
    (void)state;
    struct transfer_adverts *adverts = transfer_adverts_create(3);
    struct transfer_advert *a, *b;
    assert_int_equal(store(adverts, 5, 1, 1, 7, 0, &a), OK);
    assert_int_equal(transfer_blocks_page(&a->blocks[0], 0), 7);
    assert_int_equal(transfer_blocks_page(&a->blocks[1], 0), 3);
    assert_int_equal(store(adverts, 5, 1, 1, 7, 0, &b), OK);
    assert_ptr_equal(a, b);
    assert_int_equal(store(adverts, 5, 1, 2, 7, 0, &b), ERR_EXISTS);
    assert_int_equal(store(adverts, 5, 1, 1, 6, 0, &b), ERR_EXISTS);
    assert_int_equal(store(adverts, 6, 1, 1, 8, 0, &b), ERR_INVALID);
    assert_int_equal(store(adverts, 6, 1, 1, -2, 0, &b), ERR_INVALID);
    assert_int_equal(store(adverts, 6, 1, 1, 0, 0, &b), OK);
    assert_int_equal(store(adverts, 7, 1, 1, 0, 0, &b), ERR_FULL);
    assert_int_equal(transfer_adverts_stored(adverts), 2);
    transfer_advert_move(a, ADVERT_CLOSE);
    assert_int_equal(store(adverts, 7, 1, 1, 0, 0, &b), OK);
    transfer_adverts_destroy(adverts);
}

/* One receiver waits in half of the places at most, the others in the rest; what
 * is bound to a session counts no more. */
static void one_receiver_leaves_room_for_others(void **state)
{
    (void)state;
    struct transfer_adverts *adverts = transfer_adverts_create(4);
    struct transfer_advert *a, *b;
    assert_int_equal(store(adverts, 5, 1, 1, 7, 0, &a), OK);
    assert_int_equal(store(adverts, 6, 1, 1, 7, 0, &b), OK);
    assert_int_equal(store(adverts, 7, 1, 1, 7, 0, &b), ERR_FULL);
    assert_int_equal(store(adverts, 7, 2, 1, 7, 0, &b), OK);
    transfer_advert_move(a, ADVERT_BIND);
    assert_int_equal(store(adverts, 8, 1, 1, 7, 0, &b), OK);
    assert_int_equal(store(adverts, 9, 2, 1, 7, 0, &b), ERR_FULL);
    transfer_adverts_destroy(adverts);
}

/* A page of the second group outside its own pool, a group too few, lists that
 * would take more room than one message may: none of it gets in. */
static void groups_are_checked_each_by_its_pool(void **state)
{
    (void)state;
    struct transfer_adverts *adverts = transfer_adverts_create(2);
    struct transfer_advert *a;
    struct wire_recv_request request = request_of(5, 0);
    const uint32_t small[2] = {8, 3}, good[2] = {8, 4};
    assert_int_equal(
        transfer_adverts_store(adverts, 1, 1, &request, small, 2, 0, &a),
        ERR_INVALID);
    request.group_count = 1;
    assert_int_equal(
        transfer_adverts_store(adverts, 1, 1, &request, good, 2, 0, &a),
        ERR_INVALID);
    request.group_count = 2;
    request.groups[0] = request.groups[1] = span_of(NULL, 0);
    request.block_count = WIRE_BLOCK_COUNT_MAX / 2 + 1;
    assert_int_equal(
        transfer_adverts_store(adverts, 1, 1, &request, good, 2, 0, &a),
        ERR_INVALID);
    request.block_count--;
    assert_int_equal(
        transfer_adverts_store(adverts, 1, 1, &request, good, 2, 0, &a), OK);
    transfer_adverts_destroy(adverts);
}

/* The clock of a rid starts with its first receiver, runs strictly past the
 * time, and stops when it is bound. [transfer T28] */
static void clock_starts_with_the_first_receiver(void **state)
{
    (void)state;
    struct transfer_adverts *adverts = transfer_adverts_create(4);
    struct transfer_advert *a, *b;
    assert_int_equal(store(adverts, 5, 1, 1, 7, 100, &a), OK);
    assert_int_equal(store(adverts, 5, 2, 1, 7, 150, &b), OK);
    assert_int_equal(b->arrived_ns, 100);
    assert_null(transfer_adverts_find_expired(adverts, 220, 120));
    assert_non_null(transfer_adverts_find_expired(adverts, 221, 120));
    transfer_advert_move(a, ADVERT_BIND);
    assert_ptr_equal(transfer_adverts_find_expired(adverts, 221, 120), b);
    transfer_advert_move(b, ADVERT_EXPIRE);
    assert_null(transfer_adverts_find_expired(adverts, 999, 120));
    assert_ptr_equal(transfer_adverts_find(adverts, 5, 1), a);
    assert_null(transfer_adverts_find(adverts, 5, 2));
    transfer_adverts_destroy(adverts);
}

int main(void)
{
    buf_init(&list, 64);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_holds_one_advertisement),
        cmocka_unit_test(one_receiver_leaves_room_for_others),
        cmocka_unit_test(groups_are_checked_each_by_its_pool),
        cmocka_unit_test(clock_starts_with_the_first_receiver),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_finish(&list);
    return failed;
}
