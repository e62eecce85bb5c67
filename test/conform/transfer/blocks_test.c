/* Workers whose blocks hold different numbers of tokens, over inproc, ucx and
 * tcp: what arrives is what a copy of one token at a time makes of it, in one
 * piece as in slices, for life cycles in any order, with windows, with parts of
 * the prompt at the receiver already. */
#include "leaks.h"
#include "node.h"

#include "transfer/regrain.h"
#include "transfer/slice.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    GROUPS = 2,
    BLOCK_MAX = 128,
    TOKEN_MAX = 128
};

/* a sends; b gets it whole, c in slices. Receivers list their life cycles the
 * other way round if they are reversed. */
struct three {
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct node_setup setup;
    uint32_t source_tokens, target_tokens;
    bool is_reversed;
    struct node a, b, c;
};

static void open_three(struct three *three, enum node_body body,
                       uint32_t source_tokens, uint32_t target_tokens,
                       uint32_t window0, uint32_t window1, bool is_reversed)
{
    memset(three, 0, sizeof(*three));
    assert_int_equal(io_loop_create(&three->loop), OK);
    three->hub = transfer_inproc_hub_create();
    three->source_tokens = source_tokens;
    three->target_tokens = target_tokens;
    three->is_reversed = is_reversed;
    three->setup = (struct node_setup){.body = body,
                                       .loop = three->loop,
                                       .hub = three->hub,
                                       .tokens_per_block = source_tokens,
                                       .group_count = GROUPS,
                                       .windows = {window0, window1}};
    three->setup.incarnation = 0xa;
    node_open(&three->a, &three->setup);
    three->setup.tokens_per_block = target_tokens;
    three->setup.is_reversed = is_reversed;
    three->setup.incarnation = 0xb;
    node_open(&three->b, &three->setup);
    three->setup.incarnation = 0xc;
    node_open(&three->c, &three->setup);
    node_fill(&three->a, 1);
}

static void close_three(struct three *three)
{
    node_close(&three->a);
    node_close(&three->b);
    node_close(&three->c);
    io_loop_destroy(three->loop);
    transfer_inproc_hub_destroy(three->hub);
}

static uint32_t target_group(const struct three *three, uint32_t group)
{
    return three->is_reversed ? GROUPS - 1 - group : group;
}

/* -------- a prompt: its chunks, and the lists of either side -------- */

struct prompt {
    uint32_t tokens, source_blocks, target_blocks;
    uint32_t chunk_count, ends[64]; /* tokens */
    kv_page_id from[GROUPS][BLOCK_MAX]; /* by the sender's group */
    kv_page_id to[GROUPS][BLOCK_MAX]; /* by the receiver's */
};

/* What has left a window may be gone at the sender and not be asked for; the
 * receiver may have a beginning, in blocks of its own. */
static void draw_lists(struct three *three, struct prompt *prompt,
                       struct rng *rng)
{
    uint32_t cached = rng_below(rng, 2) == 0
                          ? (uint32_t)rng_below(rng, prompt->target_blocks + 1)
                          : 0;
    for (uint32_t group = 0; group < GROUPS; group++) {
        const struct kv_life *life = &three->a.groups[group].life;
        kv_page_id *from = prompt->from[group];
        kv_page_id *to = prompt->to[target_group(three, group)];
        uint32_t left =
            transfer_stale_end(life, prompt->tokens, three->source_tokens);
        uint32_t unread =
            transfer_stale_end(life, prompt->tokens, three->target_tokens);
        node_pick(rng, from, prompt->source_blocks, 0);
        node_pick(rng, to, prompt->target_blocks, 0);
        for (uint32_t i = 0; i < left; i++) {
            from[i] = rng_below(rng, 2) ? KV_PAGE_NONE : from[i];
        }
        for (uint32_t i = 0; i < prompt->target_blocks; i++) {
            bool is_left_out = i < cached || (i < unread && rng_below(rng, 2));
            to[i] = is_left_out ? KV_PAGE_NONE : to[i];
        }
    }
}

