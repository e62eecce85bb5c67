/* transfer/layout_map: the bytes of one pair of slots, number by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transfer/layout_map.h"

enum {
    KEY = TRANSFER_ROLE_KEY,
    VALUE = TRANSFER_ROLE_VALUE,
    RUNS = 512,
    PIECES = 70000
};

static struct transfer_run runs[RUNS];
static struct transfer_piece pieces[PIECES];
static const struct transfer_pair first_pair = {0, 0, 0};

static struct transfer_share share_at(uint32_t shards, uint32_t index)
{
    return (struct transfer_share){shards, index, 1, 0};
}

/* K and V of layers 0, 1, ... one after the other. */
struct side {
    struct transfer_entry entries[64];
    struct transfer_view view;
};

static void side_init(struct side *side, enum transfer_view_kind kind,
                      uint32_t layers, uint32_t heads, uint32_t tokens,
                      uint32_t dim, struct transfer_share share)
{
    side->view = (struct transfer_view){
        .kind = kind,
        .element = TRANSFER_ELEMENT_F16,
        .roles = KEY | VALUE,
        .tokens_per_block = tokens,
        .head_count = heads,
        .head_dim = dim,
        .share = share,
        .entry_count = 2 * layers,
        .entries = side->entries,
    };
    uint64_t size = transfer_view_entry_bytes(&side->view);
    side->view.slot_bytes = 2 * layers * size;
    for (uint32_t i = 0; i < 2 * layers; i++) {
        side->entries[i] = (struct transfer_entry){
            (uint16_t)(i / 2), i % 2 ? VALUE : KEY, i * size};
    }
    assert_int_equal(transfer_view_validate(&side->view, NULL), OK);
}

static void plan(struct transfer_map *map, const struct transfer_view *from,
                 const struct transfer_view *to,
                 const struct transfer_tokens *tokens)
{
    const struct transfer_slots source = {0, from->slot_bytes};
    const struct transfer_slots target = {0, to->slot_bytes};
    transfer_map_init(map, &source, &target, runs, RUNS);
    assert_int_equal(transfer_map_add(map, from, to, tokens, 0), OK);
    transfer_map_finish(map);
}

static size_t fill(const struct transfer_map *map,
                   const struct transfer_pair *pairs, uint32_t count,
                   bool joins_slots)
{
    struct transfer_map_cursor cursor = {0};
    size_t got = transfer_map_pieces(map, pairs, count, joins_slots, &cursor,
                                     PIECES, pieces);
    assert_int_equal(transfer_map_pieces(map, pairs, count, joins_slots,
                                         &cursor, 1, pieces + got),
                     0);
    return got;
}

static void expect_pieces(size_t count, const uint64_t (*expected)[3],
                          size_t expected_count)
{
    assert_int_equal(count, expected_count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pieces[i].source_offset, expected[i][0]);
        assert_int_equal(pieces[i].target_offset, expected[i][1]);
        assert_int_equal(pieces[i].size, expected[i][2]);
    }
}

/* transfer.md 4.2: 4 heads to 2, B 32, D 128, two layers. */
static void heads_first_is_a_fragment_an_entry(void **state)
{
    (void)state;
    static struct side from, to;
    struct transfer_map map;
    side_init(&from, TRANSFER_VIEW_HEADS_FIRST, 2, 4, 32, 128, share_at(1, 0));
    const uint64_t expected[2][4][3] = {{{0, 0, 16384},
                                         {32768, 16384, 16384},
                                         {65536, 32768, 16384},
                                         {98304, 49152, 16384}},
                                        {{16384, 0, 16384},
                                         {49152, 16384, 16384},
                                         {81920, 32768, 16384},
                                         {114688, 49152, 16384}}};
    for (uint32_t peer = 0; peer < 2; peer++) {
        side_init(&to, TRANSFER_VIEW_HEADS_FIRST, 2, 2, 32, 128,
                  share_at(2, peer));
        plan(&map, &from.view, &to.view, NULL);
        assert_int_equal(map.bytes_a_slot, 65536);
        expect_pieces(fill(&map, &first_pair, 1, true), expected[peer], 4);
        plan(&map, &to.view, &from.view, NULL); /* and back */
        assert_int_equal(fill(&map, &first_pair, 1, true), 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pieces[i].source_offset, expected[peer][i][1]);
            assert_int_equal(pieces[i].target_offset, expected[peer][i][0]);
        }
    }
}

