#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/clock.h"
#include "transfer/rdma_body.h"

/* -------- opening -------- */

/* From inside UCX: nothing of it may be called here. */
static void on_error(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
    (void)endpoint;
    struct rdma_link *link = context;
    log_warn_rare("transfer", "rdma: an endpoint failed: %s",
                  ucs_status_string(status));
    link->has_failed = true;
}

/* UCX reads on until the bytes say that it is over: behind them are zeros. */
static uint8_t *pad(struct span bytes)
{
    uint8_t *padded = mem_new(RDMA_PADDED_SIZE);
    memcpy(padded, bytes.data, bytes.size);
    return padded;
}

static ucs_status_t create_endpoint(struct rdma_link *link,
                                    const struct rdma_blob *where)
{
    uint8_t *address = pad(where->worker);
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = link},
    };
    ucs_status_t status =
        ucp_ep_create(link->body->worker, &params, &link->endpoint);
    mem_free(address);
    return status;
}

static ucs_status_t unpack_key(struct rdma_link *link,
                               const struct rdma_blob *where)
{
    uint8_t *key = pad(where->key);
    ucs_status_t status = ucp_ep_rkey_unpack(link->endpoint, key, &link->key);
    mem_free(key);
    return status;
}

static void begin_close(struct rdma_link *link, bool by_force);

enum err rdma_link_open(struct rdma_peer *peer, struct why *why)
{
    struct rdma_body *body = rdma_body_of(peer->base.backend);
    if (body->link_count == RDMA_LINK_COUNT_MAX) {
        return why_say(why, ERR_FULL, "%u endpoints already",
                       RDMA_LINK_COUNT_MAX);
    }
    struct rdma_link *link = mem_new(sizeof(*link));
    link->body = body;
    link->state = RDMA_CONNECTING;
    link->deadline_ns = io_clock_now_ns() + body->connect_ns;
    rdma_ops_init(link);
    ucs_status_t status = create_endpoint(link, &peer->where);
    if (status != UCS_OK) {
        mem_free(link);
        return why_say(why, ERR_UNSUPPORTED, "no way to the peer: %s",
                       ucs_status_string(status));
    }
    body->links[body->link_count++] = link;
    status = unpack_key(link, &peer->where);
    if (status != UCS_OK) {
        link->key = NULL;
        begin_close(link, true);
        return why_say(why, ERR_UNSUPPORTED, "the key of the peer's pool: %s",
                       ucs_status_string(status));
    }
    link->peer = peer;
    peer->link = link;
    rdma_probe(link);
    return OK;
}

/* -------- closing -------- */

/* Gently where all was flushed: the peer may be writing to us by the same
 * connection. */
static void begin_close(struct rdma_link *link, bool by_force)
{
    if (link->key != NULL) {
        ucp_rkey_destroy(link->key);
        link->key = NULL;
    }
    ucp_request_param_t params = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = by_force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
    };
    link->state = RDMA_CLOSING;
    link->closing = ucp_ep_close_nbx(link->endpoint, &params);
    link->endpoint = NULL;
    if (!UCS_PTR_IS_PTR(link->closing)) {
        link->closing = NULL;
    }
}

static void detach(struct rdma_link *link)
{
    link->peer->link = NULL;
    link->peer = NULL;
}

void rdma_link_give_up(struct rdma_link *link)
{
    struct rdma_peer *peer = link->peer;
    if (peer->is_begun) {
        /* rdma_put_has_work left an op for it. */
        struct transfer_write *cut = transfer_write_queue_pop(&peer->waiting);
        peer->is_begun = false;
        rdma_flush(link, cut, true, true);
    }
    rdma_put_stop(peer, TRANSFER_IN_DOUBT);
    detach(link);
    link->deadline_ns = io_clock_now_ns() + link->body->drain_ns;
    link->state = RDMA_DRAINING;
}

static void fail(struct rdma_link *link, uint64_t now)
{
    rdma_put_doubt(link);
    if (link->peer != NULL) {
        rdma_put_stop(link->peer, TRANSFER_IN_DOUBT);
        link->peer->retry_ns = now + RDMA_RETRY_NS;
        detach(link);
    }
    begin_close(link, true);
}

static bool is_over(struct rdma_link *link)
{
    if (link->closing != NULL &&
        ucp_request_check_status(link->closing) != UCS_INPROGRESS) {
        ucp_request_free(link->closing);
        link->closing = NULL;
    }
    return link->closing == NULL && link->op_count == 0;
}

static bool is_late(const struct rdma_link *link, uint64_t now)
{
    bool is_timed =
        link->state == RDMA_CONNECTING || link->state == RDMA_DRAINING;
    return is_timed && now >= link->deadline_ns;
}

/* True: it is to be freed. */
static bool step(struct rdma_link *link, uint64_t now)
{
    if (link->state == RDMA_CLOSING) {
        return is_over(link);
    }
    if (link->has_failed || is_late(link, now)) {
        fail(link, now);
    } else if (link->state == RDMA_DRAINING && link->op_count == 0) {
        begin_close(link, false);
    }
    return false;
}

void rdma_link_sweep(struct rdma_body *body, uint64_t now)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < body->link_count; i++) {
        struct rdma_link *link = body->links[i];
        if (step(link, now)) {
            mem_free(link);
        } else {
            body->links[kept++] = link;
        }
    }
    body->link_count = kept;
}

uint64_t rdma_link_next_ns(const struct rdma_body *body)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < body->link_count; i++) {
        const struct rdma_link *link = body->links[i];
        bool is_timed =
            link->state == RDMA_CONNECTING || link->state == RDMA_DRAINING;
        if (is_timed && (next == 0 || link->deadline_ns < next)) {
            next = link->deadline_ns;
        }
    }
    return next;
}

void rdma_link_close_all(struct rdma_body *body)
{
    for (uint32_t i = 0; i < body->link_count; i++) {
        if (body->links[i]->state != RDMA_CLOSING) {
            begin_close(body->links[i], true);
        }
    }
}

void rdma_link_let_go(struct rdma_body *body)
{
    for (uint32_t i = 0; i < body->link_count; i++) {
        if (body->links[i]->closing != NULL) {
            ucp_request_free(body->links[i]->closing);
            body->links[i]->closing = NULL;
        }
    }
}

void rdma_link_free_all(struct rdma_body *body)
{
    for (uint32_t i = 0; i < body->link_count; i++) {
        mem_free(body->links[i]);
    }
    body->link_count = 0;
}
