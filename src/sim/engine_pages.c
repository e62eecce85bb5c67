#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "kv/life.h"
#include "sim/engine_world.h"
#include "sim/page.h"

static struct kv_pool_view create_pool(const struct kv_layout *layout,
                                       uint32_t page_count)
{
    struct kv_pool_view pool = {.layout = *layout,
                                .page_bytes = kv_layout_page_bytes(layout),
                                .page_count = page_count};
    size_t bytes = pool.page_bytes * page_count;
    pool.base = mem_try_aligned(64, bytes > 0 ? bytes : 64);
    CHECK(pool.base != NULL);
    memset(pool.base, DEVICE_COPIER_SIM_POISON, bytes);
    return pool;
}

/* One sequence, in pages 0, 1, ... */
static void create_reference(struct sim_world *world,
                             const struct kv_layout *layout)
{
    uint32_t blocks = kv_blocks_of(world->core_options.max_seq,
                                   world->core_options.tokens_per_block);
    world->reference = model_hash_create(&world->hash);
    world->reference_table =
        mem_new_array(blocks, sizeof(world->reference_table[0]));
    for (uint32_t i = 0; i < blocks; i++) {
        world->reference_table[i] = (kv_page_id)i;
    }
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX] = {0};
    for (uint32_t i = 0; i < world->hash.life_count; i++) {
        world->reference_pools[i] = create_pool(layout, blocks);
        pools[i] = world->reference_pools[i];
    }
    world->reference->ops->set_pool(world->reference, pools);
}

void sim_pages_create(struct sim_world *world)
{
    const struct engine_core_options *core = &world->core_options;
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX] = {0};
    world->model = model_hash_create(&world->hash);
    const struct kv_layout *layout = &world->model->info.shape.layouts[0];
    for (uint32_t i = 0; i < core->group_count; i++) {
        world->pools[0][i] = create_pool(layout, core->page_counts[i]);
        world->pools[1][i] = create_pool(layout, core->host_page_counts[i]);
    }
    for (uint32_t i = 0; i < core->life_count; i++) {
        pools[i] = world->pools[0][core->group_of[i]];
    }
    world->model->ops->set_pool(world->model, pools);
    create_reference(world, layout);
    struct device_copier_sim_options options = {
        .limits = {.submission_count_max = SIM_COPY_MAX,
                   .copy_count_max = 1,
                   .wait_count_max = 2},
        .rng = rng_child(&world->world_rng, 1),
        .fail_per_1024 = world->hostility.copy_fail,
        .poison = true};
    CHECK(device_copier_sim_create(&options, &world->copier) == OK);
}

void sim_pages_destroy(struct sim_world *world)
{
    device_copier_destroy(world->copier);
    for (uint32_t i = 0; i < world->core_options.group_count; i++) {
        mem_free(world->pools[0][i].base);
        mem_free(world->pools[1][i].base);
    }
    for (uint32_t i = 0; i < world->hash.life_count; i++) {
        mem_free(world->reference_pools[i].base);
    }
    mem_free(world->reference_table);
    if (world->model != NULL) {
        world->model->ops->destroy(world->model);
        world->reference->ops->destroy(world->reference);
    }
}

/* ---- copies ---- */

static device_ticket ticket_of(const struct sim_world *world, kv_ticket ticket)
{
    for (uint32_t i = 0; i < world->copy_count; i++) {
        if (world->copies[i].order.ticket == ticket) {
            return world->copies[i].ticket;
        }
    }
    return 0; /* over already */
}

static struct device_address address_of(const struct sim_world *world,
                                        uint8_t level, uint8_t group,
                                        int32_t slot)
{
    const struct kv_pool_view *pool = &world->pools[level][group];
    CHECK(slot >= 0);
    CHECK((uint32_t)slot < pool->page_count);
    return device_address_host(pool->base + pool->page_bytes * (size_t)slot);
}

