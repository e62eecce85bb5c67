#include <stdio.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/clock.h"
#include "io/socket.h"
#include "transfer/tcp_body.h"

enum { ACCEPTS_A_TURN_MAX = 16 };
static const uint64_t PROOF_NS = 2000000000u, RETRY_NS = 250000000u,
                      REST_NS = 100000000u;

/* -------- begin and end -------- */

struct tcp_link *tcp_link_add(struct tcp_body *body)
{
    CHECK(body->link_count < TCP_LINK_COUNT_MAX);
    struct tcp_link *link = mem_new(sizeof(*link));
    link->body = body;
    link->fd = -1;
    link->opened_ns = io_clock_now_ns();
    body->links[body->link_count++] = link;
    return link;
}

enum err tcp_link_take_fd(struct tcp_link *link, int fd, struct why *why)
{
    enum err err = io_poller_add(link->body->poller, fd, true, link);
    if (err) {
        io_socket_reset(fd);
        return why_say(why, err, "cannot watch a connection");
    }
    link->fd = fd;
    return OK;
}

void tcp_link_drop_fd(struct tcp_link *link)
{
    if (link->fd >= 0) {
        io_poller_remove(link->body->poller, link->fd);
        io_socket_reset(link->fd);
        link->fd = -1;
    }
    link->is_readable = link->is_writable = link->has_ended = false;
}

void tcp_link_break(struct tcp_link *link, const char *text)
{
    if (link->state == TCP_LINK_DEAD) {
        return;
    }
    if (text != NULL) {
        log_warn_rare("transfer", "data connection %s %s: %s",
                      link->peer != NULL ? "to" : "from", link->name, text);
    }
    link->state = TCP_LINK_DEAD;
    io_dial_destroy(link->dial);
    link->dial = NULL;
    tcp_link_drop_fd(link);
    if (link->peer == NULL) {
        link->body->incoming_count--;
        return;
    }
    link->peer->link = NULL;
    link->peer->retry_ns = io_clock_now_ns() + RETRY_NS;
    tcp_send_stop(link->peer);
}

void tcp_link_sweep(struct tcp_body *body)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < body->link_count; i++) {
        struct tcp_link *link = body->links[i];
        if (link->state != TCP_LINK_DEAD) {
            body->links[kept++] = link;
            continue;
        }
        mem_free(link->inbox);
        mem_free(link);
    }
    body->link_count = kept;
}

/* -------- strangers -------- */

static bool is_stranger(const struct tcp_link *link)
{
    return link->peer == NULL &&
           (link->state == TCP_LINK_HELLO || link->state == TCP_LINK_PROOF);
}

/* So many of them, and the oldest makes room: who says nothing keeps nobody
 * out. */
static void limit_strangers(struct tcp_body *body)
{
    uint32_t count = 0;
    struct tcp_link *oldest = NULL;
    for (uint32_t i = 0; i < body->link_count; i++) {
        struct tcp_link *link = body->links[i];
        if (is_stranger(link)) {
            count++;
            oldest = oldest == NULL || link->opened_ns < oldest->opened_ns
                         ? link
                         : oldest;
        }
    }
    if (count > TCP_STRANGERS_MAX) {
        tcp_link_break(oldest, "too many that have not said who they are");
    }
}

static void welcome(struct tcp_body *body, int fd)
{
    if (body->incoming_count >= TCP_INCOMING_MAX ||
        body->link_count >= TCP_LINK_COUNT_MAX) {
        log_warn_rare("transfer",
                      "%u data connections already: one more refused",
                      body->incoming_count);
        io_socket_reset(fd);
        return;
    }
    struct why why = {0};
    struct tcp_link *link = tcp_link_add(body);
    io_socket_peer(fd, link->name);
    body->incoming_count++;
    link->state = TCP_LINK_HELLO;
    if (tcp_link_take_fd(link, fd, &why)) {
        tcp_link_break(link, why.text);
        return;
    }
    link->deadline_ns = link->opened_ns + PROOF_NS;
    link->secret =
        tcp_secret_of(span_of(body->key, body->key_size), body->nonce);
    limit_strangers(body);
}

