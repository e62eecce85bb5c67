/* What transfers cost the engine's thread in a turn, 256 sessions under way: a
 * slice of each is posted, what the transfer reports is taken and goes into the
 * engine's books, and a turn's head looks at all sessions. The transfers are real,
 * over shared memory to another worker's pool, each end on a thread of its own.
 *
 *   a turn   posted: 256 slices of a block
 *            (not counted: until all have drained)
 *            taken:   256 reports out of the mailbox
 *            books:   the core's part of each report
 *            head:    the core's plan while nothing can be computed
 *   sweep    books and head again, with one report
 *
 * No turn of a real engine computes a chunk of each of 256 prompts: this is the
 * most that can come together. The core's sessions are offers that nobody has
 * taken yet; what the reports say beside that is kept from it.
 * [transfer T94 T95] */
#include "engine/core.h"
#include "pair.h"

enum {
    SESSIONS = 256,
    TURNS = 400,
    WARM = 20,
    BLOCKS = TURNS + WARM + 1, /* of a prompt */
    BLOCK = 32,
    PAGE_BYTES = 256,
    REPORTS_MAX = 4096, /* of a turn */
};

struct bench {
    struct pair pair;
    struct engine_core *core;
    uint64_t now_ns;
    struct transfer_command sends[SESSIONS];
    uint32_t drained[SESSIONS];
    struct transfer_report reports[REPORTS_MAX];
    uint32_t report_count;
    kv_page_id *pages; /* (SESSIONS, BLOCKS) */
};

struct times {
    double posted[TURNS], taken[TURNS], books[TURNS], head[TURNS];
    double whole[TURNS], sweep[TURNS];
};

static void create_core(struct bench *bench)
{
    struct engine_core_options options = {
        .life_count = 1,
        .lives = {{0}},
        .group_count = 1,
        .page_counts = {SESSIONS * 4},
        .tokens_per_block = BLOCK,
        .max_batch = SESSIONS,
        .max_seq = 4 * BLOCK,
        .row_count_max = 8192,
        .chunk_tokens = 8192,
        .chunk_unit = 16,
        .is_chunked = true,
        .turn_ns_max = 100000000,
        .queue_limit = 2 * SESSIONS,
        .session_max = SESSIONS,
        .kv_transfer_timeout_ns = UINT64_C(3600000000000),
        .vocab_size = 1000,
        .enable_block_reuse = true,
        .secret = {1},
        .score_row_max = 16,
    };
    struct why why = {{0}};
    pair_stop_on(engine_core_create(&options, &why, &bench->core), &why);
    bench->now_ns = io_clock_now_ns();
}

/* One half of a request whose other half will never come. */
static void submit(struct bench *bench, uint32_t index)
{
    struct engine_request *request = mem_new(sizeof(*request));
    request->id = index + 1;
    request->rid = (int64_t)index + 1;
    request->kind = ENGINE_CONTEXT_ONLY;
    request->is_generation_first = true;
    request->prompt_count = 3 * BLOCK;
    request->prompt = mem_new_array(request->prompt_count, sizeof(int32_t));
    for (uint32_t i = 0; i < request->prompt_count; i++) {
        request->prompt[i] = (int32_t)(rng_at(index, 0, i) % 1000);
    }
    request->choice_count = 1;
    request->max_new_tokens = 1;
    request->sampling = sampler_defaults();
    request->logprob_count = -1;
    request->arrival_ns = bench->now_ns;
    engine_core_command(bench->core, bench->now_ns,
                        &(struct engine_command){.kind = ENGINE_SUBMIT,
                                                 .id = request->id,
                                                 .request = request});
}

/* The core's offers, each with the pages of a long prompt, and a receive. */
static void open_sessions(struct bench *bench)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        submit(bench, i);
    }
    engine_core_plan(bench->core, bench->now_ns);
    uint32_t count = 0;
    const struct transfer_command *orders =
        engine_core_orders(bench->core, &count);
    if (count != SESSIONS) {
        fprintf(stderr, "sessions_bench: %u offers\n", count);
        exit(1);
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        bench->sends[i] = orders[i];
        bench->sends[i].pages[0] = bench->pages + (size_t)i * BLOCKS;
        bench->sends[i].block_count = BLOCKS;
        bench->sends[i].prompt_tokens = BLOCKS;
        struct transfer_command receive = bench->sends[i];
        pair_post(&bench->pair.sender, &bench->sends[i]);
        pair_make_receive(&bench->pair, &receive, receive.pages[0]);
        receive.is_generation_first = true;
        pair_post(&bench->pair.receiver, &receive);
        bench->sends[i].kind = TRANSFER_SEND;
        bench->sends[i].slice_index = 0;
    }
    engine_core_orders_taken(bench->core, count);
}

static uint32_t index_of(const struct bench *bench, uint64_t request)
{
    uint32_t index = 0;
    while (bench->sends[index].request != request) {
        index++;
    }
    return index;
}

/* Takes what there is; how many sessions have it all. */
static uint32_t take(struct bench *bench, uint32_t first, uint32_t slices)
{
    struct io_mailbox *reports = bench->pair.sender.port.reports;
    while (bench->report_count < REPORTS_MAX &&
           io_mailbox_take(reports, &bench->reports[bench->report_count])) {
        bench->report_count++;
    }
    for (uint32_t i = first; i < bench->report_count; i++) {
        const struct transfer_report *report = &bench->reports[i];
        pair_check(report);
        bench->drained[index_of(bench, report->request)] =
            report->is_awaited ? report->slice_index + 1 : 0;
    }
    uint32_t done = 0;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        done += bench->drained[i] == slices + 1;
    }
    return done;
}

