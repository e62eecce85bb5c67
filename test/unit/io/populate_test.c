/* io/populate: pages become resident behind their owner's back, and nothing
 * they hold changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "io/populate.h"

enum { PAGE_COUNT = 3000 };

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *map(void)
{
    void *memory = mmap(NULL, PAGE_COUNT * page_size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

static uint32_t resident_count(uint8_t *memory)
{
    unsigned char *pages = mem_new_array(PAGE_COUNT, 1);
    assert_int_equal(mincore(memory, PAGE_COUNT * page_size(), pages), 0);
    uint32_t count = 0;
    for (uint32_t i = 0; i < PAGE_COUNT; i++) {
        count += pages[i] & 1;
    }
    mem_free(pages);
    return count;
}

static void wait_until_done(const struct io_populate *populate)
{
    while (!io_populate_is_done(populate)) {
        usleep(1000);
    }
}

/* mincore counts before and after; a byte written before the start survives. */
static void all_pages_are_resident_and_keep_what_they_held(void **state)
{
    (void)state;
    uint8_t *memory = map();
    memory[7 * page_size()] = 42;
    assert_true(resident_count(memory) < PAGE_COUNT);
    struct io_populate *populate = NULL;
    assert_int_equal(
        io_populate_start(memory, PAGE_COUNT * page_size(), &populate), OK);
    wait_until_done(populate);
    io_populate_finish(populate);
    assert_int_equal(resident_count(memory), PAGE_COUNT);
    assert_int_equal(memory[7 * page_size()], 42);
    munmap(memory, PAGE_COUNT * page_size());
}

/* Proof, with ThreadSanitizer: the owner may write every page meanwhile, and
 * finds what it wrote. */
static void the_owner_may_write_meanwhile(void **state)
{
    (void)state;
    uint8_t *memory = map();
    size_t size = PAGE_COUNT * page_size();
    struct io_populate *populate = NULL;
    assert_int_equal(io_populate_start(memory, size, &populate), OK);
    do {
        memset(memory, 7, size);
    } while (!io_populate_is_done(populate));
    io_populate_finish(populate);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(memory[i], 7);
    }
    munmap(memory, size);
}

/* The last page of the range is cut in half: it is not touched, nor is the
 * unaligned first one. */
static void only_whole_pages_inside_the_range_are_touched(void **state)
{
    (void)state;
    uint8_t *memory = map();
    struct io_populate *populate = NULL;
    assert_int_equal(io_populate_start(memory + 1, 4 * page_size(), &populate),
                     OK);
    wait_until_done(populate);
    io_populate_finish(populate);
    assert_int_equal(resident_count(memory), 3);
    munmap(memory, PAGE_COUNT * page_size());
}

/* The kernel refuses a read-only mapping: done all the same. */
static void a_refusal_ends_it_quietly(void **state)
{
    (void)state;
    uint8_t *memory = map();
    assert_int_equal(mprotect(memory, PAGE_COUNT * page_size(), PROT_READ), 0);
    struct io_populate *populate = NULL;
    assert_int_equal(
        io_populate_start(memory, PAGE_COUNT * page_size(), &populate), OK);
    wait_until_done(populate);
    io_populate_finish(populate);
    munmap(memory, PAGE_COUNT * page_size());
}

/* Part of a page counts as the page. */
static void a_read_only_range_becomes_resident(void **state)
{
    (void)state;
    uint8_t *memory = map();
    size_t size = PAGE_COUNT * page_size();
    assert_int_equal(mprotect(memory, size, PROT_READ), 0);
    assert_true(io_populate_read(span_of(memory + 10, page_size())));
    assert_int_equal(resident_count(memory), 2);
    assert_true(io_populate_read(span_of(memory, size)));
    assert_int_equal(resident_count(memory), PAGE_COUNT);
    assert_true(io_populate_read(span_of(NULL, 0)));
    munmap(memory, size);
}

/* Ended at once: joins, whatever it had reached; NULL is fine. */
static void it_can_be_stopped_at_any_time(void **state)
{
    (void)state;
    uint8_t *memory = map();
    struct io_populate *populate = NULL;
    assert_int_equal(
        io_populate_start(memory, PAGE_COUNT * page_size(), &populate), OK);
    io_populate_finish(populate);
    io_populate_finish(NULL);
    munmap(memory, PAGE_COUNT * page_size());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pages_are_resident_and_keep_what_they_held),
        cmocka_unit_test(the_owner_may_write_meanwhile),
        cmocka_unit_test(only_whole_pages_inside_the_range_are_touched),
        cmocka_unit_test(a_refusal_ends_it_quietly),
        cmocka_unit_test(a_read_only_range_becomes_resident),
        cmocka_unit_test(it_can_be_stopped_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