static void rest(struct tcp_body *body)
{
    log_warn_rare("transfer", "cannot accept data connections for a while");
    io_poller_remove(body->poller, body->listener);
    body->is_resting = true;
    body->rest_ns = io_clock_now_ns() + REST_NS;
}

void tcp_link_accept(struct tcp_body *body)
{
    for (int i = 0; i < ACCEPTS_A_TURN_MAX && !body->is_resting; i++) {
        int fd = -1;
        enum err err = io_socket_accept(body->listener, &fd);
        if (err == ERR_BUSY) {
            return;
        }
        if (err) {
            rest(body);
        } else {
            welcome(body, fd);
        }
    }
}

/* -------- who is who -------- */

static enum err on_challenge(struct tcp_link *link, struct why *why)
{
    uint8_t proof[DIGEST_SHA256_SIZE];
    enum err err = tcp_challenge_decode(link->in, why, &link->terms, proof);
    if (err) {
        return err;
    }
    if (!tcp_is_proof(&link->secret, &link->terms, false, proof)) {
        return why_say(why, ERR_DENIED,
                       "the receiver does not know the internal key");
    }
    tcp_prove(&link->secret, &link->terms, true, proof);
    tcp_proof_encode(proof, link->out);
    link->out_size = TCP_PROOF_SIZE;
    link->out_sent = 0;
    link->state = TCP_LINK_OPEN;
    return OK;
}

static enum err on_hello(struct tcp_link *link, struct why *why)
{
    uint64_t ours = link->body->incarnation;
    enum err err = tcp_hello_decode(link->in, why, &link->terms);
    if (!err && (link->terms.receiver != ours || link->terms.sender == 0)) {
        err = why_say(why, ERR_DENIED, "meant for another process");
    }
    if (err) {
        return err;
    }
    rng_system_bytes(link->terms.receiver_nonce, TCP_NONCE_SIZE);
    uint8_t proof[DIGEST_SHA256_SIZE];
    tcp_prove(&link->secret, &link->terms, false, proof);
    tcp_challenge_encode(&link->terms, proof, link->out);
    link->out_size = TCP_CHALLENGE_SIZE;
    link->state = TCP_LINK_PROOF;
    return OK;
}

static enum err on_proof(struct tcp_link *link, struct why *why)
{
    uint8_t proof[DIGEST_SHA256_SIZE];
    enum err err = tcp_proof_decode(link->in, why, proof);
    if (!err && !tcp_is_proof(&link->secret, &link->terms, true, proof)) {
        err = why_say(why, ERR_DENIED,
                      "the sender does not know the internal key");
    }
    if (!err) {
        link->inbox = mem_new(sizeof(*link->inbox));
        link->state = TCP_LINK_OPEN;
    }
    return err;
}

static enum err on_greeting(struct tcp_link *link, struct why *why)
{
    if (link->peer != NULL) {
        return on_challenge(link, why);
    }
    return link->state == TCP_LINK_HELLO ? on_hello(link, why)
                                         : on_proof(link, why);
}

static size_t greeting_size(const struct tcp_link *link)
{
    if (link->peer != NULL) {
        return TCP_CHALLENGE_SIZE;
    }
    return link->state == TCP_LINK_HELLO ? TCP_HELLO_SIZE : TCP_PROOF_SIZE;
}

/* Never more than the message that is due is read of somebody unknown. */
static size_t greet(struct tcp_link *link)
{
    size_t want = greeting_size(link);
    struct iovec part = {link->in + link->in_size, want - link->in_size};
    size_t got = tcp_link_receive(link, &part, 1);
    link->in_size += got;
    if (got == 0 || link->in_size < want) {
        return got;
    }
    struct why why = {0};
    link->in_size = 0;
    if (on_greeting(link, &why)) {
        tcp_link_break(link, why.text);
    }
    return got;
}

/* -------- turns -------- */

