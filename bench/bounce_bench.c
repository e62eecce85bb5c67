/* Whether it pays to pack pages on their way (src/transfer/bounce.h): hand-offs
 * of scattered pages from one transfer to another, digests, results and checks
 * included, packed beside the plain way, turn about in one run:
 *
 *   tcp      over loopback; the receiver's own thread copies either way
 *   shared   into the receiver's memory; the sender's thread copies
 *
 * Each end is a thread with its loop, as in a worker. [transfer T97] */
#include <string.h>

#include "agree/word.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "io/thread.h"
#include "line.h"
#include "transfer/backend_tcp.h"
#include "transfer/backend_ucx.h"
#include "transfer/transfer.h"

enum {
    MIB = 1 << 20,
    PAGES_MAX = 32768,
    ROUND_MAX = 64 * MIB,
    ARENA = 256 * MIB,
    ROUNDS = 7,
};

/* One worker's transfer. */
struct end {
    struct transfer_backend *backend;
    uint8_t *memory;
    size_t pool_size;
    struct io_waker *orders_waker, *reports_waker;
    struct transfer_port port;
    struct io_loop *loop;
    struct io_thread *thread;
    struct transfer *transfer;
    uint64_t incarnation;
};

struct pair {
    struct end sender, receiver;
};

static uint64_t last_id;
static kv_page_id from[PAGES_MAX], to[PAGES_MAX];

static void stop_on(enum err err, const struct why *why)
{
    if (err) {
        fprintf(stderr, "bounce_bench: %s %s\n", err_name(err),
                why != NULL ? why->text : "");
        exit(1);
    }
}

static void run_end(void *context)
{
    io_loop_run(context);
}

static struct io_mailbox *mailbox_of(size_t size, struct io_waker *waker)
{
    struct io_mailbox *mailbox;
    struct io_mailbox_options options = {size, 64, waker};
    stop_on(io_mailbox_create(&options, &mailbox), NULL);
    return mailbox;
}

static void open_backend(struct end *end, bool is_tcp)
{
    struct why why = {{0}};
    if (is_tcp) {
        struct transfer_backend_tcp_options options = {
            .incarnation = end->incarnation, .host = "127.0.0.1"};
        stop_on(transfer_backend_tcp_create(&options, &why, &end->backend),
                &why);
    } else {
        struct transfer_backend_ucx_options options = {end->incarnation};
        stop_on(transfer_backend_ucx_create(&options, &why, &end->backend),
                &why);
    }
}

static void open_end(struct end *end, bool is_tcp, bool is_packed,
                     uint32_t page_bytes, uint32_t page_count)
{
    static uint64_t incarnation = 100;
    struct why why = {{0}};
    *end = (struct end){.incarnation = ++incarnation,
                        .pool_size = (size_t)page_bytes * page_count};
    open_backend(end, is_tcp);
    size_t size = end->pool_size + (is_packed ? ARENA : 0);
    void *memory;
    stop_on(transfer_backend_alloc(end->backend, size, &why, &memory), &why);
    end->memory = memory;
    memset(memory, (int)incarnation, size);
    stop_on(io_waker_create(&end->orders_waker), NULL);
    stop_on(io_waker_create(&end->reports_waker), NULL);
    end->port.commands =
        mailbox_of(sizeof(struct transfer_command), end->orders_waker);
    end->port.reports =
        mailbox_of(sizeof(struct transfer_report), end->reports_waker);
    stop_on(io_loop_create(&end->loop), NULL);
    struct kv_layout layout = {1, 1, page_bytes / 4, 1, 2};
    struct transfer_options options = {
        .loop = end->loop,
        .backend = end->backend,
        .memory = end->memory,
        .memory_size = size,
        .group_count = 1,
        .groups = {{.pool = {end->memory, page_bytes, page_count, layout}}},
        .bounce = {.offset = end->pool_size,
                   .size = is_packed ? ARENA : 0,
                   .patience_ns = UINT64_C(60000000000),
                   .is_forced = true},
        .incarnation = end->incarnation,
        .host = "127.0.0.1",
        .port = end->port,
        .commands_waker = end->orders_waker,
    };
    stop_on(transfer_create(&options, &why, &end->transfer), &why);
    stop_on(io_thread_start("transfer", run_end, end->loop, &end->thread),
            NULL);
}

