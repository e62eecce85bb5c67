/* Sessions of both sides in random orders of everything that can happen to
 * them: slices, requests, cancels, lost connections, writes that move piece
 * by piece and stop or stay in doubt, frames that are late, deadlines, the time of
 * advertisements. Few prompts at a time, many episodes; after each event what
 * must always hold is looked at, after each episode everything has ended. */
#include "sessions_world.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    U = AGREE_UNSAFE
};
enum { PROMPT_COUNT = 3, TOKEN_MAX = 24, BLOCK_MAX = 12, OLD_MAX = 16 };

/* What one engine knows of its request. */
struct half {
    uint64_t request; /* 0: not ordered yet */
    uint8_t word;
    bool is_awaited;
    uint32_t slice_index;
    uint64_t deadline_ns;
    kv_page_id pages[GROUPS][BLOCK_MAX];
};

struct prompt {
    int64_t rid;
    bool is_generation_first;
    uint32_t tokens;
    uint32_t blocks[2]; /* sender's, receiver's */
    struct half tx, rx;
    uint32_t cursor, slice_count; /* posted */
    bool is_offered, has_last;
    uint32_t tries; /* receives so far */
    bool has_doubt;
    bool is_touched; /* something befell it; else it must succeed */
    /* What the sender said: of the attempt that is under way. */
    uint32_t attempt, successes;
    bool has_aux, has_last_success;
    uint8_t written[GROUPS][BLOCK_MAX]; /* pieces, by ordinal of the part */
};

static struct prompt prompts[PROMPT_COUNT];
static int64_t last_rid;
static struct message old_frames[OLD_MAX]; /* of attempts that have ended */
static uint32_t old_count;
static bool has_doubts; /* this run */

static uint32_t below(uint32_t count)
{
    return (uint32_t)rng_below(&world.rng, count);
}

/* -------- pages -------- */

static kv_page_id take_page(struct pages *pages, uint32_t group,
                            uint64_t request)
{
    uint32_t at = below(PAGE_COUNT);
    for (uint32_t i = 0; i < PAGE_COUNT; i++, at = (at + 1) % PAGE_COUNT) {
        if (pages->owners[group][at] == 0) {
            pages->owners[group][at] = request;
            return (kv_page_id)at;
        }
    }
    fail_msg("no page is free");
    return KV_PAGE_NONE;
}

/* The next owner's bytes: whoever still reads or writes them is found out. */
static void give_pages(struct pages *pages, struct half *half, uint32_t blocks)
{
    for (uint32_t i = 0; i < GROUPS * blocks; i++) {
        kv_page_id page = half->pages[i / blocks][i % blocks];
        if (page != KV_PAGE_NONE) {
            pages->owners[i / blocks][page] = 0;
            memset(pages->bytes[i / blocks][page], 0xee, PAGE_BYTES);
        }
    }
}

/* Of K (0) or V (1) of a token of a prompt. */
static void make_bytes(const struct prompt *prompt, uint32_t group,
                       uint32_t token, uint32_t half, uint8_t out[HEAD_BYTES])
{
    for (uint32_t i = 0; i < HEAD_BYTES; i++) {
        out[i] = (uint8_t)rng_at((uint64_t)prompt->rid, group * 2 + half,
                                 token * HEAD_BYTES + i);
    }
}

/* Where they lie in the page of the token's block, at either side. */
static uint8_t *place_of(uint8_t *page, int side, uint32_t token, uint32_t half)
{
    uint32_t each = world.tokens[side];
    return page + (half * each + token % each) * HEAD_BYTES;
}

/* The side's blocks before it have left the window. */
static uint32_t stale_of(const struct prompt *prompt, uint32_t group, int side)
{
    return transfer_stale_end(&world.options[0].groups[group].life,
                              prompt->tokens, world.tokens[side]);
}

/* -------- orders of the engines -------- */

