#pragma once
/* A worker's transfer for tests: backend, pool, mailboxes, transfer, all on a
 * loop that the test turns by hand. Several share one loop and one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agree/word.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "transfer/backend_fault.h"
#include "transfer/backend_inproc.h"
#include "transfer/backend_rdma.h"
#include "transfer/backend_tcp.h"
#include "transfer/backend_ucx.h"
#include "transfer/transfer.h"

enum { NODE_PAGE_COUNT = 256, NODE_TOKENS = 8, NODE_REPORT_MAX = 1024 };
enum node_body {
    NODE_INPROC,
    NODE_UCX,
    NODE_TCP,
    /* Over a transport that any host has. It takes its time to connect: not for
     * cases that count turns, or end before bytes have moved. */
    NODE_RDMA,
    NODE_BODY_COUNT,
    NODE_MOST = NODE_RDMA,
    NODE_ALL = NODE_BODY_COUNT
};

struct node_setup {
    enum node_body body;
    struct io_loop *loop;
    struct transfer_inproc_hub *hub;
    uint64_t incarnation;
    uint32_t tokens_per_block; /* 0: NODE_TOKENS */
    uint32_t group_count; /* 0: 1; the others have smaller pages */
    uint32_t windows[TRANSFER_GROUP_COUNT_MAX]; /* by group */
    bool is_reversed; /* the groups are listed in the opposite order */
    uint32_t head_dim; /* 0: 16; pages grow with it */
    uint64_t grace_ns, advert_ttl_ns, heartbeat_ns;
    uint32_t send_count_max;
    struct transfer_bounce_options bounce; /* behind the pools; no offset */
};

struct node {
    struct io_loop *loop;
    uint64_t incarnation;
    struct transfer_fault fault;
    struct transfer_backend *backend;
    struct kv_pool_view pool; /* of group 0 */
    uint8_t *memory;
    size_t memory_size;
    uint32_t group_count;
    struct transfer_group groups[TRANSFER_GROUP_COUNT_MAX];
    struct transfer_bounce_options bounce;
    struct io_waker *commands_waker, *reports_waker;
    struct transfer_port port;
    struct transfer *transfer;
    /* Reports so far; the last word of each request is what counts. */
    struct transfer_report reports[NODE_REPORT_MAX];
    uint32_t report_count;
    uint32_t aux_count; /* first tokens that came */
    struct transfer_aux last_aux;
};

static inline void node_ok(enum err err, const struct why *why)
{
    if (err) {
        fprintf(stderr, "%s: %s\n", err_name(err), why->text);
    }
    assert_int_equal(err, OK);
}

static inline struct transfer_backend *node_backend(struct node *node,
                                                    const struct node_setup *s)
{
    struct transfer_backend *backend = NULL;
    struct why why = {0};
    if (s->body == NODE_INPROC) {
        node_ok(
            transfer_backend_inproc_create(s->hub, s->incarnation, &backend),
            &why);
    } else if (s->body == NODE_TCP) {
        struct transfer_backend_tcp_options options = {
            .incarnation = s->incarnation,
            .host = "127.0.0.1",
            .key = span_of_string("key"),
        };
        node_ok(transfer_backend_tcp_create(&options, &why, &backend), &why);
    } else if (s->body == NODE_RDMA) {
        struct transfer_backend_rdma_options options = {
            .incarnation = s->incarnation,
            .key = span_of_string("key"),
            .test_transport = "tcp",
        };
        node_ok(transfer_backend_rdma_create(&options, &why, &backend), &why);
    } else {
        struct transfer_backend_ucx_options options = {s->incarnation};
        node_ok(transfer_backend_ucx_create(&options, &why, &backend), &why);
    }
    return transfer_backend_fault_create(backend, &node->fault);
}

