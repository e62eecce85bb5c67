/* What is written into other hosts' memory: each piece joins the same block of
 * the same life cycle at both ends of one rid, no block twice, and only what the
 * sender holds and the receiver asked for (transfer.md I2, I3). */
#include "base/check.h"
#include "sim/cluster_world.h"

struct place {
    uint32_t life, block;
};

/* The block of `rid` that lies at `offset`; NULL: none. */
static struct cluster_session *find_place(struct cluster_worker *worker,
                                          int64_t rid, bool is_receive,
                                          uint64_t offset,
                                          struct place *place_out)
{
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        struct cluster_session *session = &worker->sessions[i];
        if (session->ticket == 0 || session->rid != rid ||
            session->is_receive != is_receive) {
            continue;
        }
        for (uint32_t life = 0; life < worker->world->core_options.life_count;
             life++) {
            uint32_t first, end;
            cluster_session_leased(session, life, &first, &end);
            for (uint32_t block = first; block < end; block++) {
                kv_page_id page = session->posted[life][block];
                if (page != KV_PAGE_NONE &&
                    cluster_page_of(worker, life, page) == offset) {
                    *place_out = (struct place){life, block};
                    return session;
                }
            }
        }
    }
    return NULL;
}

void cluster_check_piece(struct cluster_worker *writer, int64_t rid,
                         const struct cluster_memory *target,
                         const struct transfer_piece *piece)
{
    struct cluster *world = writer->world;
    struct cluster_worker *reader = &world->workers[target->worker];
    bool is_there =
        reader->is_alive && reader->incarnation == target->incarnation;
    struct place from, to;
    if (find_place(writer, rid, false, piece->source_offset, &from) == NULL) {
        cluster_fail(world,
                     "worker %u reads a page that rid %lld does not hold",
                     writer->index, (long long)rid);
        return;
    }
    if (!is_there) {
        return; /* memory of a process that is gone */
    }
    struct cluster_session *session =
        find_place(reader, rid, true, piece->target_offset, &to);
    if (session == NULL) {
        cluster_fail(world,
                     "worker %u writes a page of worker %u that rid %lld does "
                     "not wait for",
                     writer->index, reader->index, (long long)rid);
        return;
    }
    session->written[to.life][to.block]++;
    if (from.life != to.life || from.block != to.block ||
        session->written[to.life][to.block] > 1) {
        cluster_fail(world,
                     "rid %lld: block %u of life %u becomes block %u of life "
                     "%u, for the %u. time",
                     (long long)rid, from.block, from.life, to.block, to.life,
                     session->written[to.life][to.block]);
    }
}

/* ---- writes under way ---- */

bool cluster_write_is_moving(const struct cluster_write *write)
{
    return !write->is_ended || write->outcome == TRANSFER_IN_DOUBT;
}

/* Of pieces that are not copied yet, or may be copied again. */
static bool touches(const struct cluster_write *write, uint64_t page,
                    bool is_target)
{
    for (uint32_t i = write->done; i < write->piece_count; i++) {
        const struct transfer_piece *piece = &write->pieces[write->order[i]];
        if ((is_target ? piece->target_offset : piece->source_offset) == page) {
            return true;
        }
    }
    return false;
}

/* Into that worker, or by it. */
static bool is_of(const struct cluster_write *write,
                  const struct cluster_worker *worker, bool is_target)
{
    uint64_t incarnation =
        is_target ? write->target->incarnation : write->writer;
    return cluster_write_is_moving(write) && incarnation == worker->incarnation;
}

static bool is_touched(const struct cluster_worker *worker, uint64_t page,
                       bool is_target)
{
    for (const struct cluster_write *at = worker->world->writes; at != NULL;
         at = at->next) {
        if (is_of(at, worker, is_target) && touches(at, page, is_target)) {
            return true;
        }
    }
    return false;
}

bool cluster_page_is_target(const struct cluster_worker *worker, uint64_t page)
{
    return is_touched(worker, page, true);
}

bool cluster_page_is_source(const struct cluster_worker *worker, uint64_t page)
{
    return is_touched(worker, page, false);
}

bool cluster_rid_is_moving(const struct cluster_worker *worker, int64_t rid,
                           bool is_receive)
{
    for (const struct cluster_write *at = worker->world->writes; at != NULL;
         at = at->next) {
        if (is_of(at, worker, is_receive) && at->rid == rid &&
            at->done < at->piece_count) {
            return true;
        }
    }
    return false;
}