/* A short read or send says that there is no more, which spares asking. */
size_t tcp_link_receive(struct tcp_link *link, const struct iovec *parts,
                        size_t part_count)
{
    size_t got = 0, wanted = 0;
    enum err err = io_socket_receive(link->fd, parts, part_count, &got);
    if (err == ERR_BUSY) {
        link->is_readable = false;
        return 0;
    }
    if (err) {
        bool is_orderly = link->peer == NULL && link->state == TCP_LINK_OPEN;
        tcp_link_break(link, is_orderly ? NULL : "closed by the other end");
        return 0;
    }
    for (size_t i = 0; i < part_count; i++) {
        wanted += parts[i].iov_len;
    }
    link->is_readable = got == wanted || link->has_ended;
    return got;
}

static size_t flush(struct tcp_link *link)
{
    struct iovec part = {link->out + link->out_sent,
                         link->out_size - link->out_sent};
    size_t sent = 0;
    enum err err = io_socket_send(link->fd, &part, 1, &sent);
    if (err == ERR_BUSY) {
        link->is_writable = false;
        return 0;
    }
    if (err) {
        tcp_link_break(link, "closed by the other end");
        return 0;
    }
    link->out_sent += sent;
    if (link->out_sent == link->out_size) {
        link->out_sent = link->out_size = 0;
    }
    return sent;
}

static bool can_read(const struct tcp_link *link)
{
    bool is_open_in = link->peer == NULL && link->state == TCP_LINK_OPEN;
    return link->is_readable && link->state != TCP_LINK_CONNECTING &&
           (!is_open_in || tcp_receive_can_go_on(link));
}

static bool can_write(const struct tcp_link *link)
{
    bool is_sender = link->peer != NULL && link->state == TCP_LINK_OPEN;
    return link->is_writable &&
           (link->state == TCP_LINK_CONNECTING || link->out_size > 0 ||
            (is_sender && tcp_send_has_work(link->peer)));
}

bool tcp_link_has_work(const struct tcp_link *link)
{
    return link->state != TCP_LINK_DEAD && (can_read(link) || can_write(link));
}

static size_t read_step(struct tcp_link *link)
{
    if (link->state != TCP_LINK_OPEN) {
        return greet(link);
    }
    return link->peer != NULL ? tcp_send_hear(link->peer)
                              : tcp_receive_step(link);
}

static size_t write_step(struct tcp_link *link)
{
    if (link->state == TCP_LINK_CONNECTING) {
        tcp_dial_on_writable(link);
        return 1;
    }
    return link->out_size > 0 ? flush(link) : tcp_send_step(link->peer);
}

size_t tcp_link_step(struct tcp_link *link)
{
    size_t moved = 0;
    if (link->state != TCP_LINK_DEAD && can_read(link)) {
        moved += read_step(link);
    }
    if (link->state != TCP_LINK_DEAD && can_write(link)) {
        moved += write_step(link);
    }
    return moved;
}

/* -------- time -------- */

static bool is_timed(const struct tcp_link *link)
{
    return link->state != TCP_LINK_OPEN && link->state != TCP_LINK_DEAD;
}

void tcp_link_expire(struct tcp_body *body, uint64_t now)
{
    for (uint32_t i = 0; i < body->link_count; i++) {
        struct tcp_link *link = body->links[i];
        if (!is_timed(link) || now < link->deadline_ns) {
            continue;
        }
        if (link->state == TCP_LINK_CONNECTING) {
            tcp_dial_on_late(link);
        } else {
            tcp_link_break(link, "did not say in time who it is");
        }
    }
    if (body->is_resting && now >= body->rest_ns) {
        body->is_resting = io_poller_add(body->poller, body->listener, false,
                                         &body->listener) != OK;
        body->rest_ns = now + REST_NS;
    }
}

uint64_t tcp_link_next_ns(const struct tcp_body *body)
{
    uint64_t next = body->is_resting ? body->rest_ns : UINT64_MAX;
    for (uint32_t i = 0; i < body->link_count; i++) {
        const struct tcp_link *link = body->links[i];
        if (is_timed(link) && link->deadline_ns < next) {
            next = link->deadline_ns;
        }
    }
    return next == UINT64_MAX ? 0 : next;
}