static void begin_prompt(struct prompt *prompt)
{
    *prompt = (struct prompt){.rid = ++last_rid,
                              .is_generation_first = below(2),
                              .tokens = 1 + below(TOKEN_MAX)};
    for (int side = 0; side < 2; side++) {
        prompt->blocks[side] =
            transfer_blocks_of(prompt->tokens, world.tokens[side]);
    }
}

static uint64_t draw_deadline(struct prompt *prompt)
{
    if (below(8) > 0) {
        return 0;
    }
    prompt->is_touched = true;
    return world.now + 1 + below(200);
}

static void open_sender(struct prompt *prompt)
{
    struct half *tx = &prompt->tx;
    tx->request = ((uint64_t)prompt->rid << RID_SHIFT) + 1;
    tx->deadline_ns = draw_deadline(prompt);
    for (uint32_t i = 0; i < GROUPS * prompt->blocks[0]; i++) {
        uint32_t group = i / prompt->blocks[0], ordinal = i % prompt->blocks[0];
        bool is_stale = ordinal < stale_of(prompt, group, 0);
        tx->pages[group][ordinal] =
            is_stale ? KV_PAGE_NONE
                     : take_page(&world.source, group, tx->request);
    }
    for (uint32_t i = 0; i < GROUPS * 2 * prompt->tokens; i++) {
        uint32_t group = i % GROUPS, half = i / GROUPS % 2;
        uint32_t token = i / GROUPS / 2;
        kv_page_id page = tx->pages[group][token / world.tokens[0]];
        if (page != KV_PAGE_NONE) {
            make_bytes(
                prompt, group, token, half,
                place_of(world.source.bytes[group][page], 0, token, half));
        }
    }
}

static struct transfer_command command_of(const struct prompt *prompt,
                                          enum transfer_command_kind kind,
                                          const struct half *half)
{
    struct transfer_command command = {
        .kind = kind,
        .request = half->request,
        .rid = prompt->rid,
        .deadline_ns = half->deadline_ns,
        .pages = {half->pages[0], half->pages[1]},
        .group_count = GROUPS,
        .block_count = prompt->blocks[kind == TRANSFER_RECEIVE],
        .prompt_tokens = prompt->tokens};
    return command;
}

static void offer(struct prompt *prompt)
{
    if (prompt->tx.request != 0 || !prompt->is_generation_first) {
        return;
    }
    open_sender(prompt);
    prompt->is_offered = true;
    struct transfer_command command =
        command_of(prompt, TRANSFER_OFFER, &prompt->tx);
    send_side_command(world.sends, &command, world.now);
}

/* Also after the session has ended: the engine does not know it yet. */
static void send_slice(struct prompt *prompt)
{
    struct half *tx = &prompt->tx;
    if (prompt->has_last || (prompt->is_generation_first && tx->request == 0)) {
        return;
    }
    if (tx->request == 0) {
        open_sender(prompt);
    }
    uint32_t left = prompt->blocks[0] - prompt->cursor;
    struct transfer_command command = command_of(prompt, TRANSFER_SEND, tx);
    command.slice_index = prompt->slice_count++;
    command.first_block = prompt->cursor;
    command.end_block = prompt->cursor + 1 + below(left);
    command.is_last = command.end_block == prompt->blocks[0];
    prompt->cursor = command.end_block;
    prompt->has_last = command.is_last;
    if (command.is_last && prompt->is_generation_first) {
        command.aux = mem_new(sizeof(*command.aux));
        command.aux->choice_count = 1;
        command.aux->firsts[0].token = (int32_t)prompt->rid;
    }
    send_side_command(world.sends, &command, world.now);
}

