/* transfer/layout*: rank layouts, owners and maps together, in two simulated
 * instances whose memories are compared byte for byte. */
#include "layout_world.h"

/* Powers of two and sometimes three, so that some pairs do not divide. */
static uint32_t draw_size(struct world *world, uint32_t max)
{
    static const uint32_t sizes[] = {1, 1, 2, 2, 4, 8, 3, 6};
    uint32_t size = sizes[world_chance(world, 8)];
    return size <= max ? size : 1;
}

static void draw_model(struct world *world)
{
    struct world_model *model = &world->model;
    *model = (struct world_model){
        .kind = world_chance(world, 3),
        .has_index_keys = world_chance(world, 3) == 0,
        .has_states = world_chance(world, 3) == 0,
        .heads = 1u << world_chance(world, 4),
        .dim = 1 + world_chance(world, 3),
        .tokens = 1u << world_chance(world, 3),
        .blocks = 1 + world_chance(world, BLOCKS_MAX),
        .section_count = 1 + world_chance(world, SECTIONS_MAX),
        .state_shards = 8,
    };
    if (world_chance(world, 4) == 0) {
        model->heads *= 3;
    }
    model->is_latent = model->kind == TRANSFER_VIEW_WHOLE;
    for (uint32_t i = 0; i < model->section_count; i++) {
        model->section_units[i] = 24 * (1 + world_chance(world, 3));
    }
}

/* Shards that divide both the ranks and the heads: as many as there can be,
 * now and then fewer. */
static uint32_t draw_shards(struct world *world, uint32_t parts)
{
    uint32_t heads = world->model.heads;
    uint32_t most = 1;
    for (uint32_t i = 1; i <= parts; i++) {
        most = parts % i == 0 && heads % i == 0 ? i : most;
    }
    bool is_half = most % 2 == 0 && world_chance(world, 6) == 0;
    return is_half ? most / 2 : most;
}

static void draw_side(struct world *world, struct world_side *side,
                      uint32_t layer_count, uint32_t cp)
{
    uint32_t tp = draw_size(world, 8);
    uint32_t dp = world_chance(world, 4) == 0 ? tp : 1;
    if (dp == 1 && tp % 2 == 0 && world_chance(world, 4) == 0) {
        dp = 2;
    }
    uint32_t pp = 1 + world_chance(world, 3);
    while (tp * pp * cp > RANKS_MAX) {
        pp = pp > 1 ? pp - 1 : 1;
        tp = pp > 1 ? tp : tp / 2;
        dp = tp % dp == 0 ? dp : 1;
    }
    tp = tp > 0 ? tp : 1;
    dp = tp % dp == 0 ? dp : 1;
    uint32_t hole = world_chance(world, 6) == 0 ? 1 : UINT32_MAX;
    uint32_t end = layer_count - (world_chance(world, 4) == 0);
    world_split(world, side, pp, 0, end, hole);
    world_shape(side, tp, pp, cp, dp);
    side->shards =
        draw_shards(world, transfer_layout_part_count(&side->layout));
    for (uint32_t i = 0; i < SECTIONS_MAX; i++) {
        side->whole_sections[i] = world_chance(world, 4) == 0;
    }
}

static void draw_world(struct world *world)
{
    draw_model(world);
    uint32_t layer_count = 5 + world_chance(world, LAYERS_MAX - 4);
    uint32_t cp[2] = {1, 1};
    if (world_chance(world, 4) == 0 && !world->model.has_states) {
        cp[world_chance(world, 2)] = 2 + world_chance(world, 3);
    }
    for (int s = 0; s < 2; s++) {
        draw_side(world, &world->sides[s], layer_count, cp[s]);
    }
    bool is_helix = cp[0] > 1 || cp[1] > 1;
    world_build(world,
                is_helix ? 0 : world_chance(world, world->model.blocks + 1));
}

static bool is_served(const struct transfer_layers *stage,
                      const struct transfer_layout *peer)
{
    bool is_met = false;
    for (uint32_t i = 0; i < peer->pp_size; i++) {
        is_met |= transfer_layers_meet(stage, &peer->stages[i]);
    }
    return is_met;
}