/* transfer.md 4.2: 32 layers and 32 blocks make 65536 descriptors of 512 B with
 * tokens first and 2048 of 16 KiB with heads first, 32 MiB both. */
static void tokens_first_is_a_fragment_a_token(void **state)
{
    (void)state;
    static struct side from, to;
    static struct transfer_pair pairs[32];
    struct transfer_map map;
    for (int i = 0; i < 32; i++) {
        pairs[i] = (struct transfer_pair){(uint32_t)i, 2 * i, 3 * i};
    }
    const struct {
        enum transfer_view_kind kind;
        size_t count, size;
    } cases[] = {{TRANSFER_VIEW_HEADS_FIRST, 2048, 16384},
                 {TRANSFER_VIEW_TOKENS_FIRST, 65536, 512}};
    for (int c = 0; c < 2; c++) {
        side_init(&from, cases[c].kind, 32, 4, 32, 128, share_at(1, 0));
        side_init(&to, cases[c].kind, 32, 2, 32, 128, share_at(2, 1));
        plan(&map, &from.view, &to.view, NULL);
        assert_int_equal(map.pieces_a_slot * 32, cases[c].count);
        assert_int_equal(fill(&map, pairs, 32, true), cases[c].count);
        uint64_t bytes = 0;
        for (size_t i = 0; i < cases[c].count; i++) {
            assert_int_equal(pieces[i].size, cases[c].size);
            bytes += pieces[i].size;
        }
        assert_int_equal(bytes, 32 << 20);
        assert_int_equal(map.bytes_a_slot, 1 << 20);
    }
    /* Second head pair of the second token: 1024 on and 512 in. */
    assert_int_equal(pieces[1].source_offset, 1024 + 512);
    assert_int_equal(pieces[1].target_offset, 512);
}

/* Equal shards: all layers are one run, slots that follow each other on both
 * sides too, if that is wanted. */
static void whole_slots_are_joined(void **state)
{
    (void)state;
    static struct side from, to;
    struct transfer_map map;
    const struct transfer_pair pairs[] = {
        {0, 5, 2}, {1, 6, 3}, {2, 7, 9}, {3, 8, 10}, {4, 10, 11}};
    side_init(&from, TRANSFER_VIEW_HEADS_FIRST, 4, 2, 4, 8, share_at(2, 1));
    side_init(&to, TRANSFER_VIEW_HEADS_FIRST, 4, 2, 4, 8, share_at(2, 1));
    plan(&map, &from.view, &to.view, NULL);
    assert_int_equal(map.run_count, 1);
    const uint64_t S = from.view.slot_bytes;
    assert_int_equal(map.bytes_a_slot, S);
    const uint64_t joined[3][3] = {
        {5 * S, 2 * S, 2 * S}, {7 * S, 9 * S, 2 * S}, {10 * S, 11 * S, S}};
    expect_pieces(fill(&map, pairs, 5, true), joined, 3);
    assert_int_equal(fill(&map, pairs, 5, false), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pieces[i].size, S);
        assert_int_equal(pieces[i].source_offset, pairs[i].source * S);
    }
}

/* Layers that lie in another order, one missing on either side: physical order
 * of the sender, joined where both sides adjoin. */
