#pragma once
/* transfer/control_part: what the parts of control share: links and
 * frames (control.c), our greeting (control_greet.c), the hello
 * (control_hello.c). Private to them. */
#include "transfer/control.h"
#include "transfer/hello.h"
#include "transfer/peers.h"
#include "transfer/strangers.h"

struct control {
    struct control_options options;
    struct hello hello;
    char endpoint[280];
    struct io_listener *listener; /* NULL once shut */
    struct strangers *strangers;
    struct buf frame, body;
    struct buf held; /* a frame for `held_link`, which goes with the next */
    struct link *held_link;
    uint32_t link_max; /* each way */
    struct link *links; /* (2 * link_max): incoming, then outgoing */
};

void control_move(struct link *link, enum peer_event event);
void control_close(struct link *link, bool after_pending);
/* Says why, once, and ends it; counted where `counter` points. */
void control_refuse(struct link *link, uint64_t *counter,
                    const struct why *why);
void control_greet(struct link *link);
/* Of a link that has not proven itself yet. */
void control_on_greeting(struct link *link, const struct wire_header *header,
                         struct span body);
/* True: the stream that ended is forgotten, `retry_ns` says when to open
 * another. */
bool control_will_come_again(struct link *link, enum err reason);
/* REGISTER or REGISTERED, with the address of our pool or without. */
/* For people (transfer/peers): how it stands with this one. */
void control_note(const struct link *link, enum transfer_peer_state state);
void control_note_end(const struct link *link);
void control_send_info(struct link *link, uint16_t type, bool with_pool);
bool control_is_hello(uint16_t type);
void control_on_hello(struct link *link, uint16_t type, struct span body);