static void start_copy(struct sim_world *world, const struct kv_order *order)
{
    struct device_copy copy = {
        .to = address_of(world, order->to_level, order->group, order->to_slot),
        .from = address_of(world, order->from_level, order->group,
                           order->from_slot),
        .bytes = world->pools[0][order->group].page_bytes};
    device_ticket waits[2] = {ticket_of(world, order->after[0]),
                              ticket_of(world, order->after[1])};
    struct device_copy_order submission = {
        .copies = &copy, .copy_count = 1, .waits = waits, .wait_count = 2};
    struct sim_copy *slot = &world->copies[world->copy_count++];
    slot->order = *order;
    CHECK(device_copier_submit(world->copier, &submission, &slot->ticket) ==
          OK);
    sim_say(world, "copy %llu g%u %u:%d -> %u:%d after %llu %llu",
            (unsigned long long)order->ticket, order->group, order->from_level,
            order->from_slot, order->to_level, order->to_slot,
            (unsigned long long)order->after[0],
            (unsigned long long)order->after[1]);
}

static void end_copy(struct sim_world *world, device_ticket ticket, bool is_ok)
{
    uint32_t i = 0;
    while (world->copies[i].ticket != ticket) {
        i++;
        CHECK(i < world->copy_count);
    }
    kv_ticket done = world->copies[i].order.ticket;
    world->copy_count--;
    memmove(&world->copies[i], &world->copies[i + 1],
            (world->copy_count - i) * sizeof(world->copies[0]));
    world->summary.copies++;
    world->summary.copies_failed += !is_ok;
    world->summary.faults += !is_ok;
    sim_say(world, "copied %llu %s", (unsigned long long)done,
            is_ok ? "ok" : "failed");
    engine_core_copy_done(world->core, done, is_ok);
}

bool sim_copies_end_one(struct sim_world *world)
{
    bool has_any = device_copier_sim_step(world->copier);
    struct device_copy_done done;
    while (device_copier_poll(world->copier, &done)) {
        end_copy(world, done.ticket, done.err == OK);
    }
    return has_any;
}

void sim_copies_take(struct sim_world *world)
{
    uint32_t count = 0;
    const struct kv_order *orders = engine_core_copies(world->core, &count);
    while (count > 0) {
        if (world->copy_count == SIM_COPY_MAX) {
            CHECK(sim_copies_end_one(world));
        } else {
            struct kv_order order = orders[0];
            engine_core_copies_taken(world->core, 1);
            start_copy(world, &order);
        }
        orders = engine_core_copies(world->core, &count);
    }
}

void sim_copies_step(struct sim_world *world)
{
    while (!sim_chance(&world->world_rng, world->hostility.copy_rest) &&
           sim_copies_end_one(world)) {
    }
}

void sim_copies_drain(struct sim_world *world)
{
    while (sim_copies_end_one(world)) {
    }
}

bool sim_page_is_busy(const struct sim_world *world, uint32_t group,
                      kv_page_id page, bool is_written)
{
    for (uint32_t i = 0; i < world->copy_count; i++) {
        const struct kv_order *order = &world->copies[i].order;
        bool is_target = order->to_level == 0 && order->to_slot == page;
        bool is_source = order->from_level == 0 && order->from_slot == page;
        if (order->group == group && (is_target || (is_written && is_source))) {
            return true;
        }
    }
    return false;
}

void sim_copies_await(struct sim_world *world, uint32_t group, kv_page_id page,
                      bool is_written)
{
    while (sim_page_is_busy(world, group, page, is_written)) {
        CHECK(sim_copies_end_one(world));
    }
}

void sim_page_poison(struct sim_world *world, uint32_t life, kv_page_id page,
                     uint32_t first, uint32_t end)
{
    const struct kv_pool_view *pool =
        &world->pools[0][world->core_options.group_of[life]];
    sim_page_spoil(&pool->layout, pool->base + pool->page_bytes * (size_t)page,
                   first, end);
}
