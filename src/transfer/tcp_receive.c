#include <string.h>

#include "base/check.h"
#include "io/socket.h"
#include "transfer/tcp_body.h"

bool tcp_receive_can_go_on(const struct tcp_link *link)
{
    return link->out_size + TCP_HEAD_SIZE <= sizeof(link->out);
}

/* -------- where bytes go -------- */

/* Whether what is left of the frame may land now. Asked anew before each
 * receive: what was allowed at its head may have been revoked since. */
static bool may_land(struct tcp_link *link)
{
    struct tcp_inbox *inbox = link->inbox;
    const struct tcp_body *body = link->body;
    if (inbox->is_refused || inbox->checked_at == body->grants.change) {
        return !inbox->is_refused;
    }
    const struct tcp_grant *grant =
        tcp_grants_find(&body->grants, link->terms.sender, inbox->token);
    bool is_allowed = grant != NULL && body->pool != NULL;
    for (uint32_t i = inbox->piece_at;
         is_allowed && i < inbox->head.piece_count; i++) {
        is_allowed = tcp_grant_covers(grant, inbox->pieces[i].offset,
                                      inbox->pieces[i].size);
    }
    inbox->is_refused = !is_allowed;
    inbox->checked_at = body->grants.change;
    return is_allowed;
}

/* The rest of the payload in place, and the next head behind it. */
static size_t aim_at_pool(struct tcp_link *link, struct iovec *parts)
{
    struct tcp_inbox *inbox = link->inbox;
    size_t count = 0;
    uint32_t done = inbox->piece_done;
    for (uint32_t i = inbox->piece_at; i < inbox->head.piece_count; i++) {
        const struct tcp_piece *piece = &inbox->pieces[i];
        parts[count++] = (struct iovec){link->body->pool + piece->offset + done,
                                        piece->size - done};
        done = 0;
    }
    parts[count++] = (struct iovec){link->in, TCP_HEAD_SIZE};
    return count;
}

static size_t aim(struct tcp_link *link, struct iovec *parts)
{
    struct tcp_inbox *inbox = link->inbox;
    if (inbox->payload_left == 0) {
        size_t want = TCP_HEAD_SIZE;
        if (link->in_size >= TCP_HEAD_SIZE) {
            want += tcp_list_size(inbox->head.piece_count);
        }
        CHECK(link->in_size < want);
        parts[0] =
            (struct iovec){link->in + link->in_size, want - link->in_size};
        return 1;
    }
    if (may_land(link)) {
        return aim_at_pool(link, parts);
    }
    uint32_t size = inbox->payload_left < TCP_SCRAP_SIZE ? inbox->payload_left
                                                         : TCP_SCRAP_SIZE;
    parts[0] = (struct iovec){link->body->scrap, size};
    return 1;
}

/* -------- what it was -------- */

static void answer(struct tcp_link *link)
{
    struct tcp_inbox *inbox = link->inbox;
    struct tcp_head ack = {
        .type = TCP_ACK,
        .write = inbox->write,
        .token = inbox->token,
        .flags = inbox->is_refused ? TCP_REFUSED : 0,
    };
    CHECK(tcp_receive_can_go_on(link));
    tcp_head_encode(&ack, link->out + link->out_size);
    link->out_size += TCP_HEAD_SIZE;
    inbox->is_in_write = false;
    inbox->is_refused = false;
}

static void end_frame(struct tcp_link *link)
{
    if (link->inbox->head.flags & TCP_LAST) {
        answer(link);
    }
}

static bool is_same_token(struct transfer_token a, struct transfer_token b)
{
    return a.rid == b.rid && a.attempt == b.attempt;
}

/* Writes come one after the other, each with one token and in order. */
static enum err take_head(struct tcp_link *link, struct why *why)
{
    struct tcp_inbox *inbox = link->inbox;
    struct tcp_head head;
    enum err err = tcp_head_decode(link->in, why, &head);
    if (err) {
        return err;
    }
    bool is_next = inbox->is_in_write
                       ? head.write == inbox->write &&
                             is_same_token(head.token, inbox->token)
                       : head.write == inbox->write + 1;
    if (head.type != TCP_WRITE || !is_next) {
        return why_say(why, ERR_INVALID, "a frame out of turn");
    }
    inbox->head = head;
    inbox->write = head.write;
    inbox->token = head.token;
    inbox->is_in_write = true;
    if (head.piece_count == 0) {
        link->in_size = 0;
        end_frame(link);
    }
    return OK;
}

static enum err take_list(struct tcp_link *link, struct why *why)
{
    struct tcp_inbox *inbox = link->inbox;
    enum err err = tcp_list_decode(link->in + TCP_HEAD_SIZE, &inbox->head,
                                   link->body->pool_size, why, inbox->pieces);
    if (!err) {
        inbox->piece_at = 0;
        inbox->piece_done = 0;
        inbox->payload_left = inbox->head.payload_size;
        inbox->checked_at = link->body->grants.change - 1; /* not yet */
        link->in_size = 0;
    }
    return err;
}

/* Counts `got` bytes of payload off; what is more belongs to the next head. */
static void take_payload(struct tcp_link *link, size_t got)
{
    struct tcp_inbox *inbox = link->inbox;
    size_t of_payload = got < inbox->payload_left ? got : inbox->payload_left;
    inbox->payload_left -= (uint32_t)of_payload;
    link->in_size = got - of_payload;
    while (of_payload > 0) {
        uint32_t left = inbox->pieces[inbox->piece_at].size - inbox->piece_done;
        uint32_t step = of_payload < left ? (uint32_t)of_payload : left;
        inbox->piece_done += step;
        of_payload -= step;
        if (step == left) {
            inbox->piece_at++;
            inbox->piece_done = 0;
        }
    }
    if (inbox->payload_left == 0) {
        end_frame(link);
    }
}

static enum err take_parts(struct tcp_link *link, struct why *why)
{
    struct tcp_inbox *inbox = link->inbox;
    enum err err = OK;
    if (link->in_size == TCP_HEAD_SIZE) {
        err = take_head(link, why);
    }
    size_t whole = TCP_HEAD_SIZE + tcp_list_size(inbox->head.piece_count);
    if (!err && link->in_size > TCP_HEAD_SIZE && link->in_size == whole) {
        err = take_list(link, why);
    }
    return err;
}

size_t tcp_receive_step(struct tcp_link *link)
{
    struct iovec parts[TCP_PIECES_MAX + 1];
    size_t got = tcp_link_receive(link, parts, aim(link, parts));
    if (got == 0) {
        return 0;
    }
    struct why why = {0};
    if (link->inbox->payload_left > 0) {
        take_payload(link, got);
    } else {
        link->in_size += got;
    }
    if (link->inbox->payload_left == 0 && take_parts(link, &why)) {
        tcp_link_break(link, why.text);
        return 0;
    }
    return got;
}