static void draw(struct three *three, struct prompt *prompt, struct rng *rng,
                 uint32_t tokens)
{
    prompt->tokens = tokens;
    prompt->source_blocks = transfer_blocks_of(tokens, three->source_tokens);
    prompt->target_blocks = transfer_blocks_of(tokens, three->target_tokens);
    prompt->chunk_count = 0;
    uint32_t most = 1 + (uint32_t)rng_below(rng, tokens);
    for (uint32_t end = 0; end < tokens;) {
        uint32_t left = tokens - end;
        uint32_t size = 1 + (uint32_t)rng_below(rng, most);
        end += prompt->chunk_count == 63 || size > left ? left : size;
        prompt->ends[prompt->chunk_count++] = end;
    }
    draw_lists(three, prompt, rng);
}

/* -------- orders -------- */

static struct transfer_command command_of(const struct prompt *prompt,
                                          enum transfer_command_kind kind,
                                          uint64_t request)
{
    bool is_send = kind != TRANSFER_RECEIVE;
    struct transfer_command command = {
        .kind = kind,
        .request = request,
        .rid = (int64_t)request,
        .group_count = GROUPS,
        .block_count = is_send ? prompt->source_blocks : prompt->target_blocks,
        .prompt_tokens = prompt->tokens};
    for (uint32_t i = 0; i < GROUPS; i++) {
        command.pages[i] = is_send ? prompt->from[i] : prompt->to[i];
    }
    return command;
}

static void post(struct node *node, const struct transfer_command *command)
{
    assert_int_equal(io_mailbox_post(node->port.commands, command), OK);
}

static void receive(struct node *node, struct node *sender,
                    const struct prompt *prompt, uint64_t request)
{
    struct transfer_command command =
        command_of(prompt, TRANSFER_RECEIVE, request);
    command.is_generation_first = true;
    snprintf(command.sender_endpoint, sizeof(command.sender_endpoint), "%.279s",
             transfer_endpoint(sender->transfer));
    post(node, &command);
}

static void offer(struct node *node, const struct prompt *prompt,
                  uint64_t request)
{
    struct transfer_command command =
        command_of(prompt, TRANSFER_OFFER, request);
    post(node, &command);
}

static void send_slice(struct node *node, const struct prompt *prompt,
                       uint64_t request, uint32_t index,
                       const struct transfer_slice *slice)
{
    struct transfer_command command =
        command_of(prompt, TRANSFER_SEND, request);
    command.slice_index = index;
    command.first_block = slice->first_block;
    command.end_block = slice->end_block;
    command.is_last = slice->is_last;
    command.aux = slice->is_last ? node_aux(request) : NULL;
    post(node, &command);
}

static void send_whole(struct node *node, const struct prompt *prompt,
                       uint64_t request)
{
    struct transfer_slice whole = {0, prompt->source_blocks, true};
    send_slice(node, prompt, request, 0, &whole);
}

/* As the chunks are computed, each with turns of the loop between, or none. */
static void send_slices(struct three *three, const struct prompt *prompt,
                        uint64_t request, int turns)
{
    uint32_t cursor = 0, index = 0;
    for (uint32_t i = 0; i < prompt->chunk_count; i++) {
        struct transfer_chunk chunk = {i == 0 ? 0 : prompt->ends[i - 1],
                                       prompt->ends[i], prompt->tokens,
                                       three->source_tokens};
        struct transfer_slice slice;
        if (transfer_slice_next(&chunk, cursor, &slice) ==
            TRANSFER_SLICE_SOME) {
            send_slice(&three->a, prompt, request, index++, &slice);
            cursor = slice.end_block;
            node_turns(&three->a, turns);
        }
    }
}

/* -------- what must be there -------- */

