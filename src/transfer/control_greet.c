#include <string.h>

#include "transfer/control_part.h"

/* The opening end; who came to us is among the strangers (strangers.h). */

enum { TRIES_MAX = 8 };
static const uint64_t RETRY_NS = 20000000u;

static bool has_key(const struct link *link)
{
    return link->control->options.transfer->key.size > 0;
}

void control_greet(struct link *link)
{
    struct control *control = link->control;
    struct wire_greet greet = {.has_key = has_key(link)};
    link->greeting.opener = control->options.transfer->incarnation;
    strangers_nonce(control->strangers, link->greeting.opener_nonce);
    memcpy(greet.nonce, link->greeting.opener_nonce, WIRE_NONCE_SIZE);
    buf_reset(&control->body);
    wire_greet_encode(&greet, &control->body);
    /* A failure has dropped the link. */
    IGNORE(control_send(link, WIRE_GREET, 0, 0, buf_span(&control->body)));
}

static void send_proof(struct link *link)
{
    struct control *control = link->control;
    uint8_t proof[WIRE_PROOF_SIZE];
    wire_greeting_prove(control->options.transfer->key, &link->greeting, true,
                        proof);
    buf_reset(&control->body);
    wire_proof_encode(proof, &control->body);
    if (!control_send(link, WIRE_PROOF, 0, 0, buf_span(&control->body))) {
        control_send_info(link, WIRE_REGISTER, true);
    }
}

static void on_greeted(struct link *link, uint64_t server, struct span body)
{
    struct control *control = link->control;
    struct wire_greeted greeted;
    struct why why = {{0}};
    if (server == 0 || wire_greeted_decode(body, &why, &greeted)) {
        control_drop(link, "%s", server == 0 ? "incarnation: is 0" : why.text);
        return;
    }
    link->greeting.server = server;
    memcpy(link->greeting.server_nonce, greeted.nonce, WIRE_NONCE_SIZE);
    if (!wire_greeting_is_proof(control->options.transfer->key, &link->greeting,
                                false, greeted.proof)) {
        IGNORE(wire_greeting_deny(has_key(link), greeted.has_key, &why));
        control_refuse(link, &control->options.stats->peers_denied, &why);
        return;
    }
    link->proven = server;
    send_proof(link);
}

void control_on_greeting(struct link *link, const struct wire_header *header,
                         struct span body)
{
    if (header->type == WIRE_GREETED) {
        on_greeted(link, header->source_incarnation, body);
    } else if (header->type == WIRE_REFUSED) {
        control_on_hello(link, header->type, body);
    } else {
        control_drop(link, "%s before the greeting",
                     wire_type_name(header->type));
    }
}

/* The other end cut us off and has not said why: others may have crowded us out
 * of its places for strangers. A few more tries, since somebody waits. */
bool control_will_come_again(struct link *link, enum err reason)
{
    if (reason != ERR_CLOSED || !link->is_outgoing || link->is_closing ||
        link->state != PEER_FETCHING || link->tries >= TRIES_MAX) {
        return false;
    }
    control_move(link, PEER_LOSE);
    control_move(link, PEER_FORGET);
    buf_reset(&link->input);
    link->stream = NULL;
    link->proven = 0;
    link->tries++;
    link->retry_ns =
        io_loop_now(link->control->options.loop) + link->tries * RETRY_NS;
    return true;
}
