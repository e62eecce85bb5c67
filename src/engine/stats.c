#include "base/mem.h"
#include "engine/port.h"
#include "io/thread.h"

/* One writer a turn, readers now and then: a lock is enough. */
struct engine_stats_cell {
    struct io_lock *lock;
    struct engine_stats stats;
    uint64_t told_ns; /* when they were published; 0: never */
    uint64_t rest_ns; /* page nanoseconds below a page second */
};

/* What was in use since the last time: pages are taken and given back in turns,
 * and each turn is told. */
static uint64_t add_page_seconds(struct engine_stats_cell *cell,
                                 uint64_t now_ns)
{
    const uint64_t second = 1000000000;
    uint64_t passed = cell->told_ns == 0 ? 0 : now_ns - cell->told_ns;
    uint64_t pages = cell->stats.pages_used;
    uint64_t whole = passed / second * pages;
    uint64_t rest = passed % second * pages + cell->rest_ns;
    cell->told_ns = now_ns;
    cell->rest_ns = rest % second;
    return cell->stats.page_seconds + whole + rest / second;
}

struct engine_stats_cell *engine_stats_cell_create(void)
{
    struct engine_stats_cell *cell = mem_new(sizeof(*cell));
    cell->lock = io_lock_create();
    return cell;
}

void engine_stats_cell_destroy(struct engine_stats_cell *cell)
{
    if (cell == NULL) {
        return;
    }
    io_lock_destroy(cell->lock);
    mem_free(cell);
}

void engine_stats_publish(struct engine_stats_cell *cell, uint64_t now_ns,
                          const struct engine_stats *stats)
{
    io_lock_take(cell->lock);
    uint64_t page_seconds = add_page_seconds(cell, now_ns);
    cell->stats = *stats;
    cell->stats.page_seconds = page_seconds;
    io_lock_give(cell->lock);
}

void engine_stats_read(struct engine_stats_cell *cell,
                       struct engine_stats *stats_out)
{
    io_lock_take(cell->lock);
    *stats_out = cell->stats;
    io_lock_give(cell->lock);
}
