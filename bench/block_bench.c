/* What a hand-off costs whatever its size: one block, from the moment its last
 * token is computed (the last slice is posted) until the receiver's engine holds
 * the report that all pages are there. Digest, result, first tokens and both
 * wake-ups are in it. Both loops and the engine sleep when it begins, as on idle
 * workers; beside it what one thread needs to wake another.
 *
 *   engine -> mailbox -> sender's loop -> pages, result -> receiver's loop
 *          -> digests checked -> mailbox -> engine
 *
 * [transfer T99] */
#include <time.h>

#include "pair.h"

enum {
    PAGE_BYTES = 65536,
    PAGES = 64,
    WARM = 50,
    RUNS = 1000,
    SLEEP_NS = 1500000, /* until everybody sleeps */
};

static uint64_t last_id;

static void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* Both have met and know the pages; nothing is computed yet. */
static struct transfer_command begin(struct pair *pair, const kv_page_id *page)
{
    uint64_t id = ++last_id;
    struct transfer_command command = {.kind = TRANSFER_OFFER,
                                       .request = id,
                                       .rid = (int64_t)id,
                                       .pages = {page},
                                       .group_count = 1,
                                       .block_count = 1,
                                       .prompt_tokens = 1};
    struct transfer_command receive = command;
    pair_post(&pair->sender, &command);
    pair_make_receive(pair, &receive, page);
    receive.is_generation_first = true;
    pair_post(&pair->receiver, &receive);
    while (!pair_next(&pair->sender).is_awaited) {
    }
    return command;
}

static double hand_over(struct pair *pair)
{
    kv_page_id page = (kv_page_id)(last_id * 7 % PAGES);
    struct transfer_command command = begin(pair, &page);
    command.kind = TRANSFER_SEND;
    command.end_block = 1;
    command.is_last = true;
    command.aux = pair_first_tokens(1);
    sleep_ns(SLEEP_NS);
    uint64_t begin_ns = io_clock_now_ns();
    pair_post(&pair->sender, &command);
    pair_wait_quiet(&pair->receiver);
    double ns = (double)(io_clock_now_ns() - begin_ns);
    pair_wait_quiet(&pair->sender);
    return ns;
}

/* -------- the least: one thread wakes another, which answers -------- */

struct echo {
    struct io_waker *there, *back;
};

static void answer(void *context)
{
    struct echo *echo = context;
    for (int i = 0; i < RUNS; i++) {
        io_waker_wait(echo->there, UINT64_C(1000000000));
        io_waker_wake(echo->back);
    }
}

/* Median of there and back, halved. */
static double wake_ns(void)
{
    static double times[RUNS];
    struct echo echo;
    struct io_thread *thread;
    pair_stop_on(io_waker_create(&echo.there), NULL);
    pair_stop_on(io_waker_create(&echo.back), NULL);
    pair_stop_on(io_thread_start("echo", answer, &echo, &thread), NULL);
    for (int i = 0; i < RUNS; i++) {
        sleep_ns(SLEEP_NS / 4);
        uint64_t begin_ns = io_clock_now_ns();
        io_waker_wake(echo.there);
        io_waker_wait(echo.back, UINT64_C(1000000000));
        times[i] = (double)(io_clock_now_ns() - begin_ns) / 2;
    }
    io_thread_join(thread);
    io_waker_destroy(echo.there);
    io_waker_destroy(echo.back);
    return line_median(times, RUNS);
}

static void bench_lane(const char *lane, bool is_tcp, double goal_us)
{
    static double times[RUNS];
    struct pair pair;
    struct pair_options options = {
        .is_tcp = is_tcp, .page_bytes = PAGE_BYTES, .page_count = PAGES};
    pair_open(&pair, &options);
    for (int i = 0; i < WARM + RUNS; i++) {
        double ns = hand_over(&pair);
        times[i < WARM ? 0 : i - WARM] = ns;
    }
    pair_close(&pair);
    char median[64], tail[64];
    snprintf(median, sizeof(median), "%s, one block of 64 KiB to the report",
             lane);
    snprintf(tail, sizeof(tail), "%s, the same, 99 of 100", lane);
    line_print(&(struct line){.bench = "block",
                              .name = median,
                              .value = line_median(times, RUNS) / 1e3,
                              .unit = "us",
                              .goal = goal_us,
                              .runs = RUNS});
    line_print(&(struct line){.bench = "block",
                              .name = tail,
                              .value = line_quantile(times, RUNS, 990) / 1e3,
                              .unit = "us",
                              .runs = RUNS});
}

int main(void)
{
    line_print(&(struct line){.bench = "block",
                              .name = "a sleeping thread is woken",
                              .value = wake_ns() / 1e3,
                              .unit = "us",
                              .runs = RUNS});
    bench_lane("shared memory", false, 100);
    bench_lane("tcp", true, 0);
    return 0;
}
