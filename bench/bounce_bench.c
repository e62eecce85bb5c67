/* Whether it pays to pack pages on their way (src/transfer/bounce.h): hand-offs
 * of scattered pages from one transfer to another, digests, results and checks
 * included, packed beside the plain way, turn about in one run:
 *
 *   tcp      over loopback; the receiver's own thread copies either way
 *   shared   into the receiver's memory; the sender's thread copies
 *
 * Each end is a thread with its loop, as in a worker. [transfer T97] */
#include "pair.h"

enum {
    MIB = 1 << 20,
    PAGES_MAX = 32768,
    ROUND_MAX = 64 * MIB,
    ARENA = 256 * MIB,
    ROUNDS = 7,
};

static uint64_t last_id;
static kv_page_id from[PAGES_MAX], to[PAGES_MAX];

static void open_pair(struct pair *pair, bool is_tcp, bool is_packed,
                      uint32_t page_bytes, uint32_t count)
{
    struct pair_options options = {.is_tcp = is_tcp,
                                   .page_bytes = page_bytes,
                                   .page_count = count,
                                   .arena_size = is_packed ? ARENA : 0};
    pair_open(pair, &options);
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
    pair_post(&pair->sender, &command);
    pair_make_receive(pair, &command, to);
    pair_post(&pair->receiver, &command);
    pair_wait_quiet(&pair->receiver);
    pair_wait_quiet(&pair->sender);
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
    pair_close(&plain);
    pair_close(&packed);
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