static void layers_are_joined_in_the_senders_order(void **state)
{
    (void)state;
    const struct transfer_entry at_sender[] = {
        {0, KEY, 96}, {1, KEY, 64}, {2, KEY, 0}, {3, KEY, 32}};
    const struct transfer_entry at_receiver[] = {
        {1, KEY, 232}, {2, KEY, 8}, {3, KEY, 40}, {4, KEY, 100}};
    static struct side from, to;
    side_init(&from, TRANSFER_VIEW_HEADS_FIRST, 1, 1, 2, 8, share_at(1, 0));
    from.view.roles = KEY;
    from.view.slot_bytes = 128;
    from.view.entry_count = 4;
    to.view = from.view;
    to.view.slot_bytes = 264;
    from.view.entries = at_sender;
    to.view.entries = at_receiver;
    assert_int_equal(transfer_view_validate(&from.view, NULL), OK);
    assert_int_equal(transfer_view_validate(&to.view, NULL), OK);
    struct transfer_map map;
    plan(&map, &from.view, &to.view, NULL);
    const uint64_t expected[2][3] = {{0, 8, 64}, {64, 232, 32}};
    expect_pieces(fill(&map, &first_pair, 1, true), expected, 2);
}

static struct transfer_view state_view(const struct transfer_section *sections,
                                       uint32_t count,
                                       const struct transfer_entry *entry,
                                       struct transfer_share share,
                                       uint32_t unit_floats)
{
    struct transfer_view view = {
        .kind = TRANSFER_VIEW_SECTIONED,
        .element = TRANSFER_ELEMENT_F32,
        .roles = entry->role,
        .head_dim = unit_floats,
        .section_count = count,
        .sections = sections,
        .share = share,
        .entry_count = 1,
        .entries = entry,
    };
    view.slot_bytes = transfer_view_entry_bytes(&view);
    assert_int_equal(transfer_view_validate(&view, NULL), OK);
    return view;
}

static const struct transfer_entry conv = {0, TRANSFER_ROLE_CONV, 0};
static const struct transfer_entry matrix = {0, TRANSFER_ROLE_STATE, 0};

/* transfer.md 4.7: sections 1024, 1024, 2048 on TP 2 to 512, 512, 1024 on TP 4,
 * and back. [hybrid HT10] */
static void each_section_is_cut_alone(void **state)
{
    (void)state;
    const struct transfer_section wide[] = {{1024}, {1024}, {2048}};
    const struct transfer_section narrow[] = {{512}, {512}, {1024}};
    struct transfer_view two = state_view(wide, 3, &conv, share_at(2, 1), 1);
    struct transfer_map map;
    const uint64_t expected[2][3][3] = {
        {{0, 0, 512}, {1024, 512, 512}, {2048, 1024, 1024}},
        {{512, 0, 512}, {1536, 512, 512}, {3072, 1024, 1024}}};
    for (uint32_t peer = 0; peer < 4; peer++) {
        struct transfer_view four =
            state_view(narrow, 3, &conv, share_at(4, peer), 1);
        plan(&map, &two, &four, NULL);
        if (peer < 2) {
            assert_int_equal(map.run_count, 0);
            assert_int_equal(map.bytes_a_slot, 0);
            continue;
        }
        expect_pieces(fill(&map, &first_pair, 1, true), expected[peer - 2], 3);
    }
    struct transfer_view four = state_view(narrow, 3, &conv, share_at(4, 3), 1);
    plan(&map, &four, &two, NULL);
    const uint64_t back[3][3] = {
        {0, 512, 512}, {512, 1536, 512}, {1024, 3072, 1024}};
    expect_pieces(fill(&map, &first_pair, 1, true), back, 3);
}

/* hybrid.md 3.5: rows of q, k and v for H 4, D 2, w 3 in F32, and unequal
 * widths. [hybrid HT10] */
