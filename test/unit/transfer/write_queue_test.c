/* transfer/write_queue: order and bounded steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/write_queue.h"

/* First in, first out, also after it ran empty. */
static void queue_keeps_the_order(void **state)
{
    (void)state;
    struct transfer_write_queue queue = {0};
    struct transfer_write writes[3] = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            transfer_write_queue_push(&queue, &writes[i]);
        }
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(transfer_write_queue_pop(&queue), &writes[i]);
        }
        assert_null(transfer_write_queue_pop(&queue));
    }
}

/* Five pieces of 400 KiB take two steps: three, then two. */
static void step_stops_after_about_a_mebibyte(void **state)
{
    (void)state;
    enum { PIECE = 400 * 1024 };
    uint8_t *source = calloc(5, PIECE), *target = calloc(5, PIECE);
    struct transfer_piece pieces[5];
    for (size_t i = 0; i < 5; i++) {
        pieces[i] = (struct transfer_piece){i * PIECE, i * PIECE, PIECE, 0};
        memset(source + i * PIECE, (int)i + 1, PIECE);
    }
    struct transfer_write write = {.pieces = pieces, .piece_count = 5};
    struct transfer_target pools = {source, 5 * PIECE, target, 5 * PIECE};
    assert_false(transfer_write_step(&write, &pools));
    assert_int_equal(write.cursor, 3);
    assert_int_equal(target[3 * PIECE], 0);
    assert_true(transfer_write_step(&write, &pools));
    assert_memory_equal(source, target, 5 * PIECE);
    free(source);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_keeps_the_order),
        cmocka_unit_test(step_stops_after_about_a_mebibyte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
