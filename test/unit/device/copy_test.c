/* device/copy: the ledger of a copier, and the promises of its owner. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "device/copy_body.h"
#include "device/copy_sim.h"

/* A body that ends what the test tells it to. */
struct scripted {
    struct device_copier base;
    uint32_t next; /* answered to poll once */
    uint32_t last_slot;
    uint32_t waits[4];
    uint32_t wait_count;
};

static void scripted_submit(struct device_copier *copier, uint32_t slot,
                            const uint32_t *waits, uint32_t wait_count)
{
    struct scripted *body = (struct scripted *)copier;
    body->last_slot = slot;
    body->wait_count = wait_count;
    memcpy(body->waits, waits, wait_count * sizeof(*waits));
}

static uint32_t scripted_poll(struct device_copier *copier)
{
    struct scripted *body = (struct scripted *)copier;
    uint32_t slot = body->next;
    body->next = DEVICE_COPY_SLOT_NONE;
    return slot;
}

static const struct device_copier_ops SCRIPTED = {
    .name = "scripted",
    .kinds = 1u << DEVICE_KIND_HOST,
    .submit = scripted_submit,
    .poll = scripted_poll,
};

static void scripted_open(struct scripted *body, uint32_t submissions)
{
    struct device_copier_limits limits = {submissions, 3, 4};
    memset(body, 0, sizeof(*body));
    assert_int_equal(device_copier_init(&body->base, &SCRIPTED, &limits), OK);
    body->next = DEVICE_COPY_SLOT_NONE;
}

static device_ticket scripted_add(struct scripted *body,
                                  const device_ticket *waits, uint32_t count)
{
    device_ticket ticket = 0;
    struct device_copy_order order = {.waits = waits, .wait_count = count};
    assert_int_equal(device_copier_submit(&body->base, &order, &ticket), OK);
    return ticket;
}

/* Ends the middle one of three, then looks up all by number: only it is done;
 * tickets count up although slots are used again. */
static void ticket_is_done_when_poll_has_said_so(void **state)
{
    (void)state;
    struct scripted body;
    struct device_copy_done done;
    scripted_open(&body, 3);
    uint32_t slots[4];
    for (device_ticket i = 1; i <= 3; i++) {
        assert_int_equal(scripted_add(&body, NULL, 0), i);
        slots[i] = body.last_slot;
        assert_false(device_copier_is_done(&body.base, i));
    }
    body.base.slots[slots[2]].err = ERR_IO;
    body.base.slots[slots[2]].launches = 5;
    body.next = slots[2];
    assert_false(device_copier_is_done(&body.base, 2));
    assert_true(device_copier_poll(&body.base, &done));
    assert_int_equal(done.ticket, 2);
    assert_int_equal(done.err, ERR_IO);
    assert_int_equal(done.launches, 5);
    assert_false(device_copier_poll(&body.base, &done));
    assert_true(device_copier_is_done(&body.base, 0));
    assert_false(device_copier_is_done(&body.base, 1));
    assert_true(device_copier_is_done(&body.base, 2));
    assert_false(device_copier_is_done(&body.base, 3));
    assert_int_equal(device_copier_room(&body.base), 1);
    assert_int_equal(scripted_add(&body, NULL, 0), 4);
    assert_int_equal(body.last_slot, slots[2]);
    assert_false(device_copier_is_done(&body.base, 4));
    struct device_copier_stats stats = device_copier_stats(&body.base);
    assert_int_equal(stats.submissions, 4);
    assert_int_equal(stats.done, 1);
    assert_int_equal(stats.failures, 1);
    assert_int_equal(stats.launches, 5);
    device_copier_finish(&body.base);
}

/* Waits for nothing, for a ticket polled long ago and for two live ones: the
 * body hears of the live ones only. */
