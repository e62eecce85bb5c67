/* What planning a transfer costs between ranks that cut the cache unlike: pairs
 * of blocks, then the pieces of each, as a backend takes them, on one core. A
 * plan has about 50,000 pieces, what a prompt of 10,000 to 1,600,000 tokens
 * makes; the map it is made by is made once a peer and is measured beside.
 * [transfer T93] */
#include <string.h>

#include "line.h"
#include "transfer/layout_map.h"

enum {
    RUNS = 31,
    PIECES = 50000,
    PIECES_MAX = 60000,
    LAYERS = 80,
    ENTRIES = 2 * LAYERS
};

static struct transfer_run runs[ENTRIES];
static struct transfer_piece pieces[PIECES_MAX];
static struct transfer_pair pairs[PIECES_MAX];
static kv_page_id from_pages[PIECES_MAX], to_pages[PIECES_MAX];

/* K and V of 80 layers, 8 heads over `shards` ranks, 32 tokens of 128 F16. */
struct side {
    struct transfer_entry entries[ENTRIES];
    struct transfer_view view;
    struct transfer_slots slots;
};

static void side_init(struct side *side, enum transfer_view_kind kind,
                      uint32_t shards)
{
    side->view = (struct transfer_view){
        .kind = kind,
        .element = TRANSFER_ELEMENT_F16,
        .roles = TRANSFER_ROLE_KEY | TRANSFER_ROLE_VALUE,
        .tokens_per_block = 32,
        .head_count = 8 / shards,
        .head_dim = 128,
        .share = {shards, shards - 1, 1, 0},
        .entry_count = ENTRIES,
        .entries = side->entries,
    };
    uint64_t size = transfer_view_entry_bytes(&side->view);
    side->view.slot_bytes = ENTRIES * size;
    side->slots = (struct transfer_slots){0, ENTRIES * size};
    for (uint32_t i = 0; i < ENTRIES; i++) {
        side->entries[i] = (struct transfer_entry){
            (uint16_t)(i / 2), i % 2 ? TRANSFER_ROLE_VALUE : TRANSFER_ROLE_KEY,
            i * size};
    }
}

static void make_map(const struct side *from, const struct side *to,
                     struct transfer_map *map)
{
    transfer_map_init(map, &from->slots, &to->slots, runs, ENTRIES);
    if (transfer_map_add(map, &from->view, &to->view, NULL, 0)) {
        fprintf(stderr, "mapper_bench: no room for the map\n");
        exit(1);
    }
    transfer_map_finish(map);
}

/* In runs of `run` pages, the runs in opposite orders on the two sides. */
static void lay_pages(uint32_t blocks, uint32_t run)
{
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t back = (blocks - 1) / run - i / run;
        from_pages[i] = (kv_page_id)i;
        to_pages[i] = (kv_page_id)(back * run + i % run);
    }
}

/* One whole plan; its pieces. */
static size_t plan(const struct transfer_map *map, uint32_t blocks,
                   bool joins_slots)
{
    const struct transfer_blocks source = {from_pages, 0, blocks};
    const struct transfer_blocks target = {to_pages, 0, blocks};
    uint32_t count = transfer_pair_blocks(&source, &target, pairs);
    struct transfer_map_cursor cursor = {0};
    size_t got = transfer_map_pieces(map, pairs, count, joins_slots, &cursor,
                                     PIECES_MAX, pieces);
    __asm__ volatile("" : : "r"(pieces) : "memory");
    return got;
}

static void say(const char *what, double value, const char *unit, double goal,
                double aim)
{
    line_print(&(struct line){.bench = "mapper",
                              .name = what,
                              .value = value,
                              .unit = unit,
                              .goal = goal,
                              .aim = aim,
                              .runs = RUNS});
}

/* `run` 0: pages are scattered and not joined. */
static void bench_case(const char *name, enum transfer_view_kind kind,
                       uint32_t from_shards, uint32_t to_shards, uint32_t run)
{
    static struct side from, to;
    struct transfer_map map;
    double map_us[RUNS], plan_us[RUNS];
    side_init(&from, kind, from_shards);
    side_init(&to, kind, to_shards);
    make_map(&from, &to, &map);
    uint32_t blocks = (uint32_t)(PIECES / map.pieces_a_slot);
    lay_pages(blocks, run > 0 ? run : 1);
    size_t count = plan(&map, blocks, run > 0);
    for (int i = 0; i < RUNS; i++) {
        uint64_t begin = io_clock_now_ns();
        make_map(&from, &to, &map);
        map_us[i] = line_ns_since(begin, 1000);
        begin = io_clock_now_ns();
        plan(&map, blocks, run > 0);
        plan_us[i] = line_ns_since(begin, 1000);
    }
    double us = line_median(plan_us, RUNS);
    double planned = (double)(blocks * map.pieces_a_slot);
    char text[96];
    snprintf(text, sizeof(text), "%s: descriptors planned", name);
    say(text, planned / us, "M/s", 3, 50);
    snprintf(text, sizeof(text), "%s: %.0f planned, %zu written", name, planned,
             count);
    say(text, us / 1e3, "ms", 1, 0);
    snprintf(text, sizeof(text), "%s: a map, once a peer", name);
    say(text, line_median(map_us, RUNS), "us", 0, 0);
}

int main(void)
{
    bench_case("heads first, tp 1 to 2", TRANSFER_VIEW_HEADS_FIRST, 1, 2, 0);
    bench_case("tokens first, tp 1 to 2", TRANSFER_VIEW_TOKENS_FIRST, 1, 2, 0);
    bench_case("tokens first, tp 4 to 2", TRANSFER_VIEW_TOKENS_FIRST, 4, 2, 0);
    bench_case("whole slots", TRANSFER_VIEW_HEADS_FIRST, 2, 2, 0);
    bench_case("whole slots, joined by 8", TRANSFER_VIEW_HEADS_FIRST, 2, 2, 8);
    return 0;
}