static uint8_t *element(const struct kv_pool_view *pool,
                        const kv_page_id *pages, uint32_t token, uint32_t run)
{
    const struct kv_layout *layout = &pool->layout;
    uint32_t each = layout->tokens_per_block;
    uint32_t heads = layout->kv_head_count;
    return pool->base + pool->page_bytes * (size_t)pages[token / each] +
           kv_layout_key_offset(layout, run / heads / 2, run % heads) +
           run / heads % 2 * kv_layout_layer_bytes(layout) / 2 +
           (size_t)(token % each) * layout->head_dim * layout->element_bytes;
}

/* Returns whether the token moved. */
static bool copy_token(struct three *three, struct node *node,
                       const struct prompt *prompt, uint32_t group,
                       uint32_t token)
{
    uint32_t other = target_group(three, group);
    const struct kv_pool_view *from = &three->a.groups[group].pool;
    const struct kv_pool_view *to = &node->groups[other].pool;
    if (prompt->from[group][token / three->source_tokens] == KV_PAGE_NONE ||
        prompt->to[other][token / three->target_tokens] == KV_PAGE_NONE) {
        return false;
    }
    uint32_t runs = 2 * from->layout.layer_count * from->layout.kv_head_count;
    for (uint32_t i = 0; i < runs; i++) {
        memcpy(element(to, prompt->to[other], token, i),
               element(from, prompt->from[group], token, i),
               (size_t)from->layout.head_dim * from->layout.element_bytes);
    }
    return true;
}

/* All of the memory: wanted and held lands, no other byte is touched. */
static void check_memory(struct three *three, struct node *node,
                         const struct prompt *prompt, uint64_t seed)
{
    uint8_t *got = malloc(node->memory_size);
    bool has_holes = false;
    memcpy(got, node->memory, node->memory_size);
    node_fill(node, seed);
    for (uint32_t i = 0; i < GROUPS * prompt->tokens; i++) {
        uint32_t group = i / prompt->tokens, token = i % prompt->tokens;
        const kv_page_id *to = prompt->to[target_group(three, group)];
        bool is_moved = copy_token(three, node, prompt, group, token);
        has_holes |=
            !is_moved && to[token / three->target_tokens] != KV_PAGE_NONE;
    }
    assert_memory_equal(got, node->memory, node->memory_size);
    assert_int_equal(node->reports[node->report_count - 1].has_holes,
                     has_holes);
    free(got);
}

static void forget(struct three *three)
{
    three->a.report_count = three->b.report_count = three->c.report_count = 0;
}

static void hand_over(struct three *three, const struct prompt *prompt,
                      uint64_t id, int turns)
{
    node_fill(&three->b, id);
    node_fill(&three->c, id);
    send_whole(&three->a, prompt, 2 * id);
    receive(&three->b, &three->a, prompt, 2 * id);
    offer(&three->a, prompt, 2 * id + 1);
    receive(&three->c, &three->a, prompt, 2 * id + 1);
    send_slices(three, prompt, 2 * id + 1, turns);
    assert_int_equal(node_await(&three->b, 2 * id, T), T | Q);
    assert_int_equal(node_await(&three->c, 2 * id + 1, T), T | Q);
    assert_int_equal(node_await(&three->a, 2 * id, T), T | Q);
    assert_int_equal(node_await(&three->a, 2 * id + 1, T), T | Q);
    assert_memory_equal(three->b.memory, three->c.memory, three->b.memory_size);
    check_memory(three, &three->b, prompt, id);
    check_memory(three, &three->c, prompt, id);
    assert_int_equal(node_last(&three->b, 2 * id)->moved_bytes,
                     node_last(&three->a, 2 * id)->moved_bytes);
    assert_int_equal(three->c.last_aux.firsts[0].token, 2 * id + 1);
    forget(three);
}

static const uint32_t sizes[][2] = {{16, 32}, {32, 8}, {8, 16}, {16, 1}};
enum { SIZE_COUNT = sizeof(sizes) / sizeof(sizes[0]) };