/* Until `slices` of each session have drained; the reports are kept. */
static void wait_for(struct bench *bench, uint32_t slices)
{
    bench->report_count = 0;
    uint32_t first = 0;
    while (take(bench, first, slices) < SESSIONS) {
        first = bench->report_count;
        io_waker_wait(bench->pair.sender.reports_waker, 10000000);
    }
}

static double post_slices(struct bench *bench, bool is_last)
{
    uint64_t begin = io_clock_now_ns();
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct transfer_command *send = &bench->sends[i];
        send->end_block = send->first_block + 1;
        send->is_last = is_last;
        send->aux = is_last ? pair_first_tokens(send->prompt_tokens) : NULL;
        pair_post(&bench->pair.sender, send);
        send->first_block++;
        send->slice_index++;
    }
    return (double)(io_clock_now_ns() - begin);
}

/* Reports came while the engine computed: out of a mailbox as full again. */
static double take_again(struct bench *bench, struct io_mailbox *spare)
{
    for (uint32_t i = 0; i < bench->report_count; i++) {
        pair_stop_on(io_mailbox_post(spare, &bench->reports[i]), NULL);
    }
    uint32_t count = 0;
    uint64_t begin = io_clock_now_ns();
    while (io_mailbox_take(spare, &bench->reports[count])) {
        count++;
    }
    return (double)(io_clock_now_ns() - begin);
}

static double keep_books(struct bench *bench, uint32_t count)
{
    for (uint32_t i = 0; i < bench->report_count; i++) {
        bench->reports[i].is_awaited = false;
        bench->reports[i].slice_index = 0;
    }
    uint64_t begin = io_clock_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        engine_core_report(bench->core, bench->now_ns, &bench->reports[i]);
    }
    return (double)(io_clock_now_ns() - begin);
}

static double plan_head(struct bench *bench)
{
    bench->now_ns += 1000000;
    uint64_t begin = io_clock_now_ns();
    if (engine_core_plan(bench->core, bench->now_ns)->run_count > 0) {
        fprintf(stderr, "sessions_bench: something was computed\n");
        exit(1);
    }
    return (double)(io_clock_now_ns() - begin);
}

static void measure(struct bench *bench, struct io_mailbox *spare,
                    struct times *times)
{
    for (uint32_t turn = 0; turn < WARM + TURNS; turn++) {
        uint32_t at = turn < WARM ? 0 : turn - WARM;
        times->posted[at] = post_slices(bench, false);
        wait_for(bench, turn + 1);
        times->taken[at] = take_again(bench, spare);
        times->books[at] = keep_books(bench, bench->report_count);
        times->head[at] = plan_head(bench);
        times->whole[at] = times->posted[at] + times->taken[at] +
                           times->books[at] + times->head[at];
        times->sweep[at] = keep_books(bench, 1) + plan_head(bench);
    }
}

static void finish(struct bench *bench)
{
    post_slices(bench, true);
    for (uint32_t quiet = 0; quiet < SESSIONS;) {
        quiet += (pair_next(&bench->pair.sender).word & AGREE_QUIET) != 0;
    }
    for (uint32_t quiet = 0; quiet < SESSIONS;) {
        quiet += (pair_next(&bench->pair.receiver).word & AGREE_QUIET) != 0;
    }
    pair_close(&bench->pair);
}

/* Sessions end before their core: as if their peers had gone. */
static void close_core(struct bench *bench)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        struct transfer_report last = {.request = bench->sends[i].request,
                                       .word = AGREE_TERMINAL | AGREE_FAILED |
                                               AGREE_QUIET,
                                       .reason = AGREE_REASON_TRANSPORT};
        engine_core_report(bench->core, bench->now_ns, &last);
    }
    engine_core_plan(bench->core, bench->now_ns);
    engine_core_destroy(bench->core);
}

static void print(const char *name, double *times, uint32_t thousandths,
                  double goal_us)
{
    line_print(
        &(struct line){.bench = "sessions",
                       .name = name,
                       .value = line_quantile(times, TURNS, thousandths) / 1e3,
                       .unit = "us",
                       .goal = goal_us,
                       .runs = TURNS});
}

int main(void)
{
    static struct bench bench;
    static struct times times;
    struct pair_options options = {.page_bytes = PAGE_BYTES,
                                   .page_count = SESSIONS * BLOCKS,
                                   .mailbox_size = REPORTS_MAX};
    bench.pages = mem_new_array(SESSIONS * BLOCKS, sizeof(bench.pages[0]));
    for (uint32_t i = 0; i < SESSIONS * BLOCKS; i++) {
        bench.pages[i] = (kv_page_id)i;
    }
    pair_open(&bench.pair, &options);
    create_core(&bench);
    open_sessions(&bench);
    wait_for(&bench, 0);
    struct io_waker *waker;
    pair_stop_on(io_waker_create(&waker), NULL);
    struct io_mailbox *spare =
        pair_mailbox(&options, sizeof(struct transfer_report), waker);
    measure(&bench, spare, &times);
    finish(&bench);
    close_core(&bench);
    print("engine's time in transfers, 256 slices and reports a turn",
          times.whole, 500, 200);
    print("one turn in a hundred over", times.whole, 990, 0);
    print("of it slices posted", times.posted, 500, 0);
    print("of it reports taken", times.taken, 500, 0);
    print("of it the engine's books", times.books, 500, 0);
    print("of it a turn's head", times.head, 500, 0);
    print("the same sweep where one of 256 has changed", times.sweep, 500, 20);
    io_mailbox_destroy(spare);
    io_waker_destroy(waker);
    mem_free(bench.pages);
    return 0;
}
