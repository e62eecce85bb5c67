#include <string.h>

#include "base/check.h"
#include "io/socket.h"
#include "transfer/tcp_body.h"

static struct tcp_body *body_of(const struct tcp_peer *peer)
{
    return (struct tcp_body *)peer->base.backend;
}

void tcp_send_stop(struct tcp_peer *peer)
{
    struct transfer_write_queue *queues[] = {&peer->sent, &peer->waiting};
    for (int i = 0; i < 2; i++) {
        struct transfer_write *write;
        while ((write = transfer_write_queue_pop(queues[i])) != NULL) {
            write->outcome = TRANSFER_STOPPED;
            transfer_write_queue_push(&body_of(peer)->done, write);
        }
    }
    peer->frame.left = 0;
    peer->piece_done = 0;
    peer->begun = peer->acked = 0;
}

bool tcp_send_has_work(const struct tcp_peer *peer)
{
    return peer->frame.left > 0 || peer->waiting.first != NULL;
}

/* -------- frames -------- */

static void check_piece(const struct tcp_peer *peer,
                        const struct transfer_piece *piece)
{
    const struct tcp_body *body = body_of(peer);
    CHECK(piece->source_offset <= body->pool_size);
    CHECK(piece->size <= body->pool_size - piece->source_offset);
    CHECK(piece->target_offset <= peer->pool_size);
    CHECK(piece->size <= peer->pool_size - piece->target_offset);
}

/* Puts as much of a piece into the frame as there is room for. The digest is
 * taken here: the bytes are still in the cache when the kernel copies them. */
static uint32_t add_piece(struct tcp_peer *peer, struct transfer_piece *piece,
                          uint32_t room, bool with_digest,
                          struct tcp_piece *cut_out)
{
    struct tcp_frame *frame = &peer->frame;
    uint64_t left = piece->size - peer->piece_done;
    uint32_t size = left < room ? (uint32_t)left : room;
    uint8_t *from =
        body_of(peer)->pool + piece->source_offset + peer->piece_done;
    if (with_digest) {
        piece->crc32c = digest_crc32c(peer->piece_done == 0 ? 0 : piece->crc32c,
                                      span_of(from, size));
    }
    *cut_out =
        (struct tcp_piece){piece->target_offset + peer->piece_done, size};
    frame->parts[frame->part_count++] = (struct iovec){from, size};
    peer->piece_done += size;
    return size;
}

/* Empty pieces have no part and the digest of nothing. */
static uint32_t add_pieces(struct tcp_peer *peer, struct transfer_write *write,
                           struct tcp_piece *cuts, uint32_t *payload_out)
{
    bool with_digest = !write->without_digest;
    uint32_t count = 0;
    uint32_t payload = 0;
    while (write->cursor < write->piece_count && count < TCP_PIECES_MAX &&
           payload < TCP_PAYLOAD_MAX) {
        struct transfer_piece *piece = &write->pieces[write->cursor];
        if (peer->piece_done == 0) {
            check_piece(peer, piece);
            piece->crc32c = with_digest ? 0 : piece->crc32c;
        }
        if (piece->size > 0) {
            payload += add_piece(peer, piece, TCP_PAYLOAD_MAX - payload,
                                 with_digest, &cuts[count++]);
        }
        if (peer->piece_done == piece->size) {
            peer->piece_done = 0;
            write->cursor++;
        }
    }
    *payload_out = payload;
    return count;
}

static void build_frame(struct tcp_peer *peer)
{
    struct transfer_write *write = peer->waiting.first;
    struct tcp_frame *frame = &peer->frame;
    struct tcp_piece cuts[TCP_PIECES_MAX];
    if (write->cursor == 0 && peer->piece_done == 0) {
        peer->begun++;
    }
    frame->part_at = 0;
    frame->part_count = 1;
    uint32_t payload;
    uint32_t count = add_pieces(peer, write, cuts, &payload);
    frame->is_last = write->cursor == write->piece_count;
    struct tcp_head head = {
        .type = TCP_WRITE,
        .write = peer->begun,
        .token = write->token,
        .piece_count = (uint16_t)count,
        .flags = frame->is_last ? TCP_LAST : 0,
        .payload_size = payload,
    };
    tcp_head_encode(&head, frame->head);
    if (count > 0) {
        tcp_list_encode(cuts, count, frame->head + TCP_HEAD_SIZE);
    }
    size_t head_size = TCP_HEAD_SIZE + tcp_list_size(count);
    frame->parts[0] = (struct iovec){frame->head, head_size};
    frame->left = head_size + payload;
}

static void drop_sent(struct tcp_frame *frame, size_t sent)
{
    CHECK(sent <= frame->left);
    frame->left -= sent;
    while (sent > 0) {
        struct iovec *part = &frame->parts[frame->part_at];
        size_t step = sent < part->iov_len ? sent : part->iov_len;
        part->iov_base = (uint8_t *)part->iov_base + step;
        part->iov_len -= step;
        sent -= step;
        frame->part_at += part->iov_len == 0;
    }
}

size_t tcp_send_step(struct tcp_peer *peer)
{
    struct tcp_frame *frame = &peer->frame;
    struct tcp_link *link = peer->link;
    if (frame->left == 0) {
        build_frame(peer);
    }
    size_t sent = 0;
    enum err err = io_socket_send(link->fd, frame->parts + frame->part_at,
                                  frame->part_count - frame->part_at, &sent);
    if (err == ERR_BUSY) {
        link->is_writable = false;
        return 0;
    }
    if (err) {
        tcp_link_break(link, "closed by the receiver");
        return 0;
    }
    link->is_writable = sent == frame->left;
    drop_sent(frame, sent);
    if (frame->left == 0 && frame->is_last) {
        struct transfer_write *write = transfer_write_queue_pop(&peer->waiting);
        transfer_write_queue_push(&peer->sent, write);
    }
    return sent;
}

/* -------- answers -------- */

static enum err take_ack(struct tcp_peer *peer, const uint8_t *bytes,
                         struct why *why)
{
    struct tcp_head ack;
    enum err err = tcp_head_decode(bytes, why, &ack);
    if (err) {
        return err;
    }
    struct transfer_write *write = peer->sent.first;
    if (ack.type != TCP_ACK || write == NULL || ack.write != peer->acked + 1) {
        return why_say(why, ERR_INVALID, "an answer out of turn");
    }
    peer->acked++;
    transfer_write_queue_pop(&peer->sent);
    write->outcome = ack.flags & TCP_REFUSED ? TRANSFER_STOPPED : TRANSFER_DONE;
    transfer_write_queue_push(&body_of(peer)->done, write);
    return OK;
}

size_t tcp_send_hear(struct tcp_peer *peer)
{
    struct tcp_link *link = peer->link;
    struct iovec part = {link->in + link->in_size,
                         sizeof(link->in) - link->in_size};
    size_t got = tcp_link_receive(link, &part, 1);
    link->in_size += got;
    size_t at = 0;
    struct why why = {0};
    while (got > 0 && link->in_size - at >= TCP_HEAD_SIZE) {
        if (take_ack(peer, link->in + at, &why)) {
            tcp_link_break(link, why.text);
            return 0;
        }
        at += TCP_HEAD_SIZE;
    }
    link->in_size -= at;
    memmove(link->in, link->in + at, link->in_size);
    return got;
}
