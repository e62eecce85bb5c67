#include "base/check.h"
#include "base/digest.h"
#include "transfer/rdma_body.h"

/* Work that one put is, whatever its size. */
enum { PUT_COST = 4096 };

static void give_back(struct transfer_write *write,
                      enum transfer_outcome outcome)
{
    struct rdma_peer *peer = (struct rdma_peer *)write->peer;
    write->outcome = outcome;
    transfer_write_queue_push(&rdma_body_of(peer->base.backend)->done, write);
}

/* -------- what UCX has of ours -------- */

void rdma_ops_init(struct rdma_link *link)
{
    for (size_t i = RDMA_OPS_MAX; i > 0; i--) {
        link->ops[i - 1].link = link;
        link->ops[i - 1].next_free = link->free_op;
        link->free_op = &link->ops[i - 1];
    }
}

static struct rdma_op *take_op(struct rdma_link *link, enum rdma_op_kind kind,
                               size_t size)
{
    struct rdma_op *op = link->free_op;
    CHECK(op != NULL && !op->is_used);
    link->free_op = op->next_free;
    *op = (struct rdma_op){
        .link = link, .kind = kind, .is_used = true, .size = size};
    link->op_count++;
    link->flush_count += kind == RDMA_FLUSH;
    link->in_flight += size;
    return op;
}

static void give_op(struct rdma_op *op)
{
    struct rdma_link *link = op->link;
    CHECK(op->is_used);
    op->is_used = false;
    op->write = NULL;
    op->next_free = link->free_op;
    link->free_op = op;
    link->op_count--;
    link->flush_count -= op->kind == RDMA_FLUSH;
    link->in_flight -= op->size;
}

/* A flush says nothing of a put that had failed before. */
static enum transfer_outcome outcome_of(const struct rdma_op *op, bool is_ok)
{
    if (!is_ok || op->link->has_failed) {
        return op->has_puts ? TRANSFER_IN_DOUBT : TRANSFER_STOPPED;
    }
    return op->is_cut ? TRANSFER_STOPPED : TRANSFER_DONE;
}

static void end_op(struct rdma_op *op, ucs_status_t status)
{
    struct rdma_link *link = op->link;
    bool is_ok = status == UCS_OK;
    link->has_failed |= !is_ok;
    if (op->kind == RDMA_PROBE && is_ok && link->state == RDMA_CONNECTING) {
        link->state = RDMA_OPEN;
    }
    if (op->write != NULL) {
        give_back(op->write, outcome_of(op, is_ok));
    }
    give_op(op);
}

static void on_end(void *request, ucs_status_t status, void *context)
{
    end_op(context, status);
    ucp_request_free(request);
}

static ucp_request_param_t params_of(struct rdma_op *op)
{
    return (ucp_request_param_t){
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_end,
        .user_data = op,
    };
}

/* What is over at once calls nobody. */
static void note(struct rdma_op *op, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        end_op(op, UCS_PTR_STATUS(request));
    }
}

void rdma_probe(struct rdma_link *link)
{
    const struct rdma_peer *peer = link->peer;
    struct rdma_op *op = take_op(link, RDMA_PROBE, 0);
    size_t size = sizeof(link->probe) < peer->where.pool_size
                      ? sizeof(link->probe)
                      : peer->where.pool_size;
    ucp_request_param_t params = params_of(op);
    note(op, ucp_get_nbx(link->endpoint, &link->probe, size,
                         peer->where.address, link->key, &params));
}

void rdma_flush(struct rdma_link *link, struct transfer_write *write,
                bool has_puts, bool is_cut)
{
    struct rdma_op *op = take_op(link, RDMA_FLUSH, 0);
    op->write = write;
    op->has_puts = has_puts;
    op->is_cut = is_cut;
    ucp_request_param_t params = params_of(op);
    note(op, ucp_ep_flush_nbx(link->endpoint, &params));
}