static void receive(struct prompt *prompt)
{
    struct half *rx = &prompt->rx;
    bool is_free = rx->request == 0 || (rx->word & (F | Q)) == (F | Q);
    bool is_told = prompt->is_generation_first || prompt->tx.request != 0;
    if (!is_free || !is_told || prompt->tries == 7) {
        return;
    }
    *rx = (struct half){.request = ((uint64_t)prompt->rid << RID_SHIFT) + 8 +
                                   prompt->tries++};
    rx->deadline_ns = draw_deadline(prompt);
    uint32_t cached = below(3) == 0 ? below(prompt->blocks[1] + 1) : 0;
    for (uint32_t i = 0; i < GROUPS * prompt->blocks[1]; i++) {
        uint32_t group = i / prompt->blocks[1], ordinal = i % prompt->blocks[1];
        bool is_wanted = ordinal >= cached &&
                         (ordinal >= stale_of(prompt, group, 1) || below(2));
        rx->pages[group][ordinal] =
            is_wanted ? take_page(&world.target, group, rx->request)
                      : KV_PAGE_NONE;
    }
    struct transfer_command command = command_of(prompt, TRANSFER_RECEIVE, rx);
    command.is_generation_first = prompt->is_generation_first;
    command.sender_incarnation = below(2) ? SENDER : 0;
    snprintf(command.sender_endpoint, sizeof(command.sender_endpoint),
             "tcp://127.0.0.1:9");
    receive_side_command(world.receives, &command, world.now);
}

static void cancel(struct prompt *prompt)
{
    bool is_sender = below(2);
    const struct half *half = is_sender ? &prompt->tx : &prompt->rx;
    if (half->request == 0) {
        return;
    }
    prompt->is_touched = true;
    if (is_sender) {
        send_side_cancel(world.sends, half->request, AGREE_REASON_CALLER_LEFT,
                         world.now);
    } else {
        receive_side_cancel(world.receives, half->request,
                            AGREE_REASON_CALLER_LEFT, world.now);
    }
}

/* -------- what is said -------- */

static struct prompt *find_prompt(int64_t rid)
{
    for (int i = 0; i < PROMPT_COUNT; i++) {
        if (prompts[i].rid == rid) {
            return &prompts[i];
        }
    }
    return NULL;
}

static void keep_old(const struct message *message)
{
    uint32_t at = old_count < OLD_MAX ? old_count++ : below(OLD_MAX);
    old_frames[at] = *message;
}

/* Results of an attempt count from 0 without a gap, one of them is last, the
 * first tokens come once and before it, and are those of the prompt. */
static void on_said(const struct message *message)
{
    struct prompt *prompt = find_prompt(message->rid);
    struct span body = span_of(message->body, message->size);
    keep_old(message);
    if (prompt == NULL) {
        return; /* the answer to a cancel of long ago */
    }
    if (message->attempt != prompt->attempt) {
        prompt->attempt = message->attempt;
        prompt->successes = 0;
        prompt->has_aux = prompt->has_last_success = false;
    }
    if (message->type == WIRE_AUX_RESULT) {
        struct wire_aux aux;
        assert_int_equal(wire_aux_decode(body, NULL, &aux), OK);
        assert_int_equal(aux.choices[0].first.token, prompt->rid);
        assert_false(prompt->has_aux || prompt->has_last_success);
        assert_true(prompt->has_last);
        prompt->has_aux = true;
        return;
    }
    struct wire_result result;
    bool is_odd;
    assert_int_equal(message->type, WIRE_KV_RESULT);
    assert_int_equal(wire_result_decode(body, NULL, &result, &is_odd), OK);
    assert_int_equal(result.prefix.receiver_slice, 0);
    if (result.prefix.code == WIRE_RESULT_SUCCESS) {
        assert_int_equal(result.slice_index, prompt->successes);
        assert_false(prompt->has_last_success);
        prompt->successes++;
        prompt->has_last_success = result.prefix.is_last;
        assert_true(!result.prefix.is_last || prompt->has_last);
    }
}

/* -------- reports -------- */

static uint32_t part_tokens(void)
{
    return world.tokens[0] < world.tokens[1] ? world.tokens[0]
                                             : world.tokens[1];
}

/* A page, or K and V apart. */
static uint32_t part_pieces(void)
{
    return world.tokens[0] == world.tokens[1] ? 1 : 2;
}

