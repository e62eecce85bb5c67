#include "transfer/backend_auto.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/poller.h"
#include "transfer/decorate.h"
#include "transfer/process.h"
#include "wire/bytes.h"

enum { BLOB_MAGIC = 0x4f545541, CRC_SIZE = 4 };

struct body {
    struct transfer_backend base;
    struct transfer_backend *near; /* NULL: none here */
    struct transfer_backend *far;
    struct io_poller *poller; /* of both descriptors */
    uint32_t turn;
    char config[256];
    char near_terms[384]; /* what must be alike to go near; "": none here */
};

static struct body *body_of(const struct transfer_backend *backend)
{
    return (struct body *)backend;
}

static void destroy(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    io_poller_destroy(body->poller);
    transfer_backend_destroy(body->near);
    transfer_backend_destroy(body->far);
    mem_free(body);
}

/* -------- one pool -------- */

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct body *body = body_of(backend);
    if (body->near == NULL) {
        return transfer_backend_alloc(body->far, size, why, memory_out);
    }
    void *memory = NULL;
    enum err err = transfer_backend_alloc(body->near, size, why, &memory);
    if (err) {
        return err;
    }
    err = transfer_backend_adopt(body->far, memory, size, why);
    if (err) {
        transfer_backend_free(body->near, memory);
        return err;
    }
    *memory_out = memory;
    return OK;
}

static void free_pool(struct transfer_backend *backend, void *memory)
{
    struct body *body = body_of(backend);
    transfer_backend_free(body->far, memory);
    if (body->near != NULL) {
        transfer_backend_free(body->near, memory);
    }
}

/* What must be alike: only what every peer needs. Near's own is in the blob,
 * where another one means far. */
static const char *config(const struct transfer_backend *backend)
{
    return body_of(backend)->config;
}

static enum err add_part(struct transfer_backend *part, void *memory,
                         size_t size, struct why *why, struct buf *out)
{
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    enum err err =
        part == NULL ? OK
                     : transfer_backend_export(part, memory, size, why, &blob);
    wire_write_u32(out, (uint32_t)blob.size);
    buf_add_span(out, buf_span(&blob));
    buf_finish(&blob);
    return err;
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    struct body *body = body_of(backend);
    size_t begin = blob_out->size;
    wire_write_u32(blob_out, BLOB_MAGIC);
    wire_write_u16(blob_out, (uint16_t)strlen(body->near_terms));
    buf_add_string(blob_out, body->near_terms);
    enum err err = add_part(body->near, memory, size, why, blob_out);
    err = err ? err : add_part(body->far, memory, size, why, blob_out);
    if (!err && !buf_error(blob_out)) {
        struct span parts =
            span_of(blob_out->data + begin, blob_out->size - begin);
        wire_write_u32(blob_out, digest_crc32c(0, parts));
    }
    return err ? err : buf_error(blob_out);
}

/* -------- which of them -------- */

struct parts {
    struct span near_terms, near, far;
};

static enum err read_blob(struct span blob, struct why *why,
                          struct parts *parts_out)
{
    struct wire_reader reader = wire_reader_of(blob);
    uint32_t magic = wire_read_u32(&reader);
    struct parts parts;
    parts.near_terms = wire_read_span(&reader, wire_read_u16(&reader));
    parts.near = wire_read_span(&reader, wire_read_u32(&reader));
    parts.far = wire_read_span(&reader, wire_read_u32(&reader));
    uint32_t crc = wire_read_u32(&reader);
    if (!wire_reader_is_done(&reader) || magic != BLOB_MAGIC ||
        crc != digest_crc32c(0, span_slice(blob, 0, blob.size - CRC_SIZE))) {
        return why_say(why, ERR_INVALID, "auto: not the address of a pool");
    }
    *parts_out = parts;
    return OK;
}

/* Terms are "CONFIG on BOOT PIDS SEGMENTS"; "" of who cannot tell. */
struct terms {
    struct span config, boot, namespaces;
};

static struct span word_at(struct span text, size_t at)
{
    size_t end = at;
    while (end < text.size && text.data[end] != ' ') {
        end++;
    }
    return span_slice(text, at, end);
}