static void rows_are_cut_section_by_section(void **state)
{
    (void)state;
    struct transfer_section one[9], two[9], four[9];
    for (int i = 0; i < 9; i++) {
        one[i] = (struct transfer_section){32, false};
        two[i] = (struct transfer_section){16, false};
        four[i] = (struct transfer_section){8, false};
    }
    struct transfer_view from = state_view(one, 9, &conv, share_at(1, 0), 2);
    struct transfer_view to = state_view(two, 9, &conv, share_at(2, 1), 2);
    struct transfer_map map;
    plan(&map, &from, &to, NULL);
    const uint64_t rows[9][3] = {{16, 0, 16},   {48, 16, 16},   {80, 32, 16},
                                 {112, 48, 16}, {144, 64, 16},  {176, 80, 16},
                                 {208, 96, 16}, {240, 112, 16}, {272, 128, 16}};
    expect_pieces(fill(&map, &first_pair, 1, true), rows, 9);
    struct transfer_view last = state_view(four, 9, &conv, share_at(4, 3), 2);
    plan(&map, &to, &last, NULL);
    assert_int_equal(fill(&map, &first_pair, 1, true), 9);
    for (uint64_t row = 0; row < 3; row++) {
        const uint64_t parts[3][2] = {{8, 0}, {24, 8}, {40, 16}};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pieces[3 * row + i].source_offset,
                             parts[i][0] + 48 * row);
            assert_int_equal(pieces[3 * row + i].target_offset,
                             parts[i][1] + 24 * row);
            assert_int_equal(pieces[3 * row + i].size, 8);
        }
    }
    to.share.shard_index = 0;
    plan(&map, &to, &last, NULL);
    assert_int_equal(map.run_count, 0);
    const struct transfer_section half[] = {{16}, {16}, {32}};
    const struct transfer_section quarter[] = {{8}, {8}, {16}};
    from = state_view(half, 3, &conv, share_at(2, 1), 2);
    to = state_view(quarter, 3, &conv, share_at(4, 3), 2);
    plan(&map, &from, &to, NULL);
    const uint64_t widths[3][3] = {{8, 0, 8}, {24, 8, 8}, {48, 16, 16}};
    expect_pieces(fill(&map, &first_pair, 1, true), widths, 3);
}

/* hybrid.md 3.5: a matrix a head, 4 heads of 2 x 2 F32 on TP 1, 2 and 4. A slot
 * of its own. [hybrid HT10] */
static void a_state_is_cut_by_heads(void **state)
{
    (void)state;
    const struct transfer_section all = {64, false}, half = {32, false};
    const struct transfer_section quarter = {16, false};
    struct transfer_view one = state_view(&all, 1, &matrix, share_at(1, 0), 4);
    struct transfer_view two = state_view(&half, 1, &matrix, share_at(2, 1), 4);
    struct transfer_view four =
        state_view(&quarter, 1, &matrix, share_at(4, 3), 4);
    struct transfer_map map;
    plan(&map, &one, &two, NULL);
    const uint64_t first[1][3] = {{32, 0, 32}};
    expect_pieces(fill(&map, &first_pair, 1, true), first, 1);
    plan(&map, &two, &four, NULL);
    const uint64_t second[1][3] = {{16, 0, 16}};
    expect_pieces(fill(&map, &first_pair, 1, true), second, 1);
}

/* A section that the sender has whole on each rank comes once, from one of
 * those that a receiver meets, while each sends its part of the others. */
static void a_whole_section_has_one_owner(void **state)
{
    (void)state;
    const struct transfer_section narrow[] = {{8, false}, {12, true}};
    const struct transfer_section wide[] = {{16, false}, {12, true}};
    struct transfer_view to = state_view(wide, 2, &conv, share_at(1, 0), 1);
    struct transfer_map map;
    const uint64_t expected[2][2][3] = {{{0, 0, 8}, {8, 16, 12}}, {{0, 8, 8}}};
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct transfer_view from =
            state_view(narrow, 2, &conv, share_at(2, rank), 1);
        plan(&map, &from, &to, NULL);
        expect_pieces(fill(&map, &first_pair, 1, true), expected[rank],
                      2 - rank);
    }
}

/* Who is not the owner has no runs: zero descriptors and zero bytes, and says
 * so. [transfer I18] */