static void check_received(struct prompt *prompt, bool has_holes)
{
    const struct half *rx = &prompt->rx;
    uint8_t right[HEAD_BYTES];
    bool has_missed = false;
    assert_true(prompt->has_last);
    for (uint32_t i = 0; i < GROUPS * 2 * prompt->tokens; i++) {
        uint32_t group = i % GROUPS, half = i / GROUPS % 2;
        uint32_t token = i / GROUPS / 2;
        kv_page_id page = rx->pages[group][token / world.tokens[1]];
        bool is_wanted = page != KV_PAGE_NONE;
        bool is_sent = token / world.tokens[0] >= stale_of(prompt, group, 0);
        if (is_wanted && is_sent) {
            make_bytes(prompt, group, token, half, right);
            assert_memory_equal(
                place_of(world.target.bytes[group][page], 1, token, half),
                right, HEAD_BYTES);
        }
        has_missed |= is_wanted && !is_sent;
        assert_int_equal(prompt->written[group][token / part_tokens()],
                         is_wanted && is_sent ? part_pieces() : 0);
    }
    assert_int_equal(has_holes, has_missed);
}

/* Words are legal, only grow, and end with one Q. */
static void take_report(struct half *half, const struct transfer_report *report)
{
    assert_int_equal(report->request, half->request);
    assert_true(report->word == 0 || agree_word_is_legal(report->word));
    assert_true(half->word == report->word || half->word == 0 ||
                agree_word_may_become(half->word, report->word));
    assert_false(half->word & Q);
    half->word = report->word;
}

static void take_sent(const struct transfer_report *report)
{
    struct prompt *prompt =
        find_prompt((int64_t)(report->request >> RID_SHIFT));
    struct half *tx = &prompt->tx;
    take_report(tx, report);
    assert_true(report->is_awaited || !tx->is_awaited);
    assert_true(report->slice_index >= tx->slice_index);
    assert_true(report->slice_index <= prompt->slice_count);
    tx->is_awaited = report->is_awaited;
    tx->slice_index = report->slice_index;
    if ((tx->word & (T | F)) == T) {
        assert_true(prompt->has_last);
        assert_int_equal(tx->slice_index, prompt->slice_count);
    }
    if (tx->word & Q) {
        assert_false(prompt->has_doubt);
        give_pages(&world.source, tx, prompt->blocks[0]);
    }
}

static void take_received(const struct transfer_report *report)
{
    struct prompt *prompt =
        find_prompt((int64_t)(report->request >> RID_SHIFT));
    struct half *rx = &prompt->rx;
    take_report(rx, report);
    bool is_success = (rx->word & (T | F)) == T;
    assert_int_equal(report->aux != NULL,
                     is_success && prompt->is_generation_first);
    if (report->aux != NULL) {
        assert_int_equal(report->aux->firsts[0].token, prompt->rid);
        mem_free(report->aux);
    }
    if (is_success) {
        check_received(prompt, report->has_holes);
    }
    if (rx->word & Q) {
        assert_true(!prompt->has_doubt || prompt->tries > 1);
        give_pages(&world.target, rx, prompt->blocks[1]);
        memset(prompt->written, 0, sizeof(prompt->written));
    }
}

static void collect(void)
{
    struct transfer_report report;
    while (io_mailbox_take(world.options[0].port.reports, &report)) {
        take_sent(&report);
    }
    while (io_mailbox_take(world.options[1].port.reports, &report)) {
        take_received(&report);
    }
}

/* -------- events -------- */

static void move_some(struct transfer_write *write)
{
    if (write->cursor == write->piece_count) {
        return;
    }
    size_t index = write->cursor++;
    const struct send_slot *slot = write->context;
    struct prompt *prompt = find_prompt(slot->session.rid);
    uint32_t group = (uint32_t)(write->pieces[index].source_offset /
                                sizeof(world.source.bytes[0]));
    const struct transfer_pair *pair =
        &slot->pairs[slot->batch_pair + index / part_pieces()];
    uint8_t *count = &prompt->written[group][pair->ordinal];
    assert_int_equal((*count)++, index % part_pieces());
    world_move_piece(write, index);
}

