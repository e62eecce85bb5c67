/* One suite for all bodies of device/copy.h: host with one and with four
 * threads, sim with and without poison. */
#include "copier.h"

#define MIB ((size_t)1 << 20)
enum { PAGE = 4096 };

static struct rig small_rig(enum copier_body body)
{
    return rig_open(
        &(struct setup){.body = body, .limits = {8, 40, 8}, .seed = 40});
}

/* Lists of no copies and of copies of 0 bytes, from and to nowhere: they end
 * well, take no launch, and do not stand in the way of what follows, in a pack
 * too. [engine T40] */
static void zero_bytes_take_no_launch(enum copier_body body)
{
    struct rig rig = small_rig(body);
    struct device_copy empty[3] = {
        {.bytes = 0}, copy_between((void *)3, (void *)5, 0), {.bytes = 0}};
    device_ticket first = rig_submit(&rig, empty, 3, NULL, 0);
    struct device_copy_done done = rig_await(&rig);
    assert_int_equal(done.ticket, first);
    assert_int_equal(done.err, OK);
    assert_int_equal(done.launches, 0);
    device_ticket none = rig_submit(&rig, NULL, 0, NULL, 0);
    done = rig_await(&rig);
    assert_int_equal(done.ticket, none);
    assert_int_equal(done.launches, 0);
    _Alignas(16) uint8_t bytes[64] = "sixteen";
    empty[1] = copy_between(bytes + 16, bytes, 16);
    rig_submit(&rig, empty, 3, NULL, 0);
    assert_int_equal(rig_await(&rig).launches, 1);
    assert_string_equal((char *)bytes + 16, "sixteen");
    struct device_copier_stats stats = device_copier_stats(rig.copier);
    assert_int_equal(stats.submissions, 3);
    assert_int_equal(stats.copies, 6);
    assert_int_equal(stats.bytes, 16);
    assert_int_equal(stats.launches, 1);
    assert_int_equal(stats.failures, 0);
    rig_close(&rig);
}

/* Away and back again through a second memory, between guard bytes, at each
 * size around a step of the split: what came back is what left, the guards
 * stand, and a copy took as many launches as it has shares.
 * [engine T8 T40] */
static void large_pages_go_there_and_back(enum copier_body body)
{
    const size_t sizes[] = {8 * MIB - 16, 8 * MIB,   8 * MIB + 16,
                            20 * MIB,     100 * MIB, 128 * MIB + 16};
    const uint32_t shares[] = {1, 1, 2, 3, 13, 16};
    const size_t size_max = 128 * MIB + 16 + 128;
    uint8_t *near = take_bytes(size_max);
    uint8_t *far = take_bytes(size_max);
    struct rig rig = small_rig(body);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i];
        fill(near, bytes + 128, i);
        memset(far, 0x11, bytes + 128);
        struct device_copy away = copy_between(far + 64, near + 64, bytes);
        rig_submit(&rig, &away, 1, NULL, 0);
        struct device_copy_done done = rig_await(&rig);
        assert_int_equal(done.err, OK);
        assert_int_equal(done.launches, shares[i]);
        assert_true(memcmp(far + 64, near + 64, bytes) == 0);
        memset(near + 64, 0x22, bytes);
        struct device_copy back = copy_between(near + 64, far + 64, bytes);
        rig_submit(&rig, &back, 1, NULL, 0);
        assert_int_equal(rig_await(&rig).launches, shares[i]);
        assert_true(memcmp(far + 64, near + 64, bytes) == 0);
        for (size_t g = 0; g < 64; g++) {
            assert_int_equal(far[g], 0x11);
            assert_int_equal(far[64 + bytes + g], 0x11);
        }
        uint8_t guard[128];
        fill(guard, 64, i);
        assert_memory_equal(near, guard, 64);
    }
    rig_close(&rig);
    mem_free(near);
    mem_free(far);
}

/* Forty pages of sizes from 16 bytes to 40 KiB, scattered over the target in
 * the opposite order: each lies where it should, what is between is as it was,
 * and they shared launches. */
static void scattered_small_pages_are_packed(enum copier_body body)
{
    enum { COUNT = 40, SLOT = 40960 };
    struct rig rig = small_rig(body);
    uint8_t *from = take_bytes(COUNT * SLOT);
    uint8_t *to = take_bytes(COUNT * SLOT);
    uint8_t *expected = take_bytes(COUNT * SLOT);
    struct rng rng = rng_from_seed(4);
    struct device_copy copies[COUNT];
    fill(from, COUNT * SLOT, 1);
    fill(to, COUNT * SLOT, 2);
    fill(expected, COUNT * SLOT, 2);
    for (size_t i = 0; i < COUNT; i++) {
        size_t bytes = 16 * (1 + rng_below(&rng, i % 2 ? SLOT / 16 : 4));
        size_t target = (COUNT - 1 - i) * SLOT;
        copies[i] = copy_between(to + target, from + i * SLOT, bytes);
        memcpy(expected + target, from + i * SLOT, bytes);
    }
    rig_submit(&rig, copies, COUNT, NULL, 0);
    struct device_copy_done done = rig_await(&rig);
    assert_in_range(done.launches, 1, 4);
    assert_memory_equal(to, expected, COUNT * SLOT);
    rig_close(&rig);
    mem_free(from);
    mem_free(to);
    mem_free(expected);
}