static struct terms terms_of(struct span text)
{
    static const char ON[] = " on ";
    size_t size = strlen(ON), at = text.size;
    while (at > 0 && !span_starts_with(span_slice(text, at, text.size), ON)) {
        at--;
    }
    struct terms terms = {.config = span_slice(text, 0, at)};
    terms.boot = word_at(text, at + size);
    terms.namespaces = span_slice(text, at + size + terms.boot.size, text.size);
    return terms;
}

/* The first word that is another one in both. */
static enum err say_config(struct span here, struct span there, struct why *why)
{
    size_t at = 0, begin = 0;
    while (at < here.size && at < there.size &&
           here.data[at] == there.data[at]) {
        begin = here.data[at] == ' ' ? at + 1 : begin;
        at++;
    }
    struct span ours = word_at(here, begin), theirs = word_at(there, begin);
    return why_say(why, ERR_UNSUPPORTED,
                   "UCX or its settings differ: '%.*s' here, '%.*s' there",
                   (int)ours.size, (const char *)ours.data, (int)theirs.size,
                   (const char *)theirs.data);
}

enum err transfer_backend_auto_say(struct span here, struct span there,
                                   struct why *why)
{
    struct terms ours = terms_of(here), theirs = terms_of(there);
    if (ours.boot.size == 0 || theirs.boot.size == 0) {
        return why_say(why, ERR_UNSUPPORTED, "%s cannot tell its host",
                       ours.boot.size == 0 ? "this worker" : "it");
    }
    if (!span_equals(ours.boot, theirs.boot)) {
        return why_say(why, ERR_UNSUPPORTED, "it is on another host");
    }
    if (!span_equals(ours.namespaces, theirs.namespaces)) {
        return why_say(why, ERR_UNSUPPORTED,
                       "it has its own process or IPC namespace");
    }
    return say_config(ours.config, theirs.config, why);
}

static enum err open_near(struct body *body, const struct parts *parts,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **inner_out)
{
    if (body->near == NULL || parts->near.size == 0) {
        return why_say(why, ERR_UNSUPPORTED, "no shared memory %s",
                       body->near == NULL ? "here" : "at the peer");
    }
    if (body->near_terms[0] == 0 ||
        !span_equals_string(parts->near_terms, body->near_terms)) {
        return transfer_backend_auto_say(span_of_string(body->near_terms),
                                         parts->near_terms, why);
    }
    return transfer_backend_peer_open(body->near, parts->near, pool_size, why,
                                      inner_out);
}

static enum err open_inner(struct body *body, const struct parts *parts,
                           size_t pool_size, struct why *why,
                           struct transfer_backend_peer **inner_out)
{
    struct why near_why = {{0}};
    enum err err = open_near(body, parts, pool_size, &near_why, inner_out);
    if (!err || err == ERR_INVALID) {
        return err ? why_say(why, err, "%s", near_why.text) : OK;
    }
    log_info_rare("transfer", "a peer is reached by %s: %s",
                  transfer_backend_name(body->far), near_why.text);
    err = transfer_backend_peer_open(body->far, parts->far, pool_size, why,
                                     inner_out);
    return err ? why_prefix(why, err, "%.120s; and", near_why.text) : OK;
}

static enum err peer_open(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct body *body = body_of(backend);
    struct parts parts = {0};
    struct transfer_backend_peer *inner = NULL;
    enum err err = read_blob(blob, why, &parts);
    err = err ? err : open_inner(body, &parts, pool_size, why, &inner);
    if (err) {
        return err;
    }
    *peer_out = transfer_inner_peer_create(backend, inner);
    return OK;
}

static enum transfer_toucher lane_toucher(
    const struct transfer_backend *backend, const char *lane)
{
    const struct body *body = body_of(backend);
    bool is_far = body->near == NULL ||
                  strcmp(lane, transfer_backend_name(body->far)) == 0;
    return transfer_backend_toucher(is_far ? body->far : body->near, lane);
}

