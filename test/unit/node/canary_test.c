/* What is under a transfer stays lent until the transfer is proven quiet,
 * whatever happens to the request in between. A backend holds a write back, the
 * request ends, others fill the pool to the last page; the pages under the
 * write must still hold what they held. */
#include "pair.h"

enum {
    PAGES = 24,
    PROMPT = 40, /* of the victim: 10 pages */
    VICTIM_PAGES = PROMPT / PAIR_BLOCK,
    REST_PAGES = PAGES - VICTIM_PAGES,
    ANSWER = 8,
    REST_PROMPT = REST_PAGES * PAIR_BLOCK - ANSWER, /* needs all the others */
    CANARY = 0xc5
};
static const uint64_t SHORT_NS = UINT64_C(300000000);
static const uint64_t LONG_NS = UINT64_C(60000000000);

enum hold { HOLD_BEFORE_COPY, HOLD_AFTER_COPY };
enum end { END_BY_DEADLINE, END_BY_CANCEL, END_BY_ABORT };

/* A hand-off whose write is held, and what its pages held then. */
struct victim {
    struct pair *pair;
    int64_t rid;
    uint64_t context_id, generation_id;
    _Atomic bool *hold;
    uint64_t sources[VICTIM_PAGES], targets[VICTIM_PAGES]; /* offsets */
    uint8_t *original; /* (VICTIM_PAGES, page_bytes) */
};

static void hand_over(struct victim *victim)
{
    struct pair *pair = victim->pair;
    int32_t prompt[PAIR_MAX_SEQ];
    pair_prompt(1, PROMPT, prompt);
    victim->rid = ++pair->last_rid;
    struct ask ask = {.kind = ENGINE_CONTEXT_ONLY,
                      .prompt = prompt,
                      .prompt_count = PROMPT,
                      .max_new = ANSWER,
                      .rid = victim->rid};
    victim->context_id = side_submit(pair->context, &ask);
    const struct answer *answer = &pair->context->answers[victim->context_id];
    PAIR_AWAIT(pair, answer->is_over);
    side_check_whole(pair->context, victim->context_id, ENGINE_FINISH_HANDOFF);
    ask.kind = ENGINE_GENERATION_ONLY;
    ask.sender = pair->context;
    ask.first_tokens = &answer->tokens[0][0];
    victim->generation_id = side_submit(pair->generation, &ask);
}

static void note_pages(struct victim *victim)
{
    struct side *context = victim->pair->context;
    size_t page_bytes = context->pool.page_bytes;
    io_lock_take(context->tap->lock);
    assert_int_equal(context->tap->piece_count, VICTIM_PAGES);
    for (int i = 0; i < VICTIM_PAGES; i++) {
        const struct transfer_piece *piece = &context->tap->pieces[i];
        assert_int_equal(piece->size, page_bytes);
        victim->sources[i] = piece->source_offset;
        victim->targets[i] = piece->target_offset;
        memcpy(victim->original + i * page_bytes,
               side_page(context, piece->source_offset), page_bytes);
    }
    io_lock_give(context->tap->lock);
}

static struct victim *victim_open(enum hold hold, uint64_t timeout_ns)
{
    struct victim *victim = mem_new(sizeof(*victim));
    struct pair *pair = pair_open(PAGES, PAGES, timeout_ns);
    struct transfer_fault *fault = &pair->context->fault;
    victim->pair = pair;
    victim->original =
        mem_new_array(VICTIM_PAGES, pair->context->pool.page_bytes);
    victim->hold =
        hold == HOLD_BEFORE_COPY ? &fault->hold_writes : &fault->hold_done;
    atomic_store(victim->hold, true);
    hand_over(victim);
    PAIR_AWAIT(pair, atomic_load(&fault->held) == 1);
    PAIR_AWAIT(pair, hold == HOLD_BEFORE_COPY ||
                         tap_done_count(pair->context->inner_tap) == 1);
    note_pages(victim);
    PAIR_AWAIT(pair,
               side_stats(pair->context).pages_leased == VICTIM_PAGES &&
                   side_stats(pair->generation).pages_leased == VICTIM_PAGES);
    return victim;
}

static void victim_close(struct victim *victim)
{
    pair_await_empty(victim->pair);
    pair_close(victim->pair);
    mem_free(victim->original);
    mem_free(victim);
}

/* The request ends on both sides; its write does not. */
static void end_request(struct victim *victim, enum end end)
{
    struct pair *pair = victim->pair;
    struct answer *answer = &pair->generation->answers[victim->generation_id];
    if (end == END_BY_CANCEL) {
        side_cancel(pair->generation, victim->generation_id);
    } else if (end == END_BY_ABORT) {
        side_abort(pair->context, victim->rid);
        side_abort(pair->generation, victim->rid);
        PAIR_AWAIT(pair, pair->context->aborts_found == 1 &&
                             pair->generation->aborts_found == 1);
    }
    PAIR_AWAIT(pair, answer->is_over);
    if (end == END_BY_DEADLINE) {
        assert_int_equal(answer->error, ERR_TIMEOUT);
    } else {
        assert_int_equal(answer->finishes[0], ENGINE_FINISH_CANCELLED);
    }
    assert_int_equal(answer->counts[0], 0);
}