/* Eight copies in a chain, page i to page i + 1, each waiting for the one
 * before: the last page is the first, and the ends come in the order of the
 * chain. A sleeping owner is woken as often as it takes. */
static void chain_runs_in_its_order(enum copier_body body)
{
    enum { LINKS = 8, BYTES = 3 * PAGE };
    struct rig rig = small_rig(body);
    uint8_t *pages = take_bytes((LINKS + 1) * BYTES);
    for (int round = 0; round < 200; round++) {
        fill(pages, (LINKS + 1) * BYTES, (uint64_t)round);
        device_ticket last = 0;
        device_ticket tickets[LINKS];
        for (size_t i = 0; i < LINKS; i++) {
            struct device_copy copy =
                copy_between(pages + (i + 1) * BYTES, pages + i * BYTES, BYTES);
            last = rig_submit(&rig, &copy, 1, &last, 1);
            tickets[i] = last;
        }
        for (size_t i = 0; i < LINKS; i++) {
            assert_int_equal(rig_await(&rig).ticket, tickets[i]);
        }
        assert_memory_equal(pages, pages + LINKS * BYTES, BYTES);
    }
    rig_close(&rig);
    mem_free(pages);
}

/* Two pages are copied, then both are written anew by copies that wait for the
 * first ones, twice over: the source keeps its bytes until it has been read.
 * (7.1, invariant 6) */
static void source_is_not_written_before_it_was_read(enum copier_body body)
{
    struct rig rig = small_rig(body);
    uint8_t *bytes = take_bytes(6 * PAGE);
    for (int round = 0; round < 100; round++) {
        uint8_t expected[2 * PAGE];
        fill(bytes, 6 * PAGE, (uint64_t)round);
        memcpy(expected, bytes, 2 * PAGE);
        struct device_copy save[] = {
            copy_between(bytes + 2 * PAGE, bytes, PAGE),
            copy_between(bytes + 3 * PAGE, bytes + PAGE, PAGE)};
        struct device_copy reuse =
            copy_between(bytes, bytes + 4 * PAGE, 2 * PAGE);
        device_ticket saved = rig_submit(&rig, save, 2, NULL, 0);
        rig_submit(&rig, &reuse, 1, &saved, 1);
        rig_await(&rig);
        rig_await(&rig);
        assert_memory_equal(bytes + 2 * PAGE, expected, 2 * PAGE);
        assert_memory_equal(bytes, bytes + 4 * PAGE, 2 * PAGE);
    }
    rig_close(&rig);
    mem_free(bytes);
}

/* An empty submission that waits for all others ends last: how an owner asks
 * for the end of several. */
static void empty_submission_joins_others(enum copier_body body)
{
    struct rig rig = small_rig(body);
    uint8_t *bytes = take_bytes(14 * PAGE);
    device_ticket waits[7];
    for (size_t i = 0; i < 7; i++) {
        struct device_copy copy =
            copy_between(bytes + (7 + i) * PAGE, bytes + i * PAGE, PAGE);
        waits[i] = rig_submit(&rig, &copy, 1, NULL, 0);
    }
    device_ticket join = rig_submit(&rig, NULL, 0, waits, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_not_equal(rig_await(&rig).ticket, join);
    }
    assert_int_equal(rig_await(&rig).ticket, join);
    rig_close(&rig);
    mem_free(bytes);
}

/* Fills all places, is refused with nothing changed, ticket and counts
 * included, and taken again after one poll, not after an end that was not
 * polled. */
static void full_changes_nothing(enum copier_body body)
{
    struct rig rig = small_rig(body);
    _Alignas(16) uint8_t bytes[32] = {1};
    struct device_copy copy = copy_between(bytes + 16, bytes, 16);
    device_ticket last = 0;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(device_copier_room(rig.copier), 8 - i);
        last = rig_submit(&rig, &copy, 1, &last, 1);
    }
    device_copier_drain(rig.copier);
    struct device_copier_stats before = device_copier_stats(rig.copier);
    struct device_copy_order order = {&copy, 1, &last, 1};
    device_ticket ticket = 77;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(device_copier_submit(rig.copier, &order, &ticket),
                         ERR_FULL);
    }
    struct device_copier_stats after = device_copier_stats(rig.copier);
    assert_int_equal(ticket, 77);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(rig_await(&rig).ticket, 1);
    assert_int_equal(rig_submit(&rig, &copy, 1, &last, 1), last + 1);
    for (int i = 0; i < 8; i++) {
        rig_await(&rig);
    }
    struct device_copy_done done;
    assert_false(device_copier_poll(rig.copier, &done));
    assert_int_equal(device_copier_room(rig.copier), 8);
    rig_close(&rig);
}