static void a_replica_that_does_not_own_sends_nothing(void **state)
{
    (void)state;
    static struct side from, to;
    struct transfer_map map;
    side_init(&from, TRANSFER_VIEW_HEADS_FIRST, 2, 1, 4, 8,
              (struct transfer_share){4, 1, 2, 1});
    side_init(&to, TRANSFER_VIEW_HEADS_FIRST, 2, 1, 4, 8, share_at(4, 1));
    plan(&map, &from.view, &to.view, NULL);
    assert_int_equal(map.bytes_a_slot, 0);
    assert_int_equal(fill(&map, &first_pair, 1, true), 0);
}

/* Two views in the same slots: keys and values, then index keys behind them,
 * adjoin on both sides and go as one. */
static void views_that_share_slots_share_a_map(void **state)
{
    (void)state;
    static struct side a, b;
    side_init(&a, TRANSFER_VIEW_HEADS_FIRST, 2, 2, 4, 8, share_at(1, 0));
    side_init(&b, TRANSFER_VIEW_WHOLE, 1, 1, 4, 8, share_at(1, 0));
    const struct transfer_entry index_keys[] = {
        {0, TRANSFER_ROLE_INDEX_KEY, 512}, {1, TRANSFER_ROLE_INDEX_KEY, 576}};
    b.view.roles = TRANSFER_ROLE_INDEX_KEY;
    b.view.entries = index_keys;
    b.view.entry_count = 2;
    b.view.slot_bytes = a.view.slot_bytes = 640;
    assert_int_equal(transfer_view_validate(&b.view, NULL), OK);
    const struct transfer_slots slots = {64, 640};
    struct transfer_map map;
    transfer_map_init(&map, &slots, &slots, runs, RUNS);
    for (int i = 0; i < 4; i++) { /* those that do not pair add nothing */
        const struct transfer_view *views[2] = {&a.view, &b.view};
        assert_int_equal(
            transfer_map_add(&map, views[i / 2], views[i % 2], NULL, 0), OK);
    }
    transfer_map_finish(&map);
    const struct transfer_pair pair = {9, 1, 2};
    const uint64_t expected[1][3] = {{64 + 640, 64 + 1280, 640}};
    expect_pieces(fill(&map, &pair, 1, true), expected, 1);
}

/* What ends a slot adjoins what begins the next one, but that is the first of
 * many short runs: it is not taken for all of them. */
static void a_run_of_many_is_not_joined_as_one(void **state)
{
    (void)state;
    static struct side from, to, keys;
    struct transfer_map map;
    side_init(&from, TRANSFER_VIEW_TOKENS_FIRST, 1, 2, 2, 8, share_at(1, 0));
    side_init(&to, TRANSFER_VIEW_TOKENS_FIRST, 1, 1, 2, 8, share_at(2, 0));
    side_init(&keys, TRANSFER_VIEW_WHOLE, 1, 1, 2, 8, share_at(1, 0));
    const struct transfer_entry at_sender = {0, TRANSFER_ROLE_INDEX_KEY, 128};
    const struct transfer_entry at_receiver = {0, TRANSFER_ROLE_INDEX_KEY, 64};
    struct transfer_view first = keys.view, second = keys.view;
    first.roles = second.roles = TRANSFER_ROLE_INDEX_KEY;
    first.entry_count = second.entry_count = 1;
    first.entries = &at_sender, second.entries = &at_receiver;
    const struct transfer_slots source = {0, 160}, target = {0, 96};
    second.share = (struct transfer_share){1, 0, 2, 0};
    transfer_map_init(&map, &source, &target, runs, RUNS);
    assert_int_equal(transfer_map_add(&map, &from.view, &to.view, NULL, 0), OK);
    assert_int_equal(transfer_map_add(&map, &first, &second, NULL, 0), OK);
    transfer_map_finish(&map);
    assert_int_equal(map.bytes_a_slot, 96);
    const struct transfer_pair pairs[] = {{0, 0, 0}, {1, 1, 1}};
    const uint64_t expected[10][3] = {
        {0, 0, 16},     {32, 16, 16},  {64, 32, 16},   {96, 48, 16},
        {128, 64, 32},  {160, 96, 16}, {192, 112, 16}, {224, 128, 16},
        {256, 144, 16}, {288, 160, 32}};
    expect_pieces(fill(&map, pairs, 2, true), expected, 10);
}

