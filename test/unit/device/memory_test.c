/* device/memory: taking and giving through an allocator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/memory.h"

static int taken, given;

static enum err take_counted(void *context, size_t size, struct why *why,
                             void **memory_out)
{
    if (context != NULL) {
        return why_say(why, ERR_NO_MEMORY, "none left");
    }
    taken++;
    struct device_allocator heap = device_allocator_heap();
    return heap.take(heap.context, size, why, memory_out);
}

static void give_counted(void *context, void *memory, size_t size)
{
    given++;
    struct device_allocator heap = device_allocator_heap();
    (void)context;
    heap.give(heap.context, memory, size);
}

/* Every byte of a taken piece is zero and its base is aligned. */
static void heap_memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    struct device_allocator heap = device_allocator_heap();
    struct device_memory memory;
    struct why why;
    assert_int_equal(device_memory_take(&heap, 1000, &why, &memory), OK);
    assert_int_equal((uintptr_t)memory.base % DEVICE_ALIGNMENT, 0);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(memory.base[i], 0);
    }
    device_memory_give(&memory);
    assert_null(memory.base);
    device_memory_give(&memory);
}

/* Counts the calls of a foreign allocator: one take, one give, also when given
 * twice. */
static void memory_goes_back_to_the_allocator_it_came_from(void **state)
{
    (void)state;
    struct device_allocator foreign = {
        .name = "counted", .take = take_counted, .give = give_counted};
    struct device_memory memory;
    struct why why;
    assert_int_equal(device_memory_take(&foreign, 64, &why, &memory), OK);
    device_memory_give(&memory);
    device_memory_give(&memory);
    assert_int_equal(taken, 1);
    assert_int_equal(given, 1);
}

/* Size 0 and a refusing allocator: an error that says who refused, and the
 * output untouched. */
static void refusals_are_told_and_change_nothing(void **state)
{
    (void)state;
    struct device_allocator foreign = {.name = "full",
                                       .take = take_counted,
                                       .give = give_counted,
                                       .context = &foreign};
    struct device_memory memory = {.size = 77};
    struct why why;
    assert_int_equal(device_memory_take(&foreign, 0, &why, &memory),
                     ERR_INVALID);
    assert_int_equal(device_memory_take(&foreign, 8, &why, &memory),
                     ERR_NO_MEMORY);
    assert_non_null(strstr(why.text, "full memory: none left"));
    assert_int_equal(memory.size, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_memory_is_zeroed_and_aligned),
        cmocka_unit_test(memory_goes_back_to_the_allocator_it_came_from),
        cmocka_unit_test(refusals_are_told_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
