#include "unit/base/test.h"

#include "base/mem.h"

/* Under the address sanitizer too, refusal is the answer we want to see. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* Products that wrap and sizes nobody has are NULL. */
static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    volatile size_t half = SIZE_MAX / 2;
    assert_null(mem_try_array(half, 4));
    assert_null(mem_try_array(1, half));
    assert_null(mem_try_aligned(64, SIZE_MAX));
    assert_null(mem_try_aligned(64, half));
    void *memory = mem_new(8);
    assert_null(mem_try_resize(memory, half));
    mem_free(memory);
    mem_free(NULL);
}

static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    uint8_t *plain = mem_new_array(10, 10);
    uint8_t *aligned = mem_try_aligned(4096, 100);
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(plain[i] | aligned[i], 0);
    }
    mem_free(plain);
    mem_free(aligned);
}

/* Nothing at all is still memory that can be freed. */
static void empty_requests_are_answered(void **state)
{
    (void)state;
    void *a = mem_try_array(0, 8);
    void *b = mem_try_aligned(64, 0);
    void *c = mem_copy(NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    mem_free(a);
    mem_free(b);
    mem_free(c);
}

static void copies_are_their_own(void **state)
{
    (void)state;
    char text[] = "abc";
    char *copy = mem_copy_string(text);
    text[0] = 'x';
    assert_string_equal(copy, "abc");
    mem_free(copy);
}

/* The counter that proofs of "allocates nothing" read. */
static void every_allocation_counts(void **state)
{
    (void)state;
    uint64_t before = mem_allocation_count();
    void *memory = mem_new(1);
    memory = mem_try_resize(memory, 100);
    mem_free(memory);
    mem_free(mem_try_aligned(64, 64));
    mem_free(mem_copy_string("x"));
    assert_int_equal(mem_allocation_count() - before, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(empty_requests_are_answered),
        cmocka_unit_test(copies_are_their_own),
        cmocka_unit_test(every_allocation_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
