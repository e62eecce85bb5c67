#pragma once
/* bench/pair: two workers' transfers in one process, each with a loop, a thread
 * and a pool of its own, as in a worker; the caller is both engines.
 *
 *   caller == commands ==> sender   loop ~~~ control, backend ~~~ receiver loop
 *          <= reports ====                                     == reports ==> caller
 *
 * What fails ends the program. Included by programs of bench/ only. */
#include <string.h>

#include "agree/word.h"
#include "base/log.h"
#include "io/loop.h"
#include "io/mailbox.h"
#include "io/thread.h"
#include "line.h"
#include "transfer/backend_tcp.h"
#include "transfer/backend_ucx.h"
#include "transfer/transfer.h"

struct pair_options {
    bool is_tcp; /* else shared memory */
    uint32_t page_bytes, page_count;
    size_t arena_size; /* beside the pool, for packed writes; 0: none */
    uint32_t mailbox_size; /* messages; 0: 64 */
};

/* One worker's transfer. */
struct pair_end {
    struct transfer_backend *backend;
    uint8_t *memory;
    struct io_waker *orders_waker, *reports_waker;
    struct transfer_port port;
    struct io_loop *loop;
    struct io_thread *thread;
    struct transfer *transfer;
    uint64_t incarnation;
};

struct pair {
    struct pair_end sender, receiver;
};

static inline void pair_stop_on(enum err err, const struct why *why)
{
    if (err) {
        fprintf(stderr, "bench: %s %s\n", err_name(err),
                why != NULL ? why->text : "");
        exit(1);
    }
}

static inline void pair_run_end(void *context)
{
    io_loop_run(context);
}

static inline struct io_mailbox *pair_mailbox(
    const struct pair_options *options, size_t size, struct io_waker *waker)
{
    struct io_mailbox *mailbox;
    uint32_t count = options->mailbox_size != 0 ? options->mailbox_size : 64;
    struct io_mailbox_options mailbox_options = {size, count, waker};
    pair_stop_on(io_mailbox_create(&mailbox_options, &mailbox), NULL);
    return mailbox;
}

static inline void pair_open_backend(struct pair_end *end, bool is_tcp)
{
    struct why why = {{0}};
    if (is_tcp) {
        struct transfer_backend_tcp_options options = {
            .incarnation = end->incarnation, .host = "127.0.0.1"};
        pair_stop_on(transfer_backend_tcp_create(&options, &why, &end->backend),
                     &why);
    } else {
        struct transfer_backend_ucx_options options = {end->incarnation};
        pair_stop_on(transfer_backend_ucx_create(&options, &why, &end->backend),
                     &why);
    }
}

static inline void pair_open_mailboxes(struct pair_end *end,
                                       const struct pair_options *options)
{
    pair_stop_on(io_waker_create(&end->orders_waker), NULL);
    pair_stop_on(io_waker_create(&end->reports_waker), NULL);
    end->port.commands = pair_mailbox(options, sizeof(struct transfer_command),
                                      end->orders_waker);
    end->port.reports = pair_mailbox(options, sizeof(struct transfer_report),
                                     end->reports_waker);
}

static inline void pair_open_transfer(struct pair_end *end,
                                      const struct pair_options *options,
                                      size_t size)
{
    size_t pool_size = (size_t)options->page_bytes * options->page_count;
    struct kv_layout layout = {1, 1, options->page_bytes / 4, 1, 2};
    struct transfer_options transfer = {
        .loop = end->loop,
        .backend = end->backend,
        .memory = end->memory,
        .memory_size = size,
        .group_count = 1,
        .groups = {{.pool = {end->memory, options->page_bytes,
                             options->page_count, layout}}},
        .bounce = {.offset = pool_size,
                   .size = options->arena_size,
                   .patience_ns = UINT64_C(60000000000),
                   .is_forced = true},
        .incarnation = end->incarnation,
        .host = "127.0.0.1",
        .port = end->port,
        .commands_waker = end->orders_waker,
    };
    struct why why = {{0}};
    pair_stop_on(transfer_create(&transfer, &why, &end->transfer), &why);
}

static inline void pair_open_end(struct pair_end *end,
                                 const struct pair_options *options)
{
    static uint64_t incarnation = 100;
    struct why why = {{0}};
    *end = (struct pair_end){.incarnation = ++incarnation};
    pair_open_backend(end, options->is_tcp);
    size_t size =
        (size_t)options->page_bytes * options->page_count + options->arena_size;
    void *memory;
    pair_stop_on(transfer_backend_alloc(end->backend, size, &why, &memory),
                 &why);
    end->memory = memory;
    memset(memory, (int)incarnation, size);
    pair_open_mailboxes(end, options);
    pair_stop_on(io_loop_create(&end->loop), NULL);
    pair_open_transfer(end, options, size);
    pair_stop_on(
        io_thread_start("transfer", pair_run_end, end->loop, &end->thread),
        NULL);
}

static inline void pair_close_end(struct pair_end *end)
{
    io_loop_stop(end->loop);
    io_thread_join(end->thread);
    pair_stop_on(transfer_destroy(end->transfer), NULL);
    transfer_backend_free(end->backend, end->memory);
    transfer_backend_destroy(end->backend);
    io_mailbox_destroy(end->port.commands);
    io_mailbox_destroy(end->port.reports);
    io_waker_destroy(end->orders_waker);
    io_waker_destroy(end->reports_waker);
    io_loop_destroy(end->loop);
}

static inline void pair_open(struct pair *pair,
                             const struct pair_options *options)
{
    log_setup(&(struct log_options){.level = LOG_WARN});
    pair_open_end(&pair->sender, options);
    pair_open_end(&pair->receiver, options);
}

static inline void pair_close(struct pair *pair)
{
    pair_close_end(&pair->sender);
    pair_close_end(&pair->receiver);
}

static inline void pair_post(struct pair_end *end,
                             const struct transfer_command *command)
{
    pair_stop_on(io_mailbox_post(end->port.commands, command), NULL);
}

/* Makes `command`, which sends, the receiver's of the same pages count. */
static inline void pair_make_receive(const struct pair *pair,
                                     struct transfer_command *command,
                                     const kv_page_id *pages)
{
    command->kind = TRANSFER_RECEIVE;
    command->pages[0] = pages;
    command->sender_incarnation = pair->sender.incarnation;
    snprintf(command->sender_endpoint, sizeof(command->sender_endpoint),
             "%.279s", transfer_endpoint(pair->sender.transfer));
}

/* What goes with the last slice after an offer; the transfer's once posted. */
static inline struct transfer_aux *pair_first_tokens(uint32_t prompt_tokens)
{
    struct transfer_aux *aux = mem_new(sizeof(*aux));
    aux->prompt_tokens = prompt_tokens;
    aux->choice_count = 1;
    return aux;
}

/* A failed session ends the program. */
static inline void pair_check(const struct transfer_report *report)
{
    if (report->word & AGREE_FAILED) {
        fprintf(stderr, "bench: a transfer failed: %s\n", report->text);
        exit(1);
    }
}

/* Sleeps until there is one; its first tokens are freed. */
static inline struct transfer_report pair_next(struct pair_end *end)
{
    struct transfer_report report;
    while (!io_mailbox_take(end->port.reports, &report)) {
        io_waker_wait(end->reports_waker, 100000000);
    }
    pair_check(&report);
    mem_free(report.aux);
    report.aux = NULL;
    return report;
}

static inline void pair_wait_quiet(struct pair_end *end)
{
    while (!(pair_next(end).word & AGREE_QUIET)) {
    }
}
