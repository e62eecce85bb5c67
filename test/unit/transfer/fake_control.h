#pragma once
/* A control that only notes what it is asked to say and to drop. Its functions
 * take the place of control.c's in the test that includes this. Beside it a
 * pool in an inproc backend, a peer's pool in another, and both mailboxes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agree/word.h"
#include "base/digest.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "transfer/backend_inproc.h"
#include "transfer/control.h"
#include "wire/cancel.h"
#include "wire/recv_request.h"
#include "wire/result.h"

enum { SAID_MAX = 64, SAID_SIZE_MAX = 2048, FAKE_PAGES = 16, FAKE_TOKENS = 8 };

struct said {
    struct link *link;
    uint16_t type;
    int64_t rid;
    uint32_t attempt;
    uint8_t body[SAID_SIZE_MAX];
    size_t size;
};

struct control {
    struct said said[SAID_MAX];
    uint32_t said_count, drop_count, connect_count;
    struct link *sender; /* what connect and find_sender give, if it fits */
};
static struct control fake_control;

enum err control_send(struct link *link, uint16_t type, int64_t rid,
                      uint32_t attempt, struct span body)
{
    assert_true(fake_control.said_count < SAID_MAX);
    assert_true(body.size <= SAID_SIZE_MAX);
    struct said *said = &fake_control.said[fake_control.said_count++];
    *said = (struct said){link, type, rid, attempt, {0}, body.size};
    if (body.size > 0) {
        memcpy(said->body, body.data, body.size);
    }
    return OK;
}

void control_hold(struct link *link, uint16_t type, int64_t rid,
                  uint32_t attempt, struct span body)
{
    assert_int_equal(control_send(link, type, rid, attempt, body), OK);
}

void control_drop(struct link *link, const char *format, ...)
{
    (void)format;
    link->is_closing = true;
    fake_control.drop_count++;
}

enum err control_connect(struct control *control, const char *endpoint,
                         uint64_t wanted, struct why *why,
                         struct link **link_out)
{
    (void)endpoint, (void)why;
    control->connect_count++;
    control->sender->wanted = wanted;
    *link_out = control->sender;
    return OK;
}

struct link *control_find_sender(struct control *control, uint64_t incarnation)
{
    struct link *link = control->sender;
    bool is_it = link != NULL && link->state == PEER_REGISTERED &&
                 link->incarnation == incarnation && !link->is_closing;
    return is_it ? link : NULL;
}

const char *control_endpoint(const struct control *control)
{
    (void)control;
    return "tcp://127.0.0.1:7";
}

/* The last thing said, decoded as a result. */
static inline struct wire_result last_result(void)
{
    assert_true(fake_control.said_count > 0);
    struct said *said = &fake_control.said[fake_control.said_count - 1];
    assert_int_equal(said->type, WIRE_KV_RESULT);
    struct wire_result result;
    struct why why = {0};
    bool is_odd;
    assert_int_equal(wire_result_decode(span_of(said->body, said->size), &why,
                                        &result, &is_odd),
                     OK);
    return result;
}

/* -------- what surrounds a side -------- */

struct around {
    struct transfer_inproc_hub *hub;
    struct transfer_backend *backend, *peer_backend;
    struct kv_pool_view pool;
    uint8_t *peer_pool;
    struct buf peer_blob;
    struct transfer_options options;
    struct transfer_stats stats;
};

static inline void no_wake(void *context)
{
    (void)context;
}

static inline void around_open(struct around *around)
{
    memset(around, 0, sizeof(*around));
    fake_control = (struct control){0};
    struct kv_layout layout = {.layer_count = 1,
                               .kv_head_count = 1,
                               .head_dim = 16,
                               .tokens_per_block = FAKE_TOKENS,
                               .element_bytes = 2};
    size_t page = kv_layout_page_bytes(&layout);
    void *base = NULL;
    void *peer = NULL;
    struct why why = {0};
    around->hub = transfer_inproc_hub_create();
    assert_int_equal(
        transfer_backend_inproc_create(around->hub, 0xa, &around->backend), OK);
    assert_int_equal(
        transfer_backend_inproc_create(around->hub, 0xb, &around->peer_backend),
        OK);
    assert_int_equal(
        transfer_backend_alloc(around->backend, page * FAKE_PAGES, &why, &base),
        OK);
    assert_int_equal(transfer_backend_alloc(around->peer_backend,
                                            page * FAKE_PAGES, &why, &peer),
                     OK);
    around->peer_pool = peer;
    buf_init(&around->peer_blob, TRANSFER_BLOB_SIZE_MAX);
    assert_int_equal(transfer_backend_export(around->peer_backend, peer,
                                             page * FAKE_PAGES, &why,
                                             &around->peer_blob),
                     OK);
    around->pool = (struct kv_pool_view){base, page, FAKE_PAGES, layout};
    for (size_t i = 0; i < page * FAKE_PAGES; i++) {
        around->pool.base[i] = (uint8_t)(i * 7 + i / page);
    }
    struct io_mailbox_options reports = {sizeof(struct transfer_report), 64,
                                         NULL};
    struct io_mailbox *mailbox = NULL;
    assert_int_equal(io_mailbox_create(&reports, &mailbox), OK);
    around->options =
        (struct transfer_options){.backend = around->backend,
                                  .memory = base,
                                  .memory_size = page * FAKE_PAGES,
                                  .group_count = 1,
                                  .groups = {{around->pool}},
                                  .incarnation = 0xa,
                                  .port.reports = mailbox,
                                  .send_count_max = 4,
                                  .receive_count_max = 4,
                                  .peer_count_max = 4,
                                  .grace_ns = 1000,
                                  .advert_ttl_ns = 500};
}

static inline void around_close(struct around *around)
{
    transfer_backend_free(around->backend, around->pool.base);
    transfer_backend_free(around->peer_backend, around->peer_pool);
    transfer_backend_destroy(around->backend);
    transfer_backend_destroy(around->peer_backend);
    transfer_inproc_hub_destroy(around->hub);
    buf_finish(&around->peer_blob);
    io_mailbox_destroy(around->options.port.reports);
}

/* The word of the last report; 0: none came. */
static inline struct transfer_report around_report(struct around *around)
{
    struct transfer_report report = {0};
    struct transfer_report next;
    while (io_mailbox_take(around->options.port.reports, &next)) {
        report = next;
    }
    return report;
}
