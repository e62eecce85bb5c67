/* What leaves by a control connection, frame by frame. */
#include "base/check.h"
#include "transfer/control_part.h"

static void encode(const struct link *link, struct wire_header *header,
                   struct span body, struct buf *out)
{
    header->source_incarnation = link->control->options.transfer->incarnation;
    header->target_incarnation = link->incarnation;
    buf_reset(out);
    enum err err = wire_frame_encode(header, body, out);
    CHECK(!err);
}

void control_hold(struct link *link, uint16_t type, int64_t rid,
                  uint32_t attempt, struct span body)
{
    struct control *control = link->control;
    struct wire_header header = {.type = type, .rid = rid, .attempt = attempt};
    CHECK(control->held_link == NULL);
    encode(link, &header, body, &control->held);
    control->held_link = link;
}

enum err control_send(struct link *link, uint16_t type, int64_t rid,
                      uint32_t attempt, struct span body)
{
    struct control *control = link->control;
    struct wire_header header = {.type = type, .rid = rid, .attempt = attempt};
    bool has_held = control->held_link != NULL;
    CHECK(!has_held || control->held_link == link);
    control->held_link = NULL;
    if (link->is_closing) {
        return ERR_CLOSED;
    }
    encode(link, &header, body, &control->frame);
    struct span frame = buf_span(&control->frame);
    enum err err = has_held ? io_stream_write2(link->stream,
                                               buf_span(&control->held), frame)
                            : io_stream_write(link->stream, frame);
    if (err == ERR_CLOSED) {
        return err; /* its end is on its way */
    }
    if (err) {
        control_drop(link, "cannot send %s: %s", wire_type_name(type),
                     err_name(err));
        return ERR_CLOSED;
    }
    link->said_ns = io_loop_now(control->options.loop);
    return OK;
}