static uint64_t ask_for(struct side *side, uint32_t kind, uint32_t tokens)
{
    int32_t prompt[PAIR_MAX_SEQ];
    pair_prompt(kind, tokens, prompt);
    struct ask ask = {.kind = ENGINE_AGGREGATED,
                      .prompt = prompt,
                      .prompt_count = tokens,
                      .max_new = ANSWER};
    return side_submit(side, &ask);
}

/* Strangers take every page but the victim's, again and again: one that needs
 * them all, then several at once. */
static void fill(struct pair *pair, struct side *side)
{
    for (uint32_t round = 0; round < 4; round++) {
        uint64_t id = ask_for(side, 10 + round, REST_PROMPT);
        PAIR_AWAIT(pair, side->answers[id].is_over);
        side_check_whole(side, id, ENGINE_FINISH_LENGTH);
        uint64_t last = 0;
        for (uint32_t i = 0; i < 6; i++) {
            last = ask_for(side, 20 + 10 * round + i, 2 * PAIR_BLOCK + i);
        }
        for (uint64_t i = id + 1; i <= last; i++) {
            PAIR_AWAIT(pair, side->answers[i].is_over);
            side_check_whole(side, i, ENGINE_FINISH_LENGTH);
        }
    }
}

static void check_pages(const struct side *side, const uint64_t *offsets,
                        const uint8_t *expected)
{
    size_t page_bytes = side->pool.page_bytes;
    for (int i = 0; i < VICTIM_PAGES; i++) {
        assert_memory_equal(side_page(side, offsets[i]),
                            expected + i * page_bytes, page_bytes);
    }
}

/* ---- the sender's pages ---- */

static void hold_sender(enum hold hold, enum end end)
{
    struct victim *victim =
        victim_open(hold, end == END_BY_DEADLINE ? SHORT_NS : LONG_NS);
    struct pair *pair = victim->pair;
    end_request(victim, end);
    fill(pair, pair->context);
    /* One page more than there is without the victim's: it has to wait. */
    uint64_t big = ask_for(pair->context, 90, REST_PROMPT + PAIR_BLOCK);
    PAIR_AWAIT(pair, side_stats(pair->context).waiting == 1);
    fill(pair, pair->generation);
    assert_int_equal(pair->context->answers[big].counts[0], 0);
    assert_int_equal(side_stats(pair->context).pages_leased, VICTIM_PAGES);
    check_pages(pair->context, victim->sources, victim->original);
    atomic_store(victim->hold, false);
    PAIR_AWAIT(pair, side_stats(pair->generation).pages_leased == 0);
    check_pages(pair->generation, victim->targets, victim->original);
    PAIR_AWAIT(pair, pair->context->answers[big].is_over);
    side_check_whole(pair->context, big, ENGINE_FINISH_LENGTH);
    victim_close(victim);
}

/* Proof: what arrives long after the deadline is what the pages held when the
 * write began. Nothing else runs on the receiver, so it is its deadline alone
 * that ends the request. [transfer T75 I1 I9] */
static void context_pages_outlive_the_deadline_under_a_held_write(void **state)
{
    (void)state;
    hold_sender(HOLD_BEFORE_COPY, END_BY_DEADLINE);
    hold_sender(HOLD_AFTER_COPY, END_BY_DEADLINE);
}

/* Proof: the same when the receiver cancels, and when both are told to abort.
 * [transfer I1 I9] */
static void context_pages_outlive_cancel_and_abort(void **state)
{
    (void)state;
    hold_sender(HOLD_BEFORE_COPY, END_BY_CANCEL);
    hold_sender(HOLD_AFTER_COPY, END_BY_CANCEL);
    hold_sender(HOLD_BEFORE_COPY, END_BY_ABORT);
    hold_sender(HOLD_AFTER_COPY, END_BY_ABORT);
}

/* ---- the receiver's pages ---- */

static bool is_target(const struct victim *victim, uint64_t offset)
{
    for (int i = 0; i < VICTIM_PAGES; i++) {
        if (victim->targets[i] == offset) {
            return true;
        }
    }
    return false;
}

static void paint(const struct victim *victim)
{
    struct side *side = victim->pair->generation;
    for (int i = 0; i < VICTIM_PAGES; i++) {
        memset(side_page(side, victim->targets[i]), CANARY,
               side->pool.page_bytes);
    }
}

static void check_canary(const struct victim *victim)
{
    const struct side *side = victim->pair->generation;
    for (int i = 0; i < VICTIM_PAGES; i++) {
        const uint8_t *page = side_page(side, victim->targets[i]);
        for (size_t b = 0; b < side->pool.page_bytes; b++) {
            assert_int_equal(page[b], CANARY);
        }
    }
}