/* Random prompts in up to 64 chunks, blocks two to sixteen times as large on
 * either side, one life cycle with a window, listed in the same order or the
 * other: slices and one piece give the same memory, that of the slow copy.
 * [transfer T39 T40 T41 T44 I2 I4 I27 I28] */
static void tokens_arrive_where_they_belong(enum node_body body)
{
    for (uint32_t i = 0; i < SIZE_COUNT; i++) {
        struct three three;
        open_three(&three, body, sizes[i][0], sizes[i][1], 0, 21, i % 2);
        struct rng rng = rng_from_seed(50 + i);
        for (uint64_t id = 1; id <= 20; id++) {
            struct prompt prompt;
            draw(&three, &prompt, &rng,
                 1 + (uint32_t)rng_below(&rng, TOKEN_MAX));
            hand_over(&three, &prompt, id, 3 * (id % 2));
        }
        close_three(&three);
    }
}

/* Prompts of each length around a window that begins within a block of either
 * side, then a model of which every life cycle has one. [transfer T9 T44 I28] */
static void windows_arrive_complete(enum node_body body)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct three three;
        open_three(&three, body, i % 2 ? 16 : 4, i % 2 ? 4 : 16, i < 2 ? 0 : 9,
                   i < 2 ? 21 : 16, false);
        struct rng rng = rng_from_seed(60 + i);
        uint64_t id = 1;
        for (uint32_t tokens = 14; tokens <= 50; tokens++) {
            struct prompt prompt;
            draw(&three, &prompt, &rng, tokens);
            hand_over(&three, &prompt, id++, 0);
        }
        close_three(&three);
    }
}

/* The worked example, in two slices: blocks of 64, prompt of 100 tokens, blocks
 * of 32; and back, where a block of the receiver fills in two slices. */
static void the_worked_example_arrives(enum node_body body)
{
    for (uint32_t is_back = 0; is_back < 2; is_back++) {
        struct three three;
        open_three(&three, body, is_back ? 32 : 64, is_back ? 64 : 32, 0, 0,
                   false);
        struct prompt prompt = {
            .tokens = 100, .chunk_count = 2, .ends = {is_back ? 32 : 64, 100}};
        prompt.source_blocks = is_back ? 4 : 2;
        prompt.target_blocks = is_back ? 2 : 4;
        for (int i = 0; i < 4; i++) {
            prompt.from[0][i] = prompt.from[1][i] = 9 - i;
            prompt.to[0][i] = prompt.to[1][i] = 20 + 2 * i;
        }
        hand_over(&three, &prompt, 1, 5);
        close_three(&three);
    }
}

/* One byte lands wrong, one piece does not land, one digest is told wrong: the
 * receiver finds out, and says T|F. [transfer T55 T106] */
static void wrong_bytes_are_found_out(enum node_body body)
{
    for (uint32_t i = 0; i < 3 * 2; i++) {
        struct three three;
        uint32_t size = i % 2;
        open_three(&three, body, sizes[size][0], sizes[size][1], 0, 21, false);
        node_fill(&three.c, 4);
        struct rng rng = rng_from_seed(70);
        struct prompt prompt;
        draw(&three, &prompt, &rng, 100);
        for (int k = 0; k < 4; k++) {
            prompt.to[0][k] = 100 + k;
        }
        three.a.fault.corrupt_ppm = i / 2 == 0 ? 1000000 : 0;
        three.a.fault.drop_ppm = i / 2 == 1 ? 1000000 : 0;
        three.a.fault.flip_count = i / 2 == 2;
        send_whole(&three.a, &prompt, 5);
        receive(&three.c, &three.a, &prompt, 5);
        assert_int_equal(node_await(&three.c, 5, Q), T | F | Q);
        assert_int_equal(node_last(&three.c, 5)->reason,
                         AGREE_REASON_INTEGRITY);
        node_await(&three.a, 5, Q);
        close_three(&three);
    }
}