/* Group after group, each begins at a page of the system. */
static inline void node_pool(struct node *node, const struct node_setup *s)
{
    size_t offsets[TRANSFER_GROUP_COUNT_MAX];
    node->group_count = s->group_count ? s->group_count : 1;
    for (uint32_t i = 0; i < node->group_count; i++) {
        uint32_t as = s->is_reversed ? node->group_count - 1 - i : i;
        struct kv_layout layout = {
            .layer_count = as == 0 ? 2 : 1,
            .kv_head_count = 2,
            .head_dim = s->head_dim ? s->head_dim : 16,
            .tokens_per_block =
                s->tokens_per_block ? s->tokens_per_block : NODE_TOKENS,
            .element_bytes = 2,
        };
        offsets[i] = node->memory_size;
        node->groups[i] = (struct transfer_group){
            .pool = {NULL, kv_layout_page_bytes(&layout), NODE_PAGE_COUNT,
                     layout},
            .life = {.window = s->windows[as]}};
        node->memory_size +=
            (node->groups[i].pool.page_bytes * NODE_PAGE_COUNT + 4095) / 4096 *
            4096;
    }
    node->bounce = s->bounce;
    node->bounce.offset = node->memory_size;
    node->memory_size += node->bounce.size;
    struct why why = {0};
    void *memory = NULL;
    node_ok(
        transfer_backend_alloc(node->backend, node->memory_size, &why, &memory),
        &why);
    node->memory = memory;
    for (uint32_t i = 0; i < node->group_count; i++) {
        node->groups[i].pool.base = node->memory + offsets[i];
    }
    node->pool = node->groups[0].pool;
}

static inline void node_open(struct node *node, const struct node_setup *s)
{
    memset(node, 0, sizeof(*node));
    node->loop = s->loop;
    node->incarnation = s->incarnation;
    node->backend = node_backend(node, s);
    node_pool(node, s);
    struct why why = {0};
    node_ok(io_waker_create(&node->commands_waker), &why);
    node_ok(io_waker_create(&node->reports_waker), &why);
    struct io_mailbox_options commands = {sizeof(struct transfer_command), 256,
                                          node->commands_waker};
    struct io_mailbox_options reports = {sizeof(struct transfer_report), 64,
                                         node->reports_waker};
    node_ok(io_mailbox_create(&commands, &node->port.commands), &why);
    node_ok(io_mailbox_create(&reports, &node->port.reports), &why);
    struct transfer_options options = {
        .loop = s->loop,
        .backend = node->backend,
        .memory = node->memory,
        .memory_size = node->memory_size,
        .group_count = node->group_count,
        .bounce = node->bounce,
        .incarnation = s->incarnation,
        .host = "127.0.0.1",
        .port = node->port,
        .commands_waker = node->commands_waker,
        .send_count_max = s->send_count_max,
        .grace_ns = s->grace_ns,
        .advert_ttl_ns = s->advert_ttl_ns,
        .heartbeat_ns = s->heartbeat_ns,
    };
    memcpy(options.groups, node->groups, sizeof(options.groups));
    node_ok(transfer_create(&options, &why, &node->transfer), &why);
}

static inline void node_collect(struct node *node)
{
    struct transfer_report report;
    while (io_mailbox_take(node->port.reports, &report)) {
        assert_true(node->report_count < NODE_REPORT_MAX);
        if (report.aux != NULL) {
            node->last_aux = *report.aux;
            node->aux_count++;
            mem_free(report.aux);
            report.aux = NULL;
        }
        node->reports[node->report_count++] = report;
    }
}

static inline void node_close(struct node *node)
{
    node_collect(node);
    assert_int_equal(transfer_destroy(node->transfer), OK);
    transfer_backend_free(node->backend, node->memory);
    transfer_backend_destroy(node->backend);
    io_mailbox_destroy(node->port.commands);
    io_mailbox_destroy(node->port.reports);
    io_waker_destroy(node->commands_waker);
    io_waker_destroy(node->reports_waker);
}

/* The last report of `request`, NULL when there is none yet. */
static inline const struct transfer_report *node_last(struct node *node,
                                                      uint64_t request)
{
    node_collect(node);
    for (uint32_t i = node->report_count; i > 0; i--) {
        if (node->reports[i - 1].request == request) {
            return &node->reports[i - 1];
        }
    }
    return NULL;
}

static inline uint8_t node_word(struct node *node, uint64_t request)
{
    const struct transfer_report *report = node_last(node, request);
    return report != NULL ? report->word : 0;
}