/* What must be refused, told from the numbers drawn. */
static bool is_legal(const struct world *world)
{
    const struct world_side *a = &world->sides[0];
    const struct world_side *b = &world->sides[1];
    uint32_t from = transfer_layout_part_count(&a->layout);
    uint32_t to = transfer_layout_part_count(&b->layout);
    bool is_legal = from % to == 0 || to % from == 0;
    for (int s = 0; s < 2; s++) {
        const struct transfer_layout *layout = &world->sides[s].layout;
        for (uint32_t i = 0; i < layout->pp_size; i++) {
            is_legal &=
                is_served(&layout->stages[i], &world->sides[1 - s].layout);
        }
    }
    return is_legal;
}

/* As many shards as ranks or heads, whichever are fewer, and sections that are
 * whole on both sides or on none: what a model would really do. */
static bool is_natural(const struct world *world)
{
    bool is_natural = true;
    for (int s = 0; s < 2; s++) {
        const struct world_side *side = &world->sides[s];
        uint32_t parts = transfer_layout_part_count(&side->layout);
        uint32_t heads = world->model.heads;
        is_natural &= world->model.kind == TRANSFER_VIEW_WHOLE ||
                      side->shards == (parts < heads ? parts : heads);
    }
    for (uint32_t i = 0;
         world->model.has_states && i < world->model.section_count; i++) {
        is_natural &= world->sides[0].whole_sections[i] ==
                      world->sides[1].whole_sections[i];
    }
    return is_natural;
}

/* Random topologies up to 16 ranks a side, among them some that cannot be: what
 * the check lets pass meets symmetrically, as many as expected, each byte that
 * a receiver waits for written once and by a rank that it meets, no other byte
 * touched, and the bytes reported add up. Natural layouts, whose axes divide,
 * are all let pass. Layer subsets, gaps, shuffled entries, holes, reuse, each
 * kind of view. [transfer T32 T33 I2 I18 I19] [hybrid HT10 H14] */
static void every_byte_has_one_owner_and_arrives(void **state)
{
    (void)state;
    struct world *world = world_create(11);
    int passed = 0, refused = 0;
    for (int round = 0; round < 1500; round++) {
        draw_world(world);
        struct why why = {{0}};
        if (world_check(world, &why)) {
            refused++;
            bool names_counts = strstr(why.text, "shard_count: ") != NULL ||
                                strstr(why.text, "replica_count: ") != NULL;
            assert_true(!is_legal(world) || names_counts);
            assert_false(is_legal(world) && is_natural(world));
            continue;
        }
        assert_true(is_legal(world));
        passed++;
        world->sender_dp = world_chance(world, world->sides[0].layout.dp_size);
        world->receiver_dp =
            world_chance(world, world->sides[1].layout.dp_size);
        world_transfer(world);
    }
    print_message("%d topologies transferred, %d refused\n", passed, refused);
    assert_true(passed > 600);
    assert_true(refused > 50);
    world_destroy(world);
}

/* -------- the table of transfer.md 4.1 -------- */

enum { LAYERS = 8, CASES = 9 };

struct shape {
    uint32_t tp, pp, cp, dp;
    uint32_t sizes[3]; /* of the stages; all 0: random */
};
static const struct {
    const char *name;
    struct shape sides[2];
} cases[CASES] = {
    {"tp 4 to 2", {{4, 1, 1, 1}, {2, 1, 1, 1}}},
    {"tp 2 to 4", {{2, 1, 1, 1}, {4, 1, 1, 1}}},
    {"pp 3 to 2", {{1, 3, 1, 1, {3, 2, 3}}, {1, 2, 1, 1, {4, 4}}}},
    {"tp 2 pp 2 to tp 4", {{2, 2, 1, 1, {4, 4}}, {4, 1, 1, 1}}},
    {"tp 4 to attention dp 4", {{4, 1, 1, 1}, {4, 1, 1, 4}}},
    {"attention dp 4 to tp 4", {{4, 1, 1, 4}, {4, 1, 1, 1}}},
    {"tp 2 to tp 2 cp 2", {{2, 1, 1, 1}, {2, 1, 2, 1}}},
    {"tp 2 to tp 2 cp 4", {{2, 1, 1, 1}, {2, 1, 4, 1}}},
    {"tp 8 with 4 heads to tp 4", {{8, 1, 1, 1}, {4, 1, 1, 1}}},
};

