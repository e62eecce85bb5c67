#include "transfer/backend_trace.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/clock.h"
#include "io/thread.h"
#include "transfer/decorate.h"

struct transfer_trace {
    struct io_lock *lock;
    uint64_t count; /* records ever */
    struct transfer_record ring[TRANSFER_TRACE_COUNT];
};

/* A write under way. */
struct flight {
    const struct transfer_write *write; /* NULL: free */
    struct transfer_record record;
};

struct body {
    struct transfer_decorator base;
    struct transfer_trace *trace;
    uint64_t number;
    uint32_t flight_count; /* places from here on are free */
    bool is_any_new; /* handed since the last poll */
    struct flight flights[TRANSFER_TRACE_COUNT];
};

/* -------- the recorder -------- */

struct transfer_trace *transfer_trace_create(void)
{
    struct transfer_trace *trace = mem_new(sizeof(*trace));
    trace->lock = io_lock_create();
    return trace;
}

void transfer_trace_destroy(struct transfer_trace *trace)
{
    if (trace != NULL) {
        io_lock_destroy(trace->lock);
        mem_free(trace);
    }
}

static void add(struct transfer_trace *trace,
                const struct transfer_record *record)
{
    io_lock_take(trace->lock);
    trace->ring[trace->count++ % TRANSFER_TRACE_COUNT] = *record;
    io_lock_give(trace->lock);
}

uint32_t transfer_trace_read(const struct transfer_trace *trace,
                             struct transfer_record *records_out, uint32_t max)
{
    io_lock_take(trace->lock);
    uint64_t held = trace->count < TRANSFER_TRACE_COUNT ? trace->count
                                                        : TRANSFER_TRACE_COUNT;
    uint32_t count = held < max ? (uint32_t)held : max;
    for (uint32_t i = 0; i < count; i++) {
        records_out[i] =
            trace->ring[(trace->count - 1 - i) % TRANSFER_TRACE_COUNT];
    }
    io_lock_give(trace->lock);
    return count;
}

static const char *outcome_name(enum transfer_outcome outcome)
{
    switch (outcome) {
    case TRANSFER_DONE:
        return "done";
    case TRANSFER_STOPPED:
        return "stopped";
    case TRANSFER_IN_DOUBT:
        return "in doubt";
    }
    CHECK_UNREACHABLE();
}

static void print_record(const struct transfer_record *record, struct buf *out)
{
    buf_printf(out,
               "{\"write\":%" PRIu64 ",\"disagg_request_id\":%" PRId64
               ",\"attempt\":%" PRIu32 ",\"lane\":\"%s\",\"result\":\"%s\"",
               record->number, record->token.rid, record->token.attempt,
               record->lane, outcome_name(record->outcome));
    buf_printf(out,
               ",\"bytes\":%" PRIu64 ",\"pieces\":%zu,\"wait_us\":%.3f"
               ",\"move_us\":%.3f,\"ago_ms\":%.3f}",
               record->bytes, record->piece_count,
               (double)(record->begun_ns - record->handed_ns) / 1e3,
               (double)(record->back_ns - record->begun_ns) / 1e3,
               (double)(io_clock_now_ns() - record->back_ns) / 1e6);
}

void transfer_trace_print(const struct transfer_trace *trace, uint32_t max,
                          struct buf *out)
{
    max = max < TRANSFER_TRACE_COUNT ? max : TRANSFER_TRACE_COUNT;
    struct transfer_record *records =
        mem_new_array(TRANSFER_TRACE_COUNT, sizeof(*records));
    uint32_t count = transfer_trace_read(trace, records, max);
    buf_add_byte(out, '[');
    for (uint32_t i = 0; i < count; i++) {
        buf_add_string(out, i == 0 ? "" : ",");
        print_record(&records[i], out);
    }
    buf_add_byte(out, ']');
    mem_free(records);
}

/* -------- the decorator -------- */

static struct body *body_of(const struct transfer_backend *backend)
{
    return (struct body *)backend;
}

static void destroy(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    CHECK(body->flight_count == 0);
    transfer_backend_destroy(body->base.next);
    mem_free(body);
}

static enum err peer_open(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct transfer_backend_peer *inner = NULL;
    enum err err = transfer_backend_peer_open(body_of(backend)->base.next, blob,
                                              pool_size, why, &inner);
    if (err) {
        return err;
    }
    *peer_out = transfer_inner_peer_create(backend, inner);
    return OK;
}

static uint64_t bytes_of(const struct transfer_write *write)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < write->piece_count; i++) {
        bytes += write->pieces[i].size;
    }
    return bytes;
}

/* More than there are places for are counted but not followed. */
static void follow(struct body *body, const struct transfer_write *write)
{
    body->number++;
    if (body->flight_count == TRANSFER_TRACE_COUNT) {
        return;
    }
    body->flights[body->flight_count++] = (struct flight){
        .write = write,
        .record = {.number = body->number,
                   .token = write->token,
                   .lane = transfer_backend_peer_lane(write->peer),
                   .bytes = bytes_of(write),
                   .piece_count = write->piece_count,
                   .handed_ns = io_clock_now_ns()},
    };
    body->is_any_new = true;
}

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    struct body *body = body_of(backend);
    follow(body, write);
    transfer_inner_peer_pass(write);
}

static void note_begun(struct body *body)
{
    uint64_t now = io_clock_now_ns();
    for (uint32_t i = 0; i < body->flight_count; i++) {
        struct transfer_record *record = &body->flights[i].record;
        record->begun_ns = record->begun_ns == 0 ? now : record->begun_ns;
    }
    body->is_any_new = false;
}

static void note_back(struct body *body, const struct transfer_write *write)
{
    for (uint32_t i = 0; i < body->flight_count; i++) {
        struct flight *flight = &body->flights[i];
        if (flight->write == write) {
            flight->record.outcome = write->outcome;
            flight->record.back_ns = io_clock_now_ns();
            add(body->trace, &flight->record);
            *flight = body->flights[--body->flight_count];
            return;
        }
    }
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct body *body = body_of(backend);
    if (body->is_any_new) {
        note_begun(body);
    }
    struct transfer_write *write =
        transfer_backend_poll(body->base.next, is_busy_out);
    if (write == NULL) {
        return NULL;
    }
    note_back(body, write);
    transfer_inner_peer_take_back(write);
    return write;
}

struct transfer_backend *transfer_backend_trace_create(
    struct transfer_backend *next, struct transfer_trace *trace)
{
    struct body *body = mem_new(sizeof(*body));
    transfer_decorator_init(&body->base, next);
    body->trace = trace;
    struct transfer_backend_ops *ops = &body->base.ops;
    ops->destroy = destroy;
    ops->peer_open = peer_open;
    ops->peer_close = transfer_inner_peer_close;
    ops->peer_lane = transfer_inner_peer_lane;
    ops->write = start_write;
    ops->poll = poll_once;
    transfer_decorator_begin(&body->base);
    return &body->base.base;
}