/* Turns the loop until all `bits` are in the word of `request`. */
static inline uint8_t node_await(struct node *node, uint64_t request,
                                 uint8_t bits)
{
    for (int i = 0; i < 20000; i++) {
        uint8_t word = node_word(node, request);
        if ((word & bits) == bits) {
            return word;
        }
        io_loop_turn(node->loop, 5000000);
    }
    fail_msg("request %llu never got bits %#x, its word is %#x",
             (unsigned long long)request, bits, node_word(node, request));
    return 0;
}

static inline void node_turns(struct node *node, int count)
{
    for (int i = 0; i < count; i++) {
        io_loop_turn(node->loop, 1000000);
    }
    node_collect(node);
}

static inline void node_fill(struct node *node, uint64_t seed)
{
    uint64_t *words = (uint64_t *)node->memory;
    size_t count = node->memory_size / 8;
    for (size_t i = 0; i < count; i++) {
        words[i] = rng_at(seed, 0, i);
    }
}

static inline uint8_t *node_page(struct node *node, kv_page_id page)
{
    return node->pool.base + (size_t)page * node->pool.page_bytes;
}

/* `count` different pages in random order, each left out with chance holes/8.
 */
static inline void node_pick(struct rng *rng, kv_page_id *pages, uint32_t count,
                             uint32_t holes)
{
    kv_page_id all[NODE_PAGE_COUNT];
    for (int i = 0; i < NODE_PAGE_COUNT; i++) {
        all[i] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = i + (uint32_t)rng_below(rng, NODE_PAGE_COUNT - i);
        kv_page_id page = all[other];
        all[other] = all[i];
        all[i] = page;
        pages[i] = rng_below(rng, 8) < holes ? KV_PAGE_NONE : page;
    }
}

/* What each test sends as first tokens: the request's id stands in it. */
static inline struct transfer_aux *node_aux(uint64_t request)
{
    struct transfer_aux *aux = mem_new(sizeof(*aux));
    aux->choice_count = 1;
    aux->firsts[0].token = (int32_t)request;
    return aux;
}

static inline void node_send(struct node *node, uint64_t request, int64_t rid,
                             const kv_page_id *pages, uint32_t count,
                             uint64_t deadline_ns)
{
    struct transfer_command command = {
        .kind = TRANSFER_SEND,
        .request = request,
        .rid = rid,
        .deadline_ns = deadline_ns,
        .pages = {pages},
        .group_count = 1,
        .block_count = count,
        .prompt_tokens = count * NODE_TOKENS,
        .end_block = count,
        .is_last = true,
        .aux = node_aux(request),
    };
    assert_int_equal(io_mailbox_post(node->port.commands, &command), OK);
}

static inline void node_receive_from(struct node *node, const char *endpoint,
                                     uint64_t incarnation, uint64_t request,
                                     int64_t rid, const kv_page_id *pages,
                                     uint32_t count, uint64_t deadline_ns)
{
    struct transfer_command command = {
        .kind = TRANSFER_RECEIVE,
        .request = request,
        .rid = rid,
        .deadline_ns = deadline_ns,
        .pages = {pages},
        .group_count = 1,
        .block_count = count,
        .prompt_tokens = count * node->pool.layout.tokens_per_block,
        .sender_incarnation = incarnation,
        .is_generation_first = true, /* tests receive before and after */
    };
    snprintf(command.sender_endpoint, sizeof(command.sender_endpoint), "%.279s",
             endpoint);
    assert_int_equal(io_mailbox_post(node->port.commands, &command), OK);
}

static inline void node_receive(struct node *node, struct node *sender,
                                uint64_t request, int64_t rid,
                                const kv_page_id *pages, uint32_t count,
                                uint64_t deadline_ns)
{
    node_receive_from(node, transfer_endpoint(sender->transfer),
                      sender->incarnation, request, rid, pages, count,
                      deadline_ns);
}

static inline void node_cancel(struct node *node, uint64_t request)
{
    struct transfer_command command = {.kind = TRANSFER_CANCEL,
                                       .request = request,
                                       .reason = AGREE_REASON_CALLER_LEFT};
    assert_int_equal(io_mailbox_post(node->port.commands, &command), OK);
}