static void body_is_told_of_live_waits_only(void **state)
{
    (void)state;
    struct scripted body;
    struct device_copy_done done;
    scripted_open(&body, 4);
    device_ticket old = scripted_add(&body, NULL, 0);
    body.next = body.last_slot;
    assert_true(device_copier_poll(&body.base, &done));
    device_ticket a = scripted_add(&body, NULL, 0);
    uint32_t slot_a = body.last_slot;
    device_ticket b = scripted_add(&body, NULL, 0);
    uint32_t slot_b = body.last_slot;
    scripted_add(&body, (device_ticket[]){0, b, old, a}, 4);
    assert_int_equal(body.wait_count, 2);
    assert_int_equal(body.waits[0], slot_b);
    assert_int_equal(body.waits[1], slot_a);
    device_copier_finish(&body.base);
}

/* ---- promises ---- */

static _Alignas(64) uint8_t bytes[4096];

static struct device_copier *sim_open(void)
{
    struct device_copier_sim_options options = {.limits = {4, 2, 2},
                                                .rng = rng_from_seed(1)};
    struct device_copier *copier = NULL;
    assert_int_equal(device_copier_sim_create(&options, &copier), OK);
    return copier;
}

static struct device_copy copy_of(size_t to, size_t from, size_t size)
{
    return (struct device_copy){device_address_host(bytes + to),
                                device_address_host(bytes + from), size};
}

/* The signal that ends a child which submits this, 0 if it lives. */
static int signal_of(const struct device_copy_order *order)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        device_ticket ticket;
        IGNORE(device_copier_submit(sim_open(), order, &ticket));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Each breach in a child of its own: it aborts; the same without the breach
 * does not. */
static void broken_promises_end_the_process(void **state)
{
    (void)state;
    const struct {
        struct device_copy copies[2];
        uint32_t copy_count, wait_count;
        int expected;
    } cases[] = {
        {{copy_of(0, 1024, 512)}, 1, 0, 0},
        {{copy_of(0, 1024, 520)}, 1, 0, SIGABRT},
        {{copy_of(8, 1024, 512)}, 1, 0, SIGABRT},
        {{copy_of(0, 1028, 512)}, 1, 0, SIGABRT},
        {{copy_of(3, 1, 0)}, 1, 0, 0},
        {{copy_of(0, 496, 512)}, 1, 0, SIGABRT},
        {{copy_of(0, 512, 512)}, 1, 0, 0},
        {{copy_of(0, 1024, 512), copy_of(496, 2048, 512)}, 2, 0, SIGABRT},
        {{copy_of(0, 1024, 512), copy_of(2048, 0, 512)}, 2, 0, SIGABRT},
        {{copy_of(0, 1024, 512), copy_of(512, 1024, 512)}, 2, 0, 0},
        {{copy_of(0, 1024, 512)}, 3, 0, SIGABRT},
        {{copy_of(0, 1024, 512)}, 1, 1, SIGABRT}, /* a ticket of the future */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct device_copy copies[3];
        memcpy(copies, cases[i].copies, sizeof(cases[i].copies));
        copies[2] = copies[0];
        struct device_copy_order order = {
            .copies = copies,
            .copy_count = cases[i].copy_count,
            .waits = (device_ticket[]){1},
            .wait_count = cases[i].wait_count,
        };
        assert_int_equal(signal_of(&order), cases[i].expected);
    }
}

/* An address of a kind that the body does not reach is refused likewise. */
static void foreign_kind_ends_the_process(void **state)
{
    (void)state;
    struct device_copy copy = copy_of(0, 1024, 512);
    copy.to.kind = DEVICE_KIND_COUNT;
    struct device_copy_order order = {.copies = &copy, .copy_count = 1};
    assert_int_equal(signal_of(&order), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticket_is_done_when_poll_has_said_so),
        cmocka_unit_test(body_is_told_of_live_waits_only),
        cmocka_unit_test(broken_promises_end_the_process),
        cmocka_unit_test(foreign_kind_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