/* Any capacity, cut anywhere, gives the same pieces in the same order. */
static void a_walk_goes_on_where_it_stopped(void **state)
{
    (void)state;
    static struct side from, to;
    static struct transfer_piece part[64];
    const struct transfer_pair pairs[] = {{0, 3, 1}, {1, 1, 2}, {2, 0, 0}};
    struct transfer_map map;
    side_init(&from, TRANSFER_VIEW_TOKENS_FIRST, 2, 4, 8, 8, share_at(1, 0));
    side_init(&to, TRANSFER_VIEW_TOKENS_FIRST, 2, 1, 8, 8, share_at(4, 2));
    plan(&map, &from.view, &to.view, NULL);
    size_t all = fill(&map, pairs, 3, false);
    assert_int_equal(all, 3 * 2 * 2 * 8);
    for (size_t capacity = 1; capacity <= 64; capacity++) {
        struct transfer_map_cursor cursor = {0};
        size_t at = 0;
        for (size_t got = capacity; got > 0; at += got) {
            got = transfer_map_pieces(&map, pairs, 3, false, &cursor, capacity,
                                      part);
            assert_true(got == capacity || at + got == all);
            assert_memory_equal(part, pieces + at, got * sizeof(part[0]));
        }
        assert_int_equal(at, all);
    }
}

/* transfer.md 4.5: Bs 64, Bd 32, 100 tokens: four overlaps, one run an entry
 * with tokens first, one a head with heads first. */
static void a_span_of_tokens_is_mapped_alone(void **state)
{
    (void)state;
    static struct side from, to;
    const struct transfer_tokens spans[] = {
        {0, 0, 32}, {32, 0, 32}, {0, 0, 32}, {32, 0, 4}};
    struct transfer_map map;
    for (int i = 0; i < 4; i++) {
        const struct transfer_tokens *span = &spans[i];
        side_init(&from, TRANSFER_VIEW_TOKENS_FIRST, 1, 2, 64, 8,
                  share_at(1, 0));
        side_init(&to, TRANSFER_VIEW_TOKENS_FIRST, 1, 2, 32, 8, share_at(1, 0));
        plan(&map, &from.view, &to.view, span);
        const uint64_t rows[2][3] = {
            {span->source_first * 32, 0, span->count * 32},
            {2048 + span->source_first * 32, 1024, span->count * 32}};
        expect_pieces(fill(&map, &first_pair, 1, true), rows, 2);
        from.view.kind = to.view.kind = TRANSFER_VIEW_HEADS_FIRST;
        plan(&map, &from.view, &to.view, span);
        const uint64_t heads[4][3] = {
            {span->source_first * 16, 0, span->count * 16},
            {1024 + span->source_first * 16, 512, span->count * 16},
            {2048 + span->source_first * 16, 1024, span->count * 16},
            {3072 + span->source_first * 16, 1536, span->count * 16}};
        expect_pieces(fill(&map, &first_pair, 1, true), heads, 4);
    }
}

/* Where an element lies, by the definition of the layouts. */
static uint64_t address(const struct transfer_view *view, uint32_t token,
                        uint32_t head)
{
    uint64_t row = view->kind == TRANSFER_VIEW_TOKENS_FIRST
                       ? (uint64_t)token * view->head_count + head
                       : (uint64_t)head * view->tokens_per_block + token;
    return row * view->head_dim * 2;
}

/* Any span of tokens between blocks of 6 and of 4, heads cut either way or not
 * at all: each element goes where its token and head are, nothing else does. */