static void close_end(struct end *end)
{
    io_loop_stop(end->loop);
    io_thread_join(end->thread);
    stop_on(transfer_destroy(end->transfer), NULL);
    transfer_backend_free(end->backend, end->memory);
    transfer_backend_destroy(end->backend);
    io_mailbox_destroy(end->port.commands);
    io_mailbox_destroy(end->port.reports);
    io_waker_destroy(end->orders_waker);
    io_waker_destroy(end->reports_waker);
    io_loop_destroy(end->loop);
}

static void open_pair(struct pair *pair, bool is_tcp, bool is_packed,
                      uint32_t page_bytes, uint32_t count)
{
    open_end(&pair->sender, is_tcp, is_packed, page_bytes, count);
    open_end(&pair->receiver, is_tcp, is_packed, page_bytes, count);
}

static void close_pair(struct pair *pair)
{
    close_end(&pair->sender);
    close_end(&pair->receiver);
}

static void wait_for(struct end *end)
{
    struct transfer_report report = {0};
    while (!(report.word & AGREE_QUIET)) {
        io_waker_wait(end->reports_waker, 1000000);
        if (!io_mailbox_take(end->port.reports, &report)) {
            report.word = 0;
        }
    }
    if (report.word & AGREE_FAILED) {
        fprintf(stderr, "bounce_bench: %s\n", report.text);
        exit(1);
    }
}

/* Order to quiet at both ends, in ns. */
static double hand_over(struct pair *pair, uint32_t count)
{
    uint64_t id = ++last_id;
    struct transfer_command command = {.kind = TRANSFER_SEND,
                                       .request = id,
                                       .rid = (int64_t)id,
                                       .pages = {from},
                                       .group_count = 1,
                                       .block_count = count,
                                       .prompt_tokens = count,
                                       .end_block = count,
                                       .is_last = true};
    uint64_t begin = io_clock_now_ns();
    stop_on(io_mailbox_post(pair->sender.port.commands, &command), NULL);
    command.kind = TRANSFER_RECEIVE;
    command.pages[0] = to;
    command.sender_incarnation = pair->sender.incarnation;
    snprintf(command.sender_endpoint, sizeof(command.sender_endpoint), "%.279s",
             transfer_endpoint(pair->sender.transfer));
    stop_on(io_mailbox_post(pair->receiver.port.commands, &command), NULL);
    wait_for(&pair->receiver);
    wait_for(&pair->sender);
    return (double)(io_clock_now_ns() - begin);
}

static void bench_size(bool is_tcp, uint32_t page_bytes)
{
    static struct pair plain, packed;
    uint32_t count = ROUND_MAX / page_bytes;
    count = count < PAGES_MAX ? count : PAGES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        from[i] = (kv_page_id)((uint64_t)i * 7919 % count);
        to[i] = (kv_page_id)((uint64_t)i * 4973 % count);
    }
    open_pair(&plain, is_tcp, false, page_bytes, count);
    open_pair(&packed, is_tcp, true, page_bytes, count);
    hand_over(&plain, count);
    hand_over(&packed, count);
    double ours[ROUNDS], theirs[ROUNDS], ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        theirs[i] = hand_over(&plain, count);
        ours[i] = hand_over(&packed, count);
        ratios[i] = theirs[i] / ours[i];
    }
    double bytes = (double)page_bytes * count;
    char name[64], against[64];
    snprintf(name, sizeof(name), "%s, packed, %u pages of %u bytes",
             is_tcp ? "tcp" : "shared memory", count, page_bytes);
    snprintf(against, sizeof(against), "plain, %.2f GB/s",
             bytes / line_median(theirs, ROUNDS));
    line_print(&(struct line){.bench = "bounce",
                              .name = name,
                              .value = bytes / line_median(ours, ROUNDS),
                              .unit = "GB/s",
                              .against = against,
                              .ratio = line_median(ratios, ROUNDS),
                              .runs = ROUNDS});
    close_pair(&plain);
    close_pair(&packed);
}

int main(void)
{
    static const uint32_t sizes[] = {64, 256, 1024, 4096, 16384, 65536};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        bench_size(true, sizes[i]);
    }
    bench_size(false, 256);
    bench_size(false, 4096);
    return 0;
}