static void build_case(struct world *world, int c, enum transfer_view_kind kind,
                       uint32_t blocks, uint32_t cached)
{
    world->model = (struct world_model){
        .kind = kind,
        .is_latent = kind == TRANSFER_VIEW_WHOLE,
        .heads = 4,
        .dim = 2,
        .tokens = 4,
        .blocks = blocks,
    };
    for (int s = 0; s < 2; s++) {
        const struct shape *shape = &cases[c].sides[s];
        struct world_side *side = &world->sides[s];
        world_split(world, side, shape->pp, 0, LAYERS, UINT32_MAX);
        uint32_t at = 0;
        for (uint32_t i = 0; shape->sizes[0] > 0 && i < shape->pp; i++) {
            side->stages[i] =
                (struct transfer_layers){side->ids + at, shape->sizes[i]};
            at += shape->sizes[i];
        }
        world_shape(side, shape->tp, shape->pp, shape->cp, shape->dp);
        uint32_t parts = transfer_layout_part_count(&side->layout);
        side->shards = parts < 4 ? parts : 4;
    }
    world_build(world, cached);
    struct why why = {{0}};
    IGNORE(world_check(world, &why));
    assert_string_equal(why.text, "");
}

/* Each topology of the table, and duplicated heads, with heads first, tokens
 * first and latents, whole prompts and a reused prefix at the receiver (at the
 * sender reuse changes no list: it has all blocks). [transfer T39] */
static void each_topology_moves_each_layout(void **state)
{
    (void)state;
    struct world *world = world_create(39);
    for (int c = 0; c < CASES; c++) {
        bool is_helix = cases[c].sides[1].cp > 1;
        for (int kind = 0; kind <= TRANSFER_VIEW_WHOLE; kind++) {
            for (uint32_t cached = 0; cached < (is_helix ? 1 : 4); cached++) {
                build_case(world, c, kind, 5, cached);
                world->sender_dp = world->receiver_dp = 0;
                world_transfer(world);
            }
        }
    }
    world_destroy(world);
}

/* The receiver tells all groups and waits for one; whichever serves the
 * request, all of its bytes come, and from that group's ranks only. The same
 * with the groups at the receiver. [transfer T43] */
static void whichever_group_serves_it_is_enough(void **state)
{
    (void)state;
    struct world *world = world_create(43);
    for (int c = 4; c <= 5; c++) {
        for (int kind = 0; kind <= TRANSFER_VIEW_WHOLE; kind++) {
            build_case(world, c, kind, 4, 0);
            const struct transfer_layout *from = &world->sides[0].layout;
            const struct transfer_layout *to = &world->sides[1].layout;
            for (uint32_t dp = 0; dp < 4; dp++) {
                world->sender_dp = dp % from->dp_size;
                world->receiver_dp = dp % to->dp_size;
                world_transfer(world);
            }
            struct transfer_overlap told =
                transfer_layout_broadcast(to, 0, from);
            assert_int_equal(transfer_overlap_count(&told), 4);
            assert_int_equal(transfer_overlap_expected(&told),
                             from->dp_size == 4 ? 1 : 4);
        }
    }
    world_destroy(world);
}

/* Two and four ranks of context parallelism, prompts of one to seven blocks:
 * counts that do not divide, ranks that keep none. [transfer T47] */
static void helix_deals_out_any_number_of_blocks(void **state)
{
    (void)state;
    struct world *world = world_create(47);
    for (int c = 6; c <= 7; c++) {
        for (uint32_t blocks = 1; blocks <= BLOCKS_MAX; blocks++) {
            for (int kind = 0; kind <= TRANSFER_VIEW_WHOLE; kind++) {
                build_case(world, c, kind, blocks, 0);
                world->sender_dp = world->receiver_dp = 0;
                world_transfer(world);
            }
        }
    }
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_one_owner_and_arrives),
        cmocka_unit_test(each_topology_moves_each_layout),
        cmocka_unit_test(whichever_group_serves_it_is_enough),
        cmocka_unit_test(helix_deals_out_any_number_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