static void end_write(struct transfer_write *write, enum transfer_outcome how)
{
    struct backend *backend = &world.backend;
    struct prompt *prompt =
        find_prompt(((struct send_slot *)write->context)->session.rid);
    prompt->is_touched |= how != TRANSFER_DONE;
    prompt->has_doubt |= how == TRANSFER_IN_DOUBT;
    for (uint32_t i = 0; i < backend->write_count; i++) {
        if (backend->writes[i] == write) {
            backend->writes[i] = backend->writes[--backend->write_count];
            break;
        }
    }
    write->outcome = how;
    send_side_written(world.sends, write, world.now);
}

static void step_write(void)
{
    if (world.backend.write_count == 0) {
        return;
    }
    struct transfer_write *write =
        world.backend.writes[below(world.backend.write_count)];
    if (below(40) == 0) {
        end_write(write, has_doubts && below(2) ? TRANSFER_IN_DOUBT
                                                : TRANSFER_STOPPED);
    } else if (write->cursor < write->piece_count) {
        move_some(write);
    } else {
        end_write(write, TRANSFER_DONE);
    }
}

static void touch_all(void)
{
    for (int i = 0; i < PROMPT_COUNT; i++) {
        prompts[i].is_touched = true;
    }
}

/* `is_calm`: nothing bad happens to the connection. */
static void step_line(bool is_calm)
{
    struct line *line = &world.control.lines[below(LINE_MAX)];
    if (line->is_receiver_open && line->is_sender_open &&
        !line->is_registered) {
        world_register(line);
        return;
    }
    bool is_half = line->is_receiver_open != line->is_sender_open;
    if (is_half && (is_calm || below(4) == 0)) {
        line->is_receiver_open ? world_close_receiver(line)
                               : world_close_sender(line);
        return;
    }
    if (!is_calm && !is_half && line->is_receiver_open && below(60) == 0) {
        touch_all();
        below(2) ? world_close_receiver(line) : world_close_sender(line);
        return;
    }
    bool is_sender = below(2);
    struct queue *queue = is_sender ? &line->to_sender : &line->to_receiver;
    bool is_open = is_sender ? line->is_sender_open : line->is_receiver_open;
    if (is_open && queue->count > 0) {
        world_deliver(line, is_sender);
    }
}

/* A frame of an earlier attempt comes once more. */
static void repeat_old(void)
{
    struct link *link = control_find_sender(&world.control, SENDER);
    if (link == NULL || old_count == 0) {
        return;
    }
    const struct message *old = &old_frames[below(old_count)];
    const struct receive_slot *slot =
        receive_side_find(world.receives, SENDER, old->rid);
    if (slot == NULL || slot->session.attempt != old->attempt) {
        uint64_t before = world.stats[1].frames_dropped;
        hear(line_of(link), old, false);
        assert_int_equal(world.stats[1].frames_dropped, before + 1);
    }
}

static void check_deadlines(void)
{
    for (int i = 0; i < PROMPT_COUNT; i++) {
        const struct half *tx = &prompts[i].tx;
        bool is_due = tx->deadline_ns != 0 && world.now >= tx->deadline_ns;
        assert_true(!is_due || (tx->word & T));
        const struct half *rx = &prompts[i].rx;
        is_due = rx->deadline_ns != 0 && world.now >= rx->deadline_ns;
        const struct receive_slot *slot =
            is_due && !(rx->word & T)
                ? receive_side_find(world.receives, SENDER, prompts[i].rid)
                : NULL;
        assert_true(!is_due || (rx->word & T) ||
                    (slot != NULL && slot->is_verifying));
    }
}

static void tick(uint64_t by)
{
    world.now += by;
    send_side_tick(world.sends, world.now);
    receive_side_tick(world.receives, world.now);
    collect();
    check_deadlines();
}