/* Every page but the victim's is as in `before`. */
static void check_others(const struct victim *victim, const uint8_t *before)
{
    const struct side *side = victim->pair->generation;
    size_t page_bytes = side->pool.page_bytes;
    for (uint64_t page = 0; page < PAGES; page++) {
        uint64_t offset = page * page_bytes;
        if (!is_target(victim, offset)) {
            assert_memory_equal(side_page(side, offset), before + offset,
                                page_bytes);
        }
    }
}

/* The late write, when it is let go, hits the leased pages and no other; one
 * that had copied before writes nothing more. Then all pages can be had. */
static void let_go(struct victim *victim)
{
    struct pair *pair = victim->pair;
    struct side *side = pair->generation;
    bool is_copied = victim->hold == &pair->context->fault.hold_done;
    PAIR_AWAIT(pair, side_stats(side).running == 0);
    uint8_t *before = mem_copy(side->pool.base, PAGES * side->pool.page_bytes);
    atomic_store(victim->hold, false);
    PAIR_AWAIT(pair, side_stats(side).pages_leased == 0);
    if (is_copied) {
        check_canary(victim);
    } else {
        check_pages(side, victim->targets, victim->original);
    }
    check_others(victim, before);
    mem_free(before);
    uint64_t whole = ask_for(side, 91, PAGES * PAIR_BLOCK - ANSWER);
    PAIR_AWAIT(pair, side->answers[whole].is_over);
    side_check_whole(side, whole, ENGINE_FINISH_LENGTH);
}

static void hold_receiver(enum hold hold, enum end end)
{
    struct victim *victim =
        victim_open(hold, end == END_BY_DEADLINE ? SHORT_NS : LONG_NS);
    struct pair *pair = victim->pair;
    paint(victim);
    end_request(victim, end);
    fill(pair, pair->generation);
    check_canary(victim);
    assert_int_equal(side_stats(pair->generation).pages_leased, VICTIM_PAGES);
    let_go(victim);
    victim_close(victim);
}

/* Proof: a pattern painted into the leased pages is still there after strangers
 * have used every other page; the late write hits those pages only.
 * [transfer T70 T104 I1] */
static void generation_pages_outlive_the_request_under_a_held_write(
    void **state)
{
    (void)state;
    hold_receiver(HOLD_BEFORE_COPY, END_BY_CANCEL);
    hold_receiver(HOLD_BEFORE_COPY, END_BY_ABORT);
    hold_receiver(HOLD_BEFORE_COPY, END_BY_DEADLINE);
}

/* Proof: the same when the bytes are there and only the word of it is held.
 * [transfer T104] */
static void generation_pages_outlive_the_request_until_the_word_comes(
    void **state)
{
    (void)state;
    hold_receiver(HOLD_AFTER_COPY, END_BY_CANCEL);
    hold_receiver(HOLD_AFTER_COPY, END_BY_DEADLINE);
}

/* ---- the end of the worker ---- */

static void turn_both(struct pair *pair)
{
    io_loop_turn(pair->context->loop, 1000000);
    io_loop_turn(pair->generation->loop, 1000000);
}

static void close_stopped(struct victim *victim)
{
    struct pair *pair = victim->pair;
    side_free(pair->context);
    side_free(pair->generation);
    transfer_inproc_hub_destroy(pair->hub);
    io_waker_destroy(pair->event_waker);
    mem_free(pair);
    mem_free(victim->original);
    mem_free(victim);
}

/* Proof: with a write held neither side can be taken down, and a second try
 * changes nothing; once it is let go both can. [transfer T72 I32] */
static void shutdown_refuses_while_a_write_is_held(void **state)
{
    (void)state;
    struct victim *victim = victim_open(HOLD_BEFORE_COPY, LONG_NS);
    struct pair *pair = victim->pair;
    side_stop_engine(pair->generation);
    side_stop_engine(pair->context);
    side_stop_loop(pair->generation);
    side_stop_loop(pair->context);
    assert_int_equal(pair->generation->answers[victim->generation_id].error,
                     ERR_CLOSED);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(transfer_destroy(pair->context->transfer), ERR_BUSY);
        assert_int_equal(transfer_destroy(pair->generation->transfer),
                         ERR_BUSY);
        turn_both(pair);
    }
    check_pages(pair->context, victim->sources, victim->original);
    atomic_store(victim->hold, false);
    uint64_t give_up_ns = io_clock_now_ns() + PAIR_PATIENCE_NS;
    while (!side_is_quiet(pair->context) || !side_is_quiet(pair->generation)) {
        assert_true(io_clock_now_ns() < give_up_ns);
        turn_both(pair);
    }
    check_pages(pair->generation, victim->targets, victim->original);
    assert_int_equal(transfer_destroy(pair->context->transfer), OK);
    assert_int_equal(transfer_destroy(pair->generation->transfer), OK);
    close_stopped(victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_pages_outlive_the_deadline_under_a_held_write),
        cmocka_unit_test(context_pages_outlive_cancel_and_abort),
        cmocka_unit_test(
            generation_pages_outlive_the_request_under_a_held_write),
        cmocka_unit_test(
            generation_pages_outlive_the_request_until_the_word_comes),
        cmocka_unit_test(shutdown_refuses_while_a_write_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
