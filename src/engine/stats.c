#include "base/mem.h"
#include "engine/port.h"
#include "io/thread.h"

/* One writer a turn, readers now and then: a lock is enough. */
struct engine_stats_cell {
    struct io_lock *lock;
    struct engine_stats stats;
};

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

void engine_stats_publish(struct engine_stats_cell *cell,
                          const struct engine_stats *stats)
{
    io_lock_take(cell->lock);
    cell->stats = *stats;
    io_lock_give(cell->lock);
}

void engine_stats_read(struct engine_stats_cell *cell,
                       struct engine_stats *stats_out)
{
    io_lock_take(cell->lock);
    *stats_out = cell->stats;
    io_lock_give(cell->lock);
}
