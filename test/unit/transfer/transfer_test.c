/* The ends of a transfer, on simulated hosts. What it does in between stands in
 * test/conform/transfer and test/prop/sim. */
#include "unit/base/test.h"

#include "agree/word.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "io/sim.h"
#include "transfer/backend_inproc.h"
#include "transfer/process.h"
#include "transfer/transfer.h"

enum { PAGE_COUNT = 4, INCARNATION = 7 };

static struct io_sim *sim;
static struct io_loop *loop;
static struct transfer_inproc_hub *hub;
static struct transfer_backend *backend;
static struct io_waker *waker;
static struct transfer_port port;
static struct kv_pool_view pool;
static struct transfer *transfer;

static void create_pool(void)
{
    struct kv_layout layout = {.layer_count = 1,
                               .kv_head_count = 1,
                               .head_dim = 8,
                               .tokens_per_block = 4,
                               .element_bytes = 2};
    pool = (struct kv_pool_view){.layout = layout,
                                 .page_bytes = kv_layout_page_bytes(&layout),
                                 .page_count = PAGE_COUNT};
    struct why why;
    void *memory;
    assert_int_equal(transfer_backend_alloc(
                         backend, PAGE_COUNT * pool.page_bytes, &why, &memory),
                     OK);
    pool.base = memory;
}

static int set_up(void **state)
{
    (void)state;
    struct io_sim_options world = {.rng = rng_from_seed(1),
                                   .start_ns = 1000,
                                   .latency_ns_max = 1000,
                                   .turn_ns_max = 10,
                                   .buffer_size = 65536};
    sim = io_sim_create(&world);
    assert_int_equal(io_sim_loop_create(sim, 1, &loop), OK);
    assert_int_equal(io_sim_waker_create(sim, &waker), OK);
    hub = transfer_inproc_hub_create();
    assert_int_equal(transfer_backend_inproc_create(hub, INCARNATION, &backend),
                     OK);
    create_pool();
    struct io_mailbox_options commands = {sizeof(struct transfer_command), 4,
                                          waker};
    struct io_mailbox_options reports = {sizeof(struct transfer_report), 4,
                                         NULL};
    assert_int_equal(io_mailbox_create(&commands, &port.commands), OK);
    assert_int_equal(io_mailbox_create(&reports, &port.reports), OK);
    struct transfer_identity identity = {"here", 1, 1};
    struct transfer_options options = {.loop = loop,
                                       .backend = backend,
                                       .memory = pool.base,
                                       .memory_size =
                                           pool.page_bytes * pool.page_count,
                                       .group_count = 1,
                                       .groups = {{.pool = pool}},
                                       .incarnation = INCARNATION,
                                       .identity = &identity,
                                       .host = "10.0.0.1",
                                       .port = port,
                                       .commands_waker = waker};
    struct why why = {0};
    assert_int_equal(transfer_create(&options, &why, &transfer), OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    io_waker_destroy(waker);
    io_mailbox_destroy(port.commands);
    io_mailbox_destroy(port.reports);
    transfer_backend_free(backend, pool.base);
    transfer_backend_destroy(backend);
    transfer_inproc_hub_destroy(hub);
    io_loop_destroy(loop);
    assert_int_equal(io_sim_counts(sim).sockets, 0);
    io_sim_destroy(sim);
    return 0;
}

static const kv_page_id PAGES[1] = {2};

static void order_receive(void)
{
    struct transfer_command command = {.kind = TRANSFER_RECEIVE,
                                       .request = 1,
                                       .rid = 5,
                                       .pages = {PAGES},
                                       .group_count = 1,
                                       .block_count = 1,
                                       .prompt_tokens = 3,
                                       .sender_incarnation = 9,
                                       .sender_endpoint =
                                           "tcp://10.0.0.2:7000"};
    assert_int_equal(io_mailbox_post(port.commands, &command), OK);
}

/* A receive is in the mailbox and no turn was taken: its session counts. It
 * ends by itself, since nobody is there, and then the transfer may go.
 * [transfer I32] */
static void what_was_ordered_last_keeps_it_alive(void **state)
{
    (void)state;
    order_receive();
    assert_int_equal(transfer_destroy(transfer), ERR_BUSY);
    struct transfer_report report = {0};
    for (int i = 0; i < 1000 && !io_mailbox_take(port.reports, &report); i++) {
        io_sim_step(sim, io_sim_now(sim) + 1000000);
    }
    assert_int_equal(report.word, AGREE_TERMINAL | AGREE_FAILED | AGREE_QUIET);
    assert_int_equal(transfer_destroy(transfer), OK);
}

/* The end of the process asks nobody: neither an order that waits nor a session
 * under way holds it up, and no socket is left. */
static void an_abandoned_one_leaves_nothing(void **state)
{
    (void)state;
    order_receive();
    assert_int_equal(transfer_destroy(transfer), ERR_BUSY);
    order_receive();
    transfer_abandon(transfer);
    struct transfer_report report;
    assert_false(io_mailbox_take(port.reports, &report));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_ordered_last_keeps_it_alive,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_abandoned_one_leaves_nothing, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