static void put(struct rdma_peer *peer, const uint8_t *from, size_t size,
                uint64_t target_offset)
{
    struct rdma_link *link = peer->link;
    struct rdma_op *op = take_op(link, RDMA_PUT, size);
    ucp_request_param_t params = params_of(op);
    note(op,
         ucp_put_nbx(link->endpoint, from, size,
                     peer->where.address + target_offset, link->key, &params));
}

/* -------- a write -------- */

/* A put leaves room for the flush behind it. */
bool rdma_put_has_work(const struct rdma_peer *peer)
{
    const struct rdma_link *link = peer->link;
    return link != NULL && link->state == RDMA_OPEN && !link->has_failed &&
           peer->waiting.first != NULL && link->op_count + 2 <= RDMA_OPS_MAX &&
           link->in_flight < RDMA_IN_FLIGHT_MAX;
}

static void check_piece(const struct rdma_peer *peer,
                        const struct transfer_piece *piece)
{
    const struct rdma_body *body = rdma_body_of(peer->base.backend);
    CHECK(piece->source_offset <= body->pool_size);
    CHECK(piece->size <= body->pool_size - piece->source_offset);
    CHECK(piece->target_offset <= peer->pool_size);
    CHECK(piece->size <= peer->pool_size - piece->target_offset);
}

static void begin_piece(struct rdma_peer *peer, struct transfer_write *write,
                        struct transfer_piece *piece)
{
    check_piece(peer, piece);
    if (!write->without_digest) {
        piece->crc32c = 0;
    }
}

/* The bytes are leased, so the NIC reads later what is digested here. */
static size_t put_some(struct rdma_peer *peer, struct transfer_write *write,
                       struct transfer_piece *piece)
{
    const struct rdma_body *body = rdma_body_of(peer->base.backend);
    uint64_t left = piece->size - peer->piece_done;
    size_t size = left < RDMA_PUT_SIZE ? left : RDMA_PUT_SIZE;
    const uint8_t *from = body->pool + piece->source_offset + peer->piece_done;
    if (!write->without_digest) {
        piece->crc32c = digest_crc32c(piece->crc32c, span_of(from, size));
    }
    peer->is_begun = true;
    put(peer, from, size, piece->target_offset + peer->piece_done);
    peer->piece_done += size;
    return size;
}

static void end_write(struct rdma_peer *peer)
{
    struct transfer_write *write = transfer_write_queue_pop(&peer->waiting);
    bool has_puts = peer->is_begun;
    peer->is_begun = false;
    rdma_flush(peer->link, write, has_puts, false);
}

size_t rdma_put_step(struct rdma_peer *peer)
{
    struct transfer_write *write = peer->waiting.first;
    size_t size = 0;
    if (write->cursor < write->piece_count) {
        struct transfer_piece *piece = &write->pieces[write->cursor];
        if (peer->piece_done == 0) {
            begin_piece(peer, write, piece);
        }
        size = piece->size > 0 ? put_some(peer, write, piece) : 0;
        if (peer->piece_done == piece->size) {
            peer->piece_done = 0;
            write->cursor++;
        }
    }
    if (write->cursor == write->piece_count) {
        end_write(peer);
    }
    return size > PUT_COST ? size : PUT_COST;
}

/* -------- writes that end early -------- */

void rdma_put_stop(struct rdma_peer *peer, enum transfer_outcome begun)
{
    struct transfer_write *write;
    while ((write = transfer_write_queue_pop(&peer->waiting)) != NULL) {
        give_back(write, peer->is_begun ? begun : TRANSFER_STOPPED);
        peer->is_begun = false;
    }
    peer->piece_done = 0;
}

void rdma_put_doubt(struct rdma_link *link)
{
    for (size_t i = 0; i < RDMA_OPS_MAX; i++) {
        struct rdma_op *op = &link->ops[i];
        if (op->is_used && op->write != NULL) {
            give_back(op->write, outcome_of(op, false));
            op->write = NULL;
        }
    }
}
