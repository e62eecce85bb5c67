/* transfer/rx_session as the arbiter of one receive: every order of what can
 * happen to it, up to a length, beside a reference that knows nothing but what
 * was said. What may still be written is never quiet, what is quiet has proof,
 * the first reason stays, and whatever happened, the writer's end ends it. */
#include "unit/base/test.h"

#include <string.h>

#include "agree/word.h"
#include "base/buf.h"
#include "transfer/rx_session.h"

enum { T = AGREE_TERMINAL, F = AGREE_FAILED, C = AGREE_CANCEL };
enum { Q = AGREE_QUIET, U = AGREE_UNSAFE };
enum { DEADLINE = 1000, GRACE = 500, LENGTH = 6 };

enum order {
    CONNECT, /* and the advertisement leaves: the sender may write from here */
    SLICE, /* the result of the first slice */
    LAST, /* of the second and last, drained */
    AUX,
    FAILED_DRAINED,
    FAILED,
    DOUBT,
    CANCEL,
    PEER_CANCEL,
    TIME_EARLY, /* a moment before the deadline */
    TIME_DUE, /* the moment itself */
    TIME_GRACE, /* the grace time after that is over */
    LOST,
    GONE,
    RIGHT, /* the digests were compared */
    WRONG,
    UNREACHABLE,
    ORDER_COUNT
};

/* What is known, from the orders alone. */
struct reference {
    bool is_exposed, is_over, is_failed, is_cancel;
    bool has_proof, is_checking, is_unsafe, is_in_doubt;
    bool has_slice, has_aux;
    uint8_t reason;
    uint64_t over_ns;
};

static const kv_page_id PAGES[2] = {4, 5};
static struct buf digest_of[2];
static uint64_t step_count, end_count, success_count;

static void finish(struct reference *ref, uint64_t now, uint8_t reason,
                   bool is_cancel)
{
    if (ref->is_over) {
        return;
    }
    ref->is_over = ref->is_failed = true;
    ref->is_cancel = is_cancel;
    ref->reason = reason;
    ref->over_ns = now;
    /* Nobody was told where the pages are, or all has been said of them. */
    ref->has_proof |= !ref->is_exposed || ref->is_checking;
    ref->is_checking = false;
}

static void hear(struct reference *ref, enum order order, uint64_t now)
{
    if (!ref->is_exposed || ref->is_checking) {
        return; /* of nothing, or one too many */
    }
    if (order == DOUBT) {
        finish(ref, now, AGREE_REASON_TRANSPORT, false);
        ref->is_in_doubt = true;
    } else if (!ref->is_in_doubt && order == SLICE) {
        if (ref->has_slice) {
            finish(ref, now, AGREE_REASON_INTEGRITY, false);
        }
        ref->has_slice = true;
    } else if (!ref->is_in_doubt && order == LAST) {
        bool is_whole = ref->has_slice && ref->has_aux && !ref->is_over;
        if (is_whole) {
            ref->is_checking = true;
        } else {
            finish(ref, now, AGREE_REASON_INTEGRITY, false);
            ref->has_proof = true;
        }
    } else if (!ref->is_in_doubt) {
        finish(ref, now, AGREE_REASON_DEADLINE, false);
        ref->has_proof |= order == FAILED_DRAINED;
    }
}

static void pass_time(struct reference *ref, uint64_t now)
{
    if (now >= DEADLINE && !ref->is_checking) {
        finish(ref, now, AGREE_REASON_DEADLINE, false);
    }
    bool is_late = ref->is_over && now - ref->over_ns >= GRACE;
    ref->is_unsafe |= is_late && !ref->has_proof;
}