static enum err authorise(struct transfer_backend *backend, uint64_t sender,
                          struct transfer_token token,
                          const struct transfer_range *ranges, size_t count)
{
    struct body *body = body_of(backend);
    enum err err =
        transfer_backend_authorise(body->far, sender, token, ranges, count);
    if (err || body->near == NULL) {
        return err;
    }
    err = transfer_backend_authorise(body->near, sender, token, ranges, count);
    if (err) {
        transfer_backend_revoke(body->far, sender, token);
    }
    return err;
}

static void revoke(struct transfer_backend *backend, uint64_t sender,
                   struct transfer_token token)
{
    struct body *body = body_of(backend);
    transfer_backend_revoke(body->far, sender, token);
    if (body->near != NULL) {
        transfer_backend_revoke(body->near, sender, token);
    }
}

/* -------- writing -------- */

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *write)
{
    (void)backend;
    transfer_inner_peer_pass(write);
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct body *body = body_of(backend);
    struct transfer_backend *both[] = {body->far, body->near};
    size_t count = body->near == NULL ? 1 : 2;
    bool is_busy = false;
    body->turn++;
    for (size_t i = 0; i < count; i++) {
        bool is_one_busy;
        struct transfer_write *write =
            transfer_backend_poll(both[(body->turn + i) % count], &is_one_busy);
        is_busy |= is_one_busy;
        if (write != NULL) {
            *is_busy_out = true; /* the other was perhaps not asked */
            transfer_inner_peer_take_back(write);
            return write;
        }
    }
    *is_busy_out = is_busy;
    return NULL;
}

static int fd(const struct transfer_backend *backend)
{
    return io_poller_fd(body_of(backend)->poller);
}

static enum err arm(struct transfer_backend *backend)
{
    struct body *body = body_of(backend);
    enum err err = transfer_backend_arm(body->far);
    return err || body->near == NULL ? err : transfer_backend_arm(body->near);
}

static const struct transfer_backend_ops ops = {
    .name = "auto",
    .toucher = TRANSFER_PEER_MAPPED,
    .capabilities =
        TRANSFER_CAN_SLEEP | TRANSFER_CAN_PROCESS | TRANSFER_CAN_HOST,
    .destroy = destroy,
    .alloc = alloc,
    .free = free_pool,
    .config = config,
    .export_pool = export_pool,
    .peer_open = peer_open,
    .peer_close = transfer_inner_peer_close,
    .peer_lane = transfer_inner_peer_lane,
    .lane_toucher = lane_toucher,
    .authorise = authorise,
    .revoke = revoke,
    .write = start_write,
    .poll = poll_once,
    .fd = fd,
    .arm = arm,
};

static enum err watch(struct body *body, struct transfer_backend *part)
{
    int part_fd = part == NULL ? -1 : transfer_backend_fd(part);
    return part_fd < 0 ? OK : io_poller_add(body->poller, part_fd, false, part);
}

/* Where processes see each other's memory but not each other (containers that
 * share IPC and not PIDs), nobody could prove that a writer is dead: the pages it
 * was writing would be kept for good. So both go far. */
static void set_near_terms(struct body *body)
{
    struct transfer_identity identity = {.host = ""};
    if (body->near != NULL && transfer_identity_read(NULL, &identity) == OK) {
        snprintf(body->near_terms, sizeof(body->near_terms), "%s on %s",
                 transfer_backend_config(body->near), identity.host);
    }
}

enum err transfer_backend_auto_create(struct transfer_backend *near,
                                      struct transfer_backend *far,
                                      struct why *why,
                                      struct transfer_backend **backend_out)
{
    struct body *body = mem_new(sizeof(*body));
    transfer_backend_init(&body->base, &ops);
    body->near = near;
    body->far = far;
    snprintf(body->config, sizeof(body->config), "auto 1, %s",
             transfer_backend_config(far));
    set_near_terms(body);
    enum err err = io_poller_create(&body->poller);
    err = err ? err : watch(body, near);
    err = err ? err : watch(body, far);
    if (err) {
        destroy(&body->base);
        return why_say(why, err, "auto: no descriptor for polling");
    }
    *backend_out = &body->base;
    return OK;
}