/* Advertisements without a session end with their time, and only they. */
static void long_time(void)
{
    touch_all();
    tick(501);
    assert_int_equal(world.stats[0].adverts, 0);
}

static void step_randomly(void)
{
    struct prompt *prompt = &prompts[below(PROMPT_COUNT)];
    uint32_t what = below(100);
    if (what < 6) {
        offer(prompt);
    } else if (what < 20) {
        send_slice(prompt);
    } else if (what < 30) {
        receive(prompt);
    } else if (what < 32) {
        cancel(prompt);
    } else if (what < 62) {
        step_line(false);
    } else if (what < 88) {
        step_write();
    } else if (what < 94) {
        IGNORE(receive_side_verify(world.receives, world.now));
    } else if (what < 97) {
        tick(below(20));
    } else if (what < 99) {
        repeat_old();
    } else if (below(20) == 0) {
        long_time();
    }
}

static void check_sides(void)
{
    uint32_t writes = 0;
    for (uint32_t i = 0; i < world.sends->slot_count; i++) {
        const struct send_slot *slot = &world.sends->slots[i];
        if (slot->is_used && !slot->has_ended) {
            assert_true(tx_session_is_valid(&slot->session));
            writes += slot->session.is_writing && !slot->session.is_in_doubt;
        }
    }
    assert_int_equal(writes, world.backend.write_count);
    for (uint32_t i = 0; i < world.receives->slot_count; i++) {
        const struct receive_slot *slot = &world.receives->slots[i];
        assert_true(!receive_slot_is_live(slot) ||
                    rx_session_is_valid(&slot->session));
    }
}

/* -------- an episode's end -------- */

static bool is_settled(const struct line *line)
{
    bool is_open = line->is_receiver_open;
    return is_open == line->is_sender_open &&
           (!is_open || line->is_registered) && line->to_sender.count == 0 &&
           line->to_receiver.count == 0;
}

/* Nothing is on its way, and nobody but time can change that. */
static bool is_quiet(void)
{
    bool is = world.backend.write_count == 0;
    for (int i = 0; i < LINE_MAX; i++) {
        is &= is_settled(&world.control.lines[i]);
    }
    for (int i = 0; i < PROMPT_COUNT; i++) {
        is &= prompts[i].has_last && prompts[i].tries > 0;
    }
    return is;
}

/* The engines do what they have begun, nothing bad happens any more. */
static void calm_down(void)
{
    bool has_more = true;
    for (int i = 0; i < 4000 && (has_more || !is_quiet()); i++) {
        struct prompt *prompt = &prompts[i % PROMPT_COUNT];
        offer(prompt);
        if (!prompt->is_offered || prompt->tx.is_awaited || below(8) == 0) {
            send_slice(prompt);
        }
        if (prompt->tries == 0) {
            receive(prompt);
        }
        step_line(true);
        if (world.backend.write_count > 0) {
            struct transfer_write *write = world.backend.writes[0];
            move_some(write);
            if (write->cursor == write->piece_count) {
                end_write(write, TRANSFER_DONE);
            }
        }
        has_more = receive_side_verify(world.receives, world.now);
        collect();
    }
}

static bool has_ended(const struct prompt *prompt)
{
    return (prompt->tx.word & Q) && (prompt->rx.word & Q);
}

static bool is_over(void)
{
    return is_quiet() && world.stats[0].adverts == 0 &&
           send_side_count(world.sends) == 0 &&
           receive_side_count(world.receives) == 0;
}

/* Who is still there waits for a peer that will never come: time ends that. */
static void end_by_time(void)
{
    for (int i = 0; i < PROMPT_COUNT; i++) {
        struct prompt *prompt = &prompts[i];
        if (!has_ended(prompt)) {
            prompt->is_touched = true;
            send_side_cancel(world.sends, prompt->tx.request,
                             AGREE_REASON_CALLER_LEFT, world.now);
            receive_side_cancel(world.receives, prompt->rx.request,
                                AGREE_REASON_CALLER_LEFT, world.now);
        }
    }
    collect();
    for (int i = 0; i < 400 && !is_over(); i++) {
        tick(i % 100 == 0 ? 600000000 : 1); /* lost senders are asked again */
        for (int k = 0; k < 20; k++) {
            step_line(true);
        }
        collect();
    }
}