static void follow(struct reference *ref, enum order order, uint64_t now)
{
    switch (order) {
    case CONNECT:
        ref->is_exposed |= !ref->is_over;
        break;
    case SLICE:
    case LAST:
    case FAILED_DRAINED:
    case FAILED:
    case DOUBT:
        hear(ref, order, now);
        break;
    case AUX:
        ref->has_aux = true;
        break;
    case CANCEL:
        finish(ref, now, AGREE_REASON_CALLER_LEFT, true);
        break;
    case PEER_CANCEL:
        finish(ref, now, AGREE_REASON_PEER_CANCEL, true);
        break;
    case TIME_EARLY:
    case TIME_DUE:
    case TIME_GRACE:
        pass_time(ref, now);
        break;
    case UNREACHABLE:
    case LOST:
        if (order == UNREACHABLE || !ref->is_checking) {
            finish(ref, now, AGREE_REASON_TRANSPORT, false);
        }
        break;
    case GONE:
        if (!ref->is_checking) {
            finish(ref, now, AGREE_REASON_WORKER_DEAD, false);
            ref->has_proof = true;
        }
        break;
    case RIGHT:
        if (ref->is_checking) {
            ref->is_over = ref->has_proof = true;
            ref->is_checking = false;
        }
        break;
    case WRONG:
        if (ref->is_checking) {
            finish(ref, now, AGREE_REASON_INTEGRITY, false);
        }
        break;
    case ORDER_COUNT:
        break;
    }
}

static uint8_t word_of(const struct reference *ref)
{
    uint8_t word = ref->is_over ? T : 0;
    word |= ref->is_failed ? F : 0;
    word |= ref->is_cancel ? C : 0;
    word |= ref->is_unsafe ? U : 0;
    return word | (ref->is_over && ref->has_proof ? Q : 0);
}

/* ---- the session ---- */

static struct wire_result slice_result(uint32_t index)
{
    bool is_last = index == 1;
    return (struct wire_result){
        .prefix = {.rid = 9, .is_last = is_last, .bytes = 10},
        .slice_index = index,
        .slices_total = is_last ? 2 : 0,
        .flags = is_last ? WIRE_RESULT_DRAINED : 0,
        .group_count = 1,
        .bytes_so_far = 10 * (index + 1),
        .groups = {{.blocks_so_far = index + 1,
                    .digest_count = 1,
                    .digests = buf_span(&digest_of[index])}}};
}

static struct wire_result result_of(enum order order)
{
    if (order == SLICE || order == LAST) {
        return slice_result(order == LAST);
    }
    struct wire_result result = wire_result_abort(
        0, 9, 0,
        order == DOUBT ? AGREE_REASON_TRANSPORT : AGREE_REASON_DEADLINE,
        order == FAILED_DRAINED ? WIRE_RESULT_DRAINED : 0);
    if (order == DOUBT) {
        result.prefix.code = WIRE_RESULT_IN_DOUBT;
    }
    return result;
}

static const enum rx_event_kind KINDS[ORDER_COUNT] = {
    [CONNECT] = RX_CONNECTED,
    [SLICE] = RX_RESULT,
    [LAST] = RX_RESULT,
    [AUX] = RX_AUX,
    [FAILED_DRAINED] = RX_RESULT,
    [FAILED] = RX_RESULT,
    [DOUBT] = RX_RESULT,
    [CANCEL] = RX_CANCEL,
    [PEER_CANCEL] = RX_PEER_CANCEL,
    [TIME_EARLY] = RX_TIME,
    [TIME_DUE] = RX_TIME,
    [TIME_GRACE] = RX_TIME,
    [LOST] = RX_LOST,
    [GONE] = RX_GONE,
    [RIGHT] = RX_VERIFIED,
    [WRONG] = RX_VERIFIED,
    [UNREACHABLE] = RX_UNREACHABLE};

static uint64_t time_of(enum order order, uint64_t now)
{
    uint64_t to = order == TIME_EARLY   ? DEADLINE - 1
                  : order == TIME_DUE   ? DEADLINE
                  : order == TIME_GRACE ? now + DEADLINE + GRACE
                                        : now;
    return to > now ? to : now;
}

static bool has(const struct rx_actions *actions, enum rx_action_kind kind)
{
    for (uint32_t i = 0; i < actions->count; i++) {
        if (actions->items[i] == kind) {
            return true;
        }
    }
    return false;
}

/* An advertisement leaves at once. */
static void apply(struct rx_session *session, enum order order, uint64_t now,
                  struct rx_actions *actions)
{
    struct wire_result result = result_of(order);
    struct rx_event event = {.kind = KINDS[order],
                             .now = now,
                             .result = &result,
                             .is_right = order == RIGHT,
                             .reason = order == CANCEL
                                           ? AGREE_REASON_CALLER_LEFT
                                           : AGREE_REASON_TRANSPORT};
    rx_session_step(session, &event, actions);
    if (has(actions, RX_ADVERTISE)) {
        struct rx_actions none;
        event.kind = RX_SENT;
        rx_session_step(session, &event, &none);
        assert_int_equal(none.count, 0);
    }
}