static void a_span_goes_with_cut_heads(void **state)
{
    (void)state;
    static struct side sides[2];
    for (int c = 0; c < 2 * 3 * 4 * 3 * 3; c++) {
        enum transfer_view_kind kind =
            c % 2 ? TRANSFER_VIEW_TOKENS_FIRST : TRANSFER_VIEW_HEADS_FIRST;
        uint32_t shards[2] = {1u << c / 2 % 3 / 2, 1u << c / 2 % 3 % 2};
        struct transfer_tokens span = {c / 6 % 4, c / 24 % 3, 1 + c / 72};
        span.count = span.target_first + span.count > 4 ? 1 : span.count;
        for (int s = 0; s < 2; s++) {
            side_init(&sides[s], kind, 1, 4 / shards[s], s == 0 ? 6 : 4, 2,
                      share_at(shards[s], shards[s] - 1));
        }
        const struct transfer_view *from = &sides[0].view, *to = &sides[1].view;
        struct transfer_map map;
        plan(&map, from, to, &span);
        size_t count = fill(&map, &first_pair, 1, true);
        uint64_t source[512];
        memset(source, 0xff, sizeof(source));
        for (size_t i = 0; i < count; i++) {
            for (uint64_t at = 0; at < pieces[i].size; at++) {
                uint64_t *byte = &source[pieces[i].target_offset + at];
                assert_true(*byte == UINT64_MAX);
                *byte = pieces[i].source_offset + at;
            }
        }
        uint32_t heads = shards[0] > shards[1] ? 4 / shards[0] : 4 / shards[1];
        uint32_t lost_source = from->head_count - heads;
        uint32_t lost_target = to->head_count - heads;
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < 2 * span.count * heads * 4; i++) {
            uint32_t head = i / 4 % heads, token = i / 4 / heads % span.count;
            uint32_t role = i / 4 / heads / span.count;
            uint64_t want =
                sides[0].entries[role].offset + i % 4 +
                address(from, span.source_first + token, lost_source + head);
            uint64_t at =
                sides[1].entries[role].offset + i % 4 +
                address(to, span.target_first + token, lost_target + head);
            assert_int_equal(source[at], want);
            bytes++;
        }
        assert_int_equal(map.bytes_a_slot, bytes);
    }
}

/* Fewer runs than the map needs are an answer. */
static void a_map_without_room_is_full(void **state)
{
    (void)state;
    static struct side from, to;
    side_init(&from, TRANSFER_VIEW_HEADS_FIRST, 2, 2, 4, 8, share_at(1, 0));
    side_init(&to, TRANSFER_VIEW_HEADS_FIRST, 2, 1, 4, 8, share_at(2, 0));
    assert_int_equal(transfer_map_run_count_max(&from.view), 4);
    const struct transfer_slots slots = {0, from.view.slot_bytes};
    struct transfer_map map;
    transfer_map_init(&map, &slots, &slots, runs, 3);
    assert_int_equal(transfer_map_add(&map, &from.view, &to.view, NULL, 0),
                     ERR_FULL);
    transfer_map_init(&map, &slots, &slots, runs, 4);
    assert_int_equal(transfer_map_add(&map, &from.view, &to.view, NULL, 0), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_first_is_a_fragment_an_entry),
        cmocka_unit_test(tokens_first_is_a_fragment_a_token),
        cmocka_unit_test(whole_slots_are_joined),
        cmocka_unit_test(layers_are_joined_in_the_senders_order),
        cmocka_unit_test(each_section_is_cut_alone),
        cmocka_unit_test(rows_are_cut_section_by_section),
        cmocka_unit_test(a_state_is_cut_by_heads),
        cmocka_unit_test(a_whole_section_has_one_owner),
        cmocka_unit_test(a_replica_that_does_not_own_sends_nothing),
        cmocka_unit_test(views_that_share_slots_share_a_map),
        cmocka_unit_test(a_run_of_many_is_not_joined_as_one),
        cmocka_unit_test(a_walk_goes_on_where_it_stopped),
        cmocka_unit_test(a_span_of_tokens_is_mapped_alone),
        cmocka_unit_test(a_span_goes_with_cut_heads),
        cmocka_unit_test(a_map_without_room_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