static void check_end(void)
{
    for (int i = 0; i < PROMPT_COUNT; i++) {
        struct prompt *prompt = &prompts[i];
        if (prompt->has_doubt) {
            assert_int_equal(prompt->tx.word & (T | F | U), T | F | U);
            assert_int_equal(prompt->tx.word & Q, 0);
            continue;
        }
        assert_true(prompt->tx.word & Q);
        assert_true(prompt->rx.word & Q);
        if (!prompt->is_touched) {
            assert_int_equal(prompt->tx.word, T | Q);
            assert_int_equal(prompt->rx.word, T | Q);
            assert_int_equal(prompt->has_aux, prompt->is_generation_first);
        }
    }
    assert_int_equal(world.stats[0].adverts, 0);
    assert_int_equal(world.backend.write_count, 0);
}

static void run_episode(uint32_t steps)
{
    for (int i = 0; i < PROMPT_COUNT; i++) {
        begin_prompt(&prompts[i]);
    }
    for (uint32_t i = 0; i < steps; i++) {
        step_randomly();
        collect();
        check_sides();
    }
    calm_down();
    for (int i = 0; i < PROMPT_COUNT; i++) {
        assert_true(prompts[i].is_touched || has_ended(&prompts[i]));
    }
    end_by_time();
    check_end();
}

static void run(uint64_t seed, uint32_t source_tokens, uint32_t target_tokens,
                uint32_t episodes, bool with_doubts)
{
    has_doubts = with_doubts;
    old_count = 0;
    world_open(seed, source_tokens, target_tokens);
    world.on_said = on_said;
    for (uint32_t i = 0; i < episodes; i++) {
        run_episode(20 + below(200));
        if (!has_doubts) {
            assert_int_equal(send_side_count(world.sends), 0);
            assert_int_equal(receive_side_count(world.receives), 0);
        }
    }
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* More with BATON_EPISODES in the environment, others with BATON_SEED; a million
 * are in `scripts/schedules`. Nothing is left afterwards.
 * [transfer T34 T59 T83 I1 I2 I4 I5 I6 I7 I8 I9 I10 I11 I14 I16 I17 I20 I21 I23
 * I24 I25 I26] */
static void random_orders_keep_the_promises(void **state)
{
    (void)state;
    uint32_t episodes = (uint32_t)from_environment("BATON_EPISODES", 400);
    run(from_environment("BATON_SEED", 34), 4, 4, episodes, false);
    assert_true(world.stats[1].receives_done > 0);
    assert_true(world.stats[0].sends_failed > 0);
    world_close();
}

/* The same where the two sides' blocks hold different numbers of tokens.
 * [transfer T34 I1 I2 I4 I6] */
static void blocks_of_two_sizes_keep_them_too(void **state)
{
    (void)state;
    uint32_t episodes = (uint32_t)from_environment("BATON_EPISODES", 150);
    const uint32_t sizes[][2] = {{4, 8}, {8, 2}, {2, 4}, {4, 2}};
    for (uint32_t i = 0; i < 4; i++) {
        run(from_environment("BATON_SEED", 10) * 4 + i, sizes[i][0],
            sizes[i][1], episodes, false);
        assert_true(world.stats[1].receives_done > 0);
        assert_true(world.stats[0].sends_failed > 0);
        world_close();
    }
}

/* The same with writes that nobody can tell the end of: their pages are never
 * given back on either side, the others' are. [transfer T34 T56 I15] */
static void doubt_never_drains(void **state)
{
    (void)state;
    run(35, 4, 4, 8, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_orders_keep_the_promises),
        cmocka_unit_test(blocks_of_two_sizes_keep_them_too),
        cmocka_unit_test(doubt_never_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