struct state {
    struct rx_session session;
    struct rx_block seen[2];
    struct reference ref;
    uint64_t now;
};

static void copy(struct state *to, const struct state *from)
{
    *to = *from;
    to->session.groups[0].seen = to->seen;
}

static void check(const struct state *before, const struct state *after,
                  const struct rx_actions *actions)
{
    const struct rx_session *session = &after->session;
    uint8_t word = word_of(&after->ref);
    assert_int_equal(session->word, word);
    assert_int_equal(session->reason, after->ref.reason);
    assert_true(word == 0 || agree_word_is_legal(word));
    /* The engine hears of a change, and of each once. */
    assert_int_equal(has(actions, RX_REPORT), word != before->session.word);
    assert_int_equal(has(actions, RX_END), (word & Q) != 0);
    /* Who may still write is asked to stop, when we end it. */
    bool was_ended = !(before->session.word & T) && (word & C);
    if (was_ended && session->reason == AGREE_REASON_CALLER_LEFT) {
        assert_int_equal(has(actions, RX_CANCEL_PEER), !(word & Q));
    }
    struct agree_verdict verdict;
    assert_int_equal(
        agree_reduce(&session->word, &session->reason, 1, &verdict), OK);
    assert_int_equal(verdict.is_decided, (word & T) != 0);
    assert_int_equal(verdict.is_reclaimable, (word & Q) != 0);
}

/* Whatever happened: once the writer is gone, and what is being compared is
 * compared, the pages are free. */
static void check_end(const struct state *state)
{
    struct state last;
    struct rx_actions actions;
    copy(&last, state);
    apply(&last.session, GONE, last.now, &actions);
    if (!(last.session.word & Q)) {
        assert_true(state->ref.is_checking);
        apply(&last.session, RIGHT, last.now, &actions);
    }
    assert_true(last.session.word & Q);
}

static void explore(const struct state *from, uint32_t length)
{
    for (enum order order = 0; order < ORDER_COUNT && length > 0; order++) {
        struct state next;
        struct rx_actions actions;
        bool is_due = order != AUX || rx_session_awaits_aux(&from->session);
        if (!is_due) {
            continue;
        }
        copy(&next, from);
        next.now = time_of(order, from->now);
        follow(&next.ref, order, next.now);
        apply(&next.session, order, next.now, &actions);
        step_count++;
        check(from, &next, &actions);
        if (next.session.word & Q) {
            end_count++;
            success_count += !(next.session.word & F);
        } else {
            check_end(&next);
            explore(&next, length - 1);
        }
    }
}

/* A deadline and a result at the same moment: the first of both counts; the
 * first tokens are under the same deadline as the pages; a deadline takes no
 * page and no session, it may pass as often as it likes; what is said before the
 * pages were, twice, or after the end has no effect or is an end.
 * [transfer T23 T24 T35 T61 I8 I15] */
static void every_order_of_events_is_arbitrated(void **state)
{
    (void)state;
    struct state start = {.now = 10};
    struct rx_actions actions;
    for (uint32_t i = 0; i < 2; i++) {
        buf_init(&digest_of[i], 64);
        wire_result_digest_encode((struct wire_digest){i, 7}, &digest_of[i]);
    }
    start.session = (struct rx_session){
        .request = 1,
        .rid = 9,
        .deadline_ns = DEADLINE,
        .grace_ns = GRACE,
        .group_count = 1,
        .wants_aux = true,
        .groups = {{.blocks = {PAGES, 0, 2}, .seen = start.seen}}};
    rx_session_init(&start.session);
    struct rx_event event = {.kind = RX_START, .now = start.now};
    rx_session_step(&start.session, &event, &actions);
    explore(&start, LENGTH);
    assert_true(step_count > 1000000);
    assert_true(end_count > 100000);
    assert_true(success_count > 10);
    for (uint32_t i = 0; i < 2; i++) {
        buf_finish(&digest_of[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_events_is_arbitrated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
