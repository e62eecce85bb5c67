/* A prompt in slices, over inproc and ucx: what arrives is what arrives in one
 * piece, for life cycles of different page size and window, in both schedule
 * styles, whenever the receiver asks. */
#include "leaks.h"
#include "node.h"

#include "transfer/slice.h"

enum {
    T = AGREE_TERMINAL,
    F = AGREE_FAILED,
    C = AGREE_CANCEL,
    Q = AGREE_QUIET,
    GROUPS = 2,
    BLOCK_MAX = 40
};

/* a sends; b gets it whole, c in slices. */
struct three {
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    struct node_setup setup;
    struct node a, b, c;
};

static void open_three(struct three *three, enum node_body body,
                       uint32_t window0, uint32_t window1)
{
    assert_int_equal(io_loop_create(&three->loop), OK);
    three->hub = transfer_inproc_hub_create();
    three->setup = (struct node_setup){.body = body,
                                       .loop = three->loop,
                                       .hub = three->hub,
                                       .group_count = GROUPS,
                                       .windows = {window0, window1}};
    three->setup.incarnation = 0xa;
    node_open(&three->a, &three->setup);
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

/* One prompt: its chunks and the lists of both sides, by group. */
struct prompt {
    uint32_t tokens, blocks;
    uint32_t chunk_count, ends[64]; /* tokens */
    kv_page_id from[GROUPS][BLOCK_MAX], to[GROUPS][BLOCK_MAX];
};

/* What a windowed life cycle no longer holds is not in the sender's list; what
 * the receiver has cached, or will never read, not in the receiver's. */
static void draw_lists(struct three *three, struct prompt *prompt,
                       struct rng *rng)
{
    uint32_t cached = rng_below(rng, 3) == 0
                          ? (uint32_t)rng_below(rng, prompt->blocks + 1)
                          : 0;
    for (uint32_t group = 0; group < GROUPS; group++) {
        uint32_t stale = transfer_stale_end(&three->a.groups[group].life,
                                            prompt->tokens, NODE_TOKENS);
        node_pick(rng, prompt->from[group], prompt->blocks, 0);
        node_pick(rng, prompt->to[group], prompt->blocks, 0);
        for (uint32_t i = 0; i < prompt->blocks; i++) {
            bool is_stale = i < stale;
            if (is_stale && rng_below(rng, 2)) {
                prompt->from[group][i] = KV_PAGE_NONE;
            }
            if (i < cached || (is_stale && rng_below(rng, 2))) {
                prompt->to[group][i] = KV_PAGE_NONE;
            }
        }
    }
}

static void draw(struct three *three, struct prompt *prompt, struct rng *rng,
                 uint32_t tokens)
{
    prompt->tokens = tokens;
    prompt->blocks = transfer_blocks_of(tokens, NODE_TOKENS);
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

static struct transfer_command command_of(const struct prompt *prompt,
                                          enum transfer_command_kind kind,
                                          uint64_t request, int64_t rid)
{
    bool is_send = kind != TRANSFER_RECEIVE;
    struct transfer_command command = {.kind = kind,
                                       .request = request,
                                       .rid = rid,
                                       .group_count = GROUPS,
                                       .block_count = prompt->blocks,
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
                    const struct prompt *prompt, uint64_t request, int64_t rid,
                    bool is_generation_first)
{
    struct transfer_command command =
        command_of(prompt, TRANSFER_RECEIVE, request, rid);
    command.is_generation_first = is_generation_first;
    command.sender_incarnation = is_generation_first ? 0 : sender->incarnation;
    snprintf(command.sender_endpoint, sizeof(command.sender_endpoint), "%.279s",
             transfer_endpoint(sender->transfer));
    post(node, &command);
}

static void send_slice(struct node *node, const struct prompt *prompt,
                       uint64_t request, int64_t rid, uint32_t index,
                       const struct transfer_slice *slice)
{
    struct transfer_command command =
        command_of(prompt, TRANSFER_SEND, request, rid);
    command.slice_index = index;
    command.first_block = slice->first_block;
    command.end_block = slice->end_block;
    command.is_last = slice->is_last;
    command.aux = slice->is_last ? node_aux(request) : NULL;
    post(node, &command);
}

static void send_whole(struct node *node, const struct prompt *prompt,
                       uint64_t request, int64_t rid)
{
    struct transfer_slice whole = {0, prompt->blocks, true};
    send_slice(node, prompt, request, rid, 0, &whole);
}

struct way {
    bool is_offered; /* generation-first */
    uint32_t ask_at; /* before that chunk; at the end if there is none */
    bool has_turns; /* the loop turns between chunks */
};

static void send_slices(struct three *three, const struct prompt *prompt,
                        uint64_t request, int64_t rid, struct way way)
{
    uint32_t cursor = 0, index = 0;
    bool has_asked = false;
    if (way.is_offered) {
        struct transfer_command offer =
            command_of(prompt, TRANSFER_OFFER, request, rid);
        post(&three->a, &offer);
    }
    for (uint32_t i = 0; i < prompt->chunk_count; i++) {
        struct transfer_chunk chunk = {i == 0 ? 0 : prompt->ends[i - 1],
                                       prompt->ends[i], prompt->tokens,
                                       NODE_TOKENS};
        struct transfer_slice slice;
        if (way.ask_at == i) {
            has_asked = true;
            receive(&three->c, &three->a, prompt, request, rid, way.is_offered);
            node_turns(&three->c, way.has_turns ? 10 : 0);
        }
        if (transfer_slice_next(&chunk, cursor, &slice) ==
            TRANSFER_SLICE_SOME) {
            send_slice(&three->a, prompt, request, rid, index++, &slice);
            cursor = slice.end_block;
            node_turns(&three->a, way.has_turns ? 3 : 0);
        }
    }
    if (!has_asked) {
        node_turns(&three->a, 2);
        receive(&three->c, &three->a, prompt, request, rid, way.is_offered);
    }
}

/* What the receiver's memory must be: wanted and held lands, nothing else. */
static void check_memory(struct three *three, struct node *node,
                         const struct prompt *prompt, uint64_t seed)
{
    uint8_t *got = malloc(node->memory_size);
    memcpy(got, node->memory, node->memory_size);
    node_fill(node, seed);
    for (uint32_t group = 0; group < GROUPS; group++) {
        const struct kv_pool_view *pool = &node->groups[group].pool;
        for (uint32_t i = 0; i < prompt->blocks; i++) {
            kv_page_id from = prompt->from[group][i];
            kv_page_id to = prompt->to[group][i];
            if (from != KV_PAGE_NONE && to != KV_PAGE_NONE) {
                memcpy(pool->base + pool->page_bytes * (size_t)to,
                       three->a.groups[group].pool.base +
                           pool->page_bytes * (size_t)from,
                       pool->page_bytes);
            }
        }
    }
    assert_memory_equal(got, node->memory, node->memory_size);
    free(got);
}

static void hand_over(struct three *three, const struct prompt *prompt,
                      uint64_t id, struct way way)
{
    node_fill(&three->b, id);
    node_fill(&three->c, id);
    send_whole(&three->a, prompt, 2 * id, (int64_t)(2 * id));
    receive(&three->b, &three->a, prompt, 2 * id, (int64_t)(2 * id), false);
    send_slices(three, prompt, 2 * id + 1, (int64_t)(2 * id + 1), way);
    assert_int_equal(node_await(&three->b, 2 * id, T), T | Q);
    assert_int_equal(node_await(&three->c, 2 * id + 1, T), T | Q);
    assert_int_equal(node_await(&three->a, 2 * id, T), T | Q);
    assert_int_equal(node_await(&three->a, 2 * id + 1, T), T | Q);
    assert_memory_equal(three->b.memory, three->c.memory, three->b.memory_size);
    check_memory(three, &three->c, prompt, id);
    assert_int_equal(node_last(&three->b, 2 * id)->moved_blocks,
                     node_last(&three->c, 2 * id + 1)->moved_blocks);
    assert_int_equal(three->c.aux_count, way.is_offered);
    if (way.is_offered) {
        assert_int_equal(three->c.last_aux.firsts[0].token, 2 * id + 1);
    }
    three->c.aux_count = 0;
    three->a.report_count = three->b.report_count = three->c.report_count = 0;
}

/* Sixty random prompts in up to 64 chunks each, with holes of a prefix cache at
 * the receiver: asked for before, between or after the slices, in both styles,
 * taken one by one or found in a heap. Memory is the same as after one piece,
 * byte for byte, all of it. [transfer T14 T40 T41 T42 I2 I27] */
static void slices_arrive_as_the_whole_does(enum node_body body)
{
    struct three three;
    memset(&three, 0, sizeof(three));
    open_three(&three, body, 0, 3 * NODE_TOKENS);
    struct rng rng = rng_from_seed(5);
    for (uint64_t id = 1; id <= 60; id++) {
        struct prompt prompt;
        draw(&three, &prompt, &rng,
             1 + (uint32_t)rng_below(&rng, BLOCK_MAX * NODE_TOKENS));
        struct way way = {
            .is_offered = rng_below(&rng, 2),
            .has_turns = rng_below(&rng, 2),
            .ask_at = (uint32_t)rng_below(&rng, prompt.chunk_count + 1)};
        /* Context-first is asked for when there is a session. */
        way.ask_at += !way.is_offered && way.ask_at == 0;
        if (!way.is_offered && way.ask_at < prompt.chunk_count &&
            prompt.ends[way.ask_at - 1] < NODE_TOKENS) {
            way.ask_at = prompt.chunk_count;
        }
        hand_over(&three, &prompt, id, way);
    }
    close_three(&three);
}

/* Prompts around the window's length, where a life cycle stops to be windowed,
 * begins to have stale blocks, and ends within a block; then a model of which
 * every life cycle has a window. [transfer T9 T44 I28] */
static void windows_arrive_complete(enum node_body body)
{
    const uint32_t windows[][2] = {{0, 16}, {0, 17}, {24, 16}};
    for (size_t i = 0; i < 3; i++) {
        struct three three;
        memset(&three, 0, sizeof(three));
        open_three(&three, body, windows[i][0], windows[i][1]);
        struct rng rng = rng_from_seed(6 + i);
        uint64_t id = 1;
        for (uint32_t tokens = 14; tokens <= 34; tokens++) {
            struct prompt prompt;
            draw(&three, &prompt, &rng, tokens);
            struct way way = {.is_offered = true, .has_turns = id % 2};
            hand_over(&three, &prompt, id++, way);
        }
        close_three(&three);
    }
}

/* The worked example: 1,000 tokens in blocks of 32, four chunks, the second
 * life cycle with a window of 256. Slices 0 to 2 carry 8 blocks of the first,
 * the last one 8 and the 9 of the final window. The receiver's cache holds 13
 * blocks of the first: slice 0 carries none and is a success all the same.
 * [transfer T8 T12 T15] */
static void mixed_model_of_the_table(enum node_body body)
{
    const uint32_t moved[2][4] = {{8, 16, 24, 41}, {0, 3, 11, 28}};
    for (int is_cached = 0; is_cached < 2; is_cached++) {
        struct io_loop *loop = NULL;
        struct node a, b;
        assert_int_equal(io_loop_create(&loop), OK);
        struct node_setup setup = {.body = body,
                                   .loop = loop,
                                   .hub = transfer_inproc_hub_create(),
                                   .tokens_per_block = 32,
                                   .group_count = GROUPS,
                                   .windows = {0, 256},
                                   .incarnation = 0xa};
        node_open(&a, &setup);
        setup.incarnation = 0xb;
        node_open(&b, &setup);
        struct prompt prompt = {.tokens = 1000, .blocks = 32};
        for (int i = 0; i < 32; i++) {
            prompt.from[0][i] = prompt.from[1][i] = i;
            prompt.to[0][i] = is_cached && i < 13 ? KV_PAGE_NONE : i;
            prompt.to[1][i] = i < 23 ? KV_PAGE_NONE : i;
        }
        struct transfer_command offer =
            command_of(&prompt, TRANSFER_OFFER, 1, 9);
        post(&a, &offer);
        receive(&b, &a, &prompt, 2, 9, true);
        for (uint32_t i = 0; i < 4; i++) {
            struct transfer_slice slice = {8 * i, 8 * i + 8, i == 3};
            send_slice(&a, &prompt, 1, 9, i, &slice);
            for (int turn = 0;
                 turn < 1000 && !(node_last(&a, 1) != NULL &&
                                  node_last(&a, 1)->slice_index == i + 1);
                 turn++) {
                node_turns(&a, 1);
            }
            assert_int_equal(node_last(&a, 1)->slice_index, i + 1);
            assert_int_equal(node_last(&a, 1)->moved_blocks,
                             moved[is_cached][i]);
        }
        assert_int_equal(node_await(&b, 2, T), T | Q);
        assert_int_equal(node_await(&a, 1, T), T | Q);
        assert_int_equal(node_last(&b, 2)->moved_blocks, moved[is_cached][3]);
        node_close(&a);
        node_close(&b);
        io_loop_destroy(loop);
        transfer_inproc_hub_destroy(setup.hub);
    }
}

/* The first slices are held in the backend, the last one is posted: the
 * receiver does not complete, and completes once after the release.
 * [transfer T101 I6] */
static void last_slice_does_not_overtake(enum node_body body)
{
    struct three three;
    memset(&three, 0, sizeof(three));
    open_three(&three, body, 0, 16);
    struct rng rng = rng_from_seed(7);
    struct prompt prompt;
    draw(&three, &prompt, &rng, 100);
    three.a.fault.hold_writes = true;
    struct transfer_slice first = {0, 4, false}, last = {4, 13, true};
    send_slice(&three.a, &prompt, 1, 9, 0, &first);
    receive(&three.c, &three.a, &prompt, 2, 9, false);
    for (int i = 0; i < 1000 && three.a.fault.held == 0; i++) {
        node_turns(&three.a, 1);
    }
    send_slice(&three.a, &prompt, 1, 9, 1, &last);
    node_turns(&three.a, 30);
    assert_int_equal(node_word(&three.c, 2), 0);
    assert_int_equal(three.a.fault.held, 1);
    three.a.fault.hold_writes = false;
    assert_int_equal(node_await(&three.c, 2, T), T | Q);
    assert_int_equal(node_await(&three.a, 1, T), T | Q);
    node_turns(&three.c, 10);
    assert_int_equal(three.c.report_count, 1);
    close_three(&three);
}

/* A block that decoding reads is missing at the sender, in either life cycle:
 * the receiver counts and fails. [transfer T106] */
static void missing_block_of_any_life_fails(enum node_body body)
{
    for (uint32_t group = 0; group < GROUPS; group++) {
        struct three three;
        memset(&three, 0, sizeof(three));
        open_three(&three, body, 0, 16);
        struct prompt prompt = {
            .tokens = 64, .blocks = 8, .chunk_count = 2, .ends = {32, 64}};
        for (int i = 0; i < 8; i++) {
            prompt.from[0][i] = prompt.from[1][i] = 20 + i;
            prompt.to[0][i] = prompt.to[1][i] = 40 + i;
        }
        prompt.from[group][7] = KV_PAGE_NONE;
        send_slices(&three, &prompt, 1, 9,
                    (struct way){.is_offered = true, .has_turns = true});
        assert_int_equal(node_await(&three.c, 1, Q), T | F | Q);
        assert_int_equal(node_last(&three.c, 1)->reason,
                         AGREE_REASON_INTEGRITY);
        assert_int_equal(three.c.aux_count, 0);
        node_await(&three.a, 1, Q);
        close_three(&three);
    }
}

/* Cancelled between chunks by either side: both are quiet at once, and slices
 * that were on their way to the transfer have no answer of their own.
 * [transfer T53 T104] */
static void cancel_between_chunks_ends_both(enum node_body body)
{
    for (int is_sender = 0; is_sender < 2; is_sender++) {
        struct three three;
        memset(&three, 0, sizeof(three));
        open_three(&three, body, 0, 16);
        struct rng rng = rng_from_seed(8);
        struct prompt prompt;
        draw(&three, &prompt, &rng, 100);
        struct transfer_slice first = {0, 4, false}, more = {4, 8, false};
        send_slice(&three.a, &prompt, 1, 9, 0, &first);
        receive(&three.c, &three.a, &prompt, 2, 9, false);
        node_turns(&three.a, 20);
        assert_int_equal(node_last(&three.a, 1)->slice_index, 1);
        assert_true(node_last(&three.a, 1)->is_awaited);
        node_cancel(is_sender ? &three.a : &three.c, is_sender ? 1 : 2);
        assert_int_equal(node_await(&three.a, 1, Q), T | F | C | Q);
        assert_int_equal(node_await(&three.c, 2, Q), T | F | C | Q);
        uint32_t before = three.a.report_count;
        send_slice(&three.a, &prompt, 1, 9, 1, &more);
        node_turns(&three.a, 10);
        assert_int_equal(three.a.report_count, before);
        close_three(&three);
    }
}

/* Twenty short prompts are posted behind a long one and overtake it, on the way
 * and while digests are checked. [transfer T82] */
static void short_ones_pass_a_long_one(enum node_body body)
{
    struct io_loop *loop = NULL;
    struct node a, b;
    assert_int_equal(io_loop_create(&loop), OK);
    struct node_setup setup = {.body = body,
                               .loop = loop,
                               .hub = transfer_inproc_hub_create(),
                               .head_dim = 1024,
                               .incarnation = 0xa};
    node_open(&a, &setup);
    setup.incarnation = 0xb;
    node_open(&b, &setup);
    kv_page_id pages[NODE_PAGE_COUNT];
    for (int i = 0; i < NODE_PAGE_COUNT; i++) {
        pages[i] = i;
    }
    node_send(&a, 1, 1, pages, 230, 0);
    node_receive(&b, &a, 1, 1, pages, 230, 0);
    for (uint64_t id = 2; id <= 21; id++) {
        node_send(&a, id, (int64_t)id, pages + 230 + id, 1, 0);
        node_receive(&b, &a, id, (int64_t)id, pages + 230 + id, 1, 0);
    }
    for (uint64_t id = 2; id <= 21; id++) {
        assert_int_equal(node_await(&b, id, T), T | Q);
    }
    assert_int_equal(node_word(&b, 1), 0);
    assert_int_equal(node_await(&b, 1, T), T | Q);
    for (uint64_t id = 1; id <= 21; id++) {
        assert_int_equal(node_await(&a, id, T), T | Q);
    }
    node_close(&a);
    node_close(&b);
    io_loop_destroy(loop);
    transfer_inproc_hub_destroy(setup.hub);
}

/* Another window of one life cycle: refused by its name and both values. */
static void other_window_is_refused_by_name(enum node_body body)
{
    struct three three;
    memset(&three, 0, sizeof(three));
    open_three(&three, body, 0, 16);
    struct node other;
    struct node_setup setup = three.setup;
    setup.incarnation = 0xd;
    setup.windows[1] = 24;
    node_open(&other, &setup);
    struct prompt prompt = {.tokens = 8, .blocks = 1};
    receive(&other, &three.a, &prompt, 7, 9, true);
    assert_int_equal(node_await(&other, 7, Q), T | F | Q);
    assert_non_null(
        strstr(node_last(&other, 7)->text,
               "groups[1].window: 16 at the sender, 24 at the receiver"));
    node_close(&other);
    close_three(&three);
}

#define CASES(X)                                  \
    X(slices_arrive_as_the_whole_does, NODE_ALL)  \
    X(windows_arrive_complete, NODE_ALL)          \
    X(mixed_model_of_the_table, NODE_ALL)         \
    X(last_slice_does_not_overtake, NODE_MOST)    \
    X(missing_block_of_any_life_fails, NODE_MOST) \
    X(cancel_between_chunks_ends_both, NODE_MOST) \
    X(short_ones_pass_a_long_one, NODE_MOST)      \
    X(other_window_is_refused_by_name, NODE_MOST)
#define DEFINE(name, end)                        \
    static void test_##name(void **state)        \
    {                                            \
        (void)state;                             \
        for (int body = 0; body < end; body++) { \
            name((enum node_body)body);          \
        }                                        \
    }
CASES(DEFINE)
#define LIST(name, end) cmocka_unit_test(test_##name),

int main(void)
{
    const struct CMUnitTest tests[] = {CASES(LIST)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
