/* transfer/mourner: one for each lost sender, in fixed places. */
#include "fake_control.h"

#include "transfer/mourner.h"
#include "transfer/process.h"

static struct io_loop *loop;

static struct transfer_process *watch(uint64_t incarnation)
{
    struct why why = {0};
    struct transfer_identity us;
    assert_int_equal(transfer_identity_read(&why, &us), OK);
    return transfer_process_open(loop, &us, &us, incarnation);
}

static struct link lost(uint64_t incarnation, const char *endpoint)
{
    struct link link = {.incarnation = incarnation,
                        .process = watch(incarnation)};
    snprintf(link.endpoint, sizeof(link.endpoint), "%s", endpoint);
    return link;
}

/* The second connection of one sender changes nothing: the first proof and
 * endpoint stay, the link keeps its own. */
static void one_sender_is_mourned_once(void **state)
{
    (void)state;
    struct mourners mourners;
    mourners_init(&mourners, 2);
    struct link first = lost(7, "tcp://a:1");
    struct link again = lost(7, "tcp://a:2");
    mourners_add(&mourners, &first, 100);
    mourners_add(&mourners, &again, 200);
    assert_null(first.process);
    assert_non_null(again.process);
    uint32_t used = 0;
    for (uint32_t i = 0; i < mourners.capacity; i++) {
        struct mourner *mourner = &mourners.items[i];
        used += mourner->is_used;
        if (mourner->is_used) {
            assert_string_equal(mourner->endpoint, "tcp://a:1");
            assert_int_equal(mourner->retry_ns, 100);
        }
    }
    assert_int_equal(used, 1);
    transfer_process_close(again.process);
    mourners_finish(&mourners);
}

/* Full: the link keeps its proof. After an end there is a place again. */
static void places_are_bounded_and_come_back(void **state)
{
    (void)state;
    struct mourners mourners;
    mourners_init(&mourners, 1);
    struct link first = lost(7, "tcp://a:1");
    struct link second = lost(8, "tcp://b:1");
    mourners_add(&mourners, &first, 1);
    mourners_add(&mourners, &second, 1);
    assert_non_null(second.process);
    mourner_end(&mourners.items[0]);
    mourners_add(&mourners, &second, 1);
    assert_null(second.process);
    assert_int_equal(mourners.items[0].incarnation, 8);
    mourners_finish(&mourners);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_sender_is_mourned_once),
        cmocka_unit_test(places_are_bounded_and_come_back),
    };
    assert_int_equal(io_loop_create(&loop), OK);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    io_loop_destroy(loop);
    return failed;
}