/* A block that the receiver's window reads is missing at the sender, where it is
 * a part of one and where it is several: counted, and failed. [transfer T106] */
static void missing_tokens_fail(enum node_body body)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct three three;
        uint32_t size = i % 2, group = i / 2;
        open_three(&three, body, sizes[size][0], sizes[size][1], 0, 21, false);
        struct rng rng = rng_from_seed(71);
        struct prompt prompt;
        draw(&three, &prompt, &rng, 100);
        node_pick(&rng, prompt.to[group], prompt.target_blocks, 0);
        prompt.from[group][prompt.source_blocks - 1] = KV_PAGE_NONE;
        offer(&three.a, &prompt, 5);
        receive(&three.c, &three.a, &prompt, 5);
        send_slices(&three, &prompt, 5, 3);
        assert_int_equal(node_await(&three.c, 5, Q), T | F | Q);
        assert_int_equal(node_last(&three.c, 5)->reason,
                         AGREE_REASON_INTEGRITY);
        node_await(&three.a, 5, Q);
        close_three(&three);
    }
}

/* Cancelled between slices by either side: both are quiet. [transfer T53] */
static void cancel_between_slices_ends_both(enum node_body body)
{
    for (int is_sender = 0; is_sender < 2; is_sender++) {
        struct three three;
        open_three(&three, body, 8, 32, 0, 21, false);
        struct rng rng = rng_from_seed(72);
        struct prompt prompt;
        draw(&three, &prompt, &rng, 100);
        struct transfer_slice first = {0, 3, false};
        send_slice(&three.a, &prompt, 5, 0, &first);
        receive(&three.c, &three.a, &prompt, 5);
        node_turns(&three.a, 20);
        assert_int_equal(node_last(&three.a, 5)->slice_index, 1);
        node_cancel(is_sender ? &three.a : &three.c, 5);
        assert_int_equal(node_await(&three.a, 5, Q), T | F | C | Q);
        assert_int_equal(node_await(&three.c, 5, Q), T | F | C | Q);
        close_three(&three);
    }
}

/* Neither size a multiple of the other: refused, both values named, at the
 * receiver; the sender counts it. [transfer T64] */
static void sizes_that_do_not_divide_are_refused(enum node_body body)
{
    struct three three;
    open_three(&three, body, 16, 24, 0, 0, false);
    struct prompt prompt = {
        .tokens = 20, .source_blocks = 2, .target_blocks = 1};
    receive(&three.b, &three.a, &prompt, 7);
    assert_int_equal(node_await(&three.b, 7, Q), T | F | Q);
    assert_non_null(strstr(node_last(&three.b, 7)->text,
                           "groups[0].tokens_per_block: 16 at the sender, 24 "
                           "at the receiver"));
    struct transfer_stats stats = {0};
    for (int i = 0; i < 1000 && stats.peers_refused == 0; i++) {
        node_turns(&three.a, 1);
        transfer_stats_read(three.a.transfer, &stats);
    }
    assert_int_equal(stats.peers_refused, 1);
    close_three(&three);
}

#define CASES(X)                       \
    X(tokens_arrive_where_they_belong) \
    X(windows_arrive_complete)         \
    X(the_worked_example_arrives)      \
    X(wrong_bytes_are_found_out)       \
    X(missing_tokens_fail)             \
    X(cancel_between_slices_ends_both) \
    X(sizes_that_do_not_divide_are_refused)
#define DEFINE(name)                                         \
    static void test_##name(void **state)                    \
    {                                                        \
        (void)state;                                         \
        for (int body = 0; body < NODE_BODY_COUNT; body++) { \
            name((enum node_body)body);                      \
        }                                                    \
    }
CASES(DEFINE)
#define LIST(name) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {CASES(LIST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