/* After drain every end is there to be polled, each once; is_done changes with
 * the poll and not before. */
static void drain_leaves_the_ends_to_poll(enum copier_body body)
{
    struct rig rig = small_rig(body);
    uint8_t *bytes = take_bytes(16 * PAGE);
    device_copier_drain(rig.copier);
    fill(bytes, 16 * PAGE, 5);
    for (size_t i = 0; i < 8; i++) {
        struct device_copy copy =
            copy_between(bytes + (8 + i) * PAGE, bytes + i * PAGE, PAGE);
        rig_submit(&rig, &copy, 1, NULL, 0);
    }
    device_copier_drain(rig.copier);
    assert_memory_equal(bytes, bytes + 8 * PAGE, 8 * PAGE);
    bool is_told[9] = {false};
    struct device_copy_done done;
    for (int i = 0; i < 8; i++) {
        assert_true(device_copier_poll(rig.copier, &done));
        assert_in_range(done.ticket, 1, 8);
        assert_false(is_told[done.ticket]);
        is_told[done.ticket] = true;
        for (device_ticket t = 1; t <= 8; t++) {
            assert_int_equal(device_copier_is_done(rig.copier, t), is_told[t]);
        }
    }
    assert_false(device_copier_poll(rig.copier, &done));
    rig_close(&rig);
    mem_free(bytes);
}

/* A copier full of work, some of it waiting, is destroyed without a poll:
 * nothing leaks and the bytes have moved. */
static void destroy_ends_what_runs(enum copier_body body)
{
    struct rig rig = small_rig(body);
    uint8_t *bytes = take_bytes(9 * MIB);
    device_ticket last = 0;
    fill(bytes, MIB, 6);
    for (size_t i = 0; i < 8; i++) {
        struct device_copy copy =
            copy_between(bytes + (i + 1) * MIB, bytes + i * MIB, MIB);
        last = rig_submit(&rig, &copy, 1, &last, 1);
    }
    rig_close(&rig);
    assert_true(memcmp(bytes, bytes + 8 * MIB, MIB) == 0);
    mem_free(bytes);
}

/* Counts allocations over 500 submissions with waits and polls: none. */
static void steady_state_allocates_nothing(enum copier_body body)
{
    struct rig rig = small_rig(body);
    uint8_t *bytes = take_bytes(8 * PAGE);
    uint64_t before = mem_allocation_count();
    device_ticket last = 0;
    for (int i = 0; i < 500; i++) {
        struct device_copy copies[2] = {
            copy_between(bytes + PAGE, bytes, PAGE),
            copy_between(bytes + 3 * PAGE, bytes + 2 * PAGE, PAGE)};
        device_ticket waits[2] = {last, last};
        last = rig_submit(&rig, copies, 2, waits, 2);
        if (device_copier_room(rig.copier) < 3) {
            rig_await(&rig);
        }
    }
    device_copier_drain(rig.copier);
    assert_int_equal(mem_allocation_count(), before);
    rig_close(&rig);
    mem_free(bytes);
}

/* The copier says what it was made with. */
static void limits_are_those_given(enum copier_body body)
{
    struct rig rig = small_rig(body);
    struct device_copier_limits limits = device_copier_limits(rig.copier);
    assert_int_equal(limits.submission_count_max, 8);
    assert_int_equal(limits.copy_count_max, 40);
    assert_int_equal(limits.wait_count_max, 8);
    assert_string_equal(device_copier_name(rig.copier),
                        rig_is_sim(&rig) ? "sim" : "host");
    rig_close(&rig);
}

EACH_BODY(zero_bytes_take_no_launch)
EACH_BODY(large_pages_go_there_and_back)
EACH_BODY(scattered_small_pages_are_packed)
EACH_BODY(chain_runs_in_its_order)
EACH_BODY(source_is_not_written_before_it_was_read)
EACH_BODY(empty_submission_joins_others)
EACH_BODY(full_changes_nothing)
EACH_BODY(drain_leaves_the_ends_to_poll)
EACH_BODY(destroy_ends_what_runs)
EACH_BODY(steady_state_allocates_nothing)
EACH_BODY(limits_are_those_given)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BODY_TEST(zero_bytes_take_no_launch),
        EACH_BODY_TEST(large_pages_go_there_and_back),
        EACH_BODY_TEST(scattered_small_pages_are_packed),
        EACH_BODY_TEST(chain_runs_in_its_order),
        EACH_BODY_TEST(source_is_not_written_before_it_was_read),
        EACH_BODY_TEST(empty_submission_joins_others),
        EACH_BODY_TEST(full_changes_nothing),
        EACH_BODY_TEST(drain_leaves_the_ends_to_poll),
        EACH_BODY_TEST(destroy_ends_what_runs),
        EACH_BODY_TEST(steady_state_allocates_nothing),
        EACH_BODY_TEST(limits_are_those_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
