#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "transfer/control_part.h"
#include "wire/refusal.h"

void control_send_info(struct link *link, uint16_t type, bool with_pool)
{
    struct control *control = link->control;
    struct wire_rank_info info = control->hello.info;
    if (with_pool) {
        info.backend_blob = buf_span(&control->hello.blob);
    }
    snprintf(info.lane, sizeof(info.lane), "%s", link->lane);
    buf_reset(&control->body);
    wire_rank_info_encode(&info, &control->body);
    CHECK(!buf_error(&control->body));
    /* A failure has dropped the link. */
    IGNORE(control_send(link, type, 0, 0, buf_span(&control->body)));
}

void control_refuse(struct link *link, uint64_t *counter, const struct why *why)
{
    struct control *control = link->control;
    control_move(link, PEER_REFUSE);
    (*counter)++;
    link->is_refused = true;
    snprintf(link->text, sizeof(link->text), "%s", why->text);
    log_warn_rare("transfer", "peer %s refused: %s",
                  io_stream_peer(link->stream), why->text);
    buf_reset(&control->body);
    wire_refusal_encode(why, &control->body);
    if (!control_send(link, WIRE_REFUSED, 0, 0, buf_span(&control->body))) {
        control_close(link, true);
    }
}

void control_note(const struct link *link, enum transfer_peer_state state)
{
    bool is_connected = state == TRANSFER_PEER_CONNECTED;
    transfer_peers_note(link->control->options.transfer->peers,
                        &(struct transfer_peer){
                            .endpoint = link->endpoint,
                            .is_sender = link->is_outgoing,
                            .state = state,
                            .incarnation = link->incarnation,
                            .lane = is_connected ? link->lane : NULL,
                            .why = is_connected ? NULL : link->text,
                        });
}

static bool is_same_peer(const struct link *link, const struct link *other)
{
    return other != link && other->is_used && !other->is_closing &&
           other->state == PEER_REGISTERED &&
           other->is_outgoing == link->is_outgoing &&
           strcmp(other->endpoint, link->endpoint) == 0;
}

/* Of a receiver that came back by a new link the old one says nothing. */
void control_note_end(const struct link *link)
{
    const struct control *control = link->control;
    for (uint32_t i = 0; i < 2 * control->link_max; i++) {
        if (is_same_peer(link, &control->links[i])) {
            return;
        }
    }
    control_note(link, link->is_refused         ? TRANSFER_PEER_REFUSED
                       : link->incarnation != 0 ? TRANSFER_PEER_ENDED
                                                : TRANSFER_PEER_FAILED);
}

static void refuse(struct link *link, const struct why *why)
{
    control_refuse(link, &link->control->options.stats->peers_refused, why);
}

static enum err accept_info(struct link *link, struct span body,
                            struct why *why, struct wire_rank_info *info_out)
{
    struct control *control = link->control;
    enum err err = wire_rank_info_decode(body, why, info_out);
    if (!err && info_out->incarnation != link->proven) {
        err = why_say(why, ERR_DENIED, "incarnation: not the one that greeted");
    }
    return err ? err
               : hello_check(&control->hello, control->options.backend,
                             info_out, link->is_outgoing, why);
}

/* Reports carry static text. */
static const char *known_lane(const char *lane)
{
    static const char *const lanes[] = {"sysv", "posix", "shared", "memory",
                                        "self", "tcp",   "rdma"};
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        if (strcmp(lanes[i], lane) == 0) {
            return lanes[i];
        }
    }
    return "other";
}

static void note_groups(struct link *link, const struct wire_rank_info *info)
{
    uint8_t theirs[WIRE_GROUP_COUNT_MAX];
    CHECK(wire_rank_info_pair_groups(&link->control->hello.info, info, theirs));
    link->group_count = info->group_count;
    link->tokens_per_block = info->groups[0].tokens_per_block;
    for (uint32_t i = 0; i < info->group_count; i++) {
        const struct wire_group *group = &info->groups[theirs[i]];
        link->groups[i] =
            (struct link_group){group->base_offset, group->page_bytes,
                                group->page_count, theirs[i]};
    }
}

static void register_peer(struct link *link, const struct wire_rank_info *info)
{
    struct control *control = link->control;
    struct transfer_identity identity = hello_identity(info);
    link->process =
        transfer_process_open(control->options.loop, &control->hello.identity,
                              &identity, info->incarnation);
    link->incarnation = info->incarnation;
    link->wanted = link->wanted == 0 ? info->incarnation : link->wanted;
    note_groups(link, info);
    link->bounce = (struct link_bounce){info->bounce_offset, info->bounce_bytes,
                                        info->bounce_chunk_bytes};
    control_move(link, PEER_REGISTER);
}

/* Pages are written for who greeted, so they must be its own. */
static enum err open_pool(struct link *link, const struct wire_rank_info *info,
                          struct why *why)
{
    struct transfer_backend_peer *peer;
    enum err err = transfer_backend_peer_open(link->control->options.backend,
                                              info->backend_blob,
                                              info->memory_bytes, why, &peer);
    if (err) {
        return err;
    }
    if (transfer_backend_peer_owner(peer) != info->incarnation) {
        transfer_backend_peer_close(peer);
        return why_say(why, ERR_DENIED, "backend_blob: the pool of another");
    }
    link->backend_peer = peer;
    return OK;
}

/* A receiver says who it is. */
static void on_register(struct link *link, struct span body)
{
    struct control *control = link->control;
    struct wire_rank_info info = {.endpoint = ""};
    struct why why = {0};
    enum err err = accept_info(link, body, &why, &info);
    if (info.endpoint[0] != 0) {
        snprintf(link->endpoint, sizeof(link->endpoint), "%s", info.endpoint);
    }
    err = err ? err : open_pool(link, &info, &why);
    if (err) {
        refuse(link, &why);
        return;
    }
    control_move(link, PEER_VALIDATE);
    register_peer(link, &info);
    link->lane = transfer_backend_peer_lane(link->backend_peer);
    control_note(link, TRANSFER_PEER_CONNECTED);
    control_send_info(link, WIRE_REGISTERED, false);
    control->options.handler->on_registered(control->options.context, link);
}

/* A sender has mapped our pool. */
static void on_registered(struct link *link, struct span body)
{
    struct control *control = link->control;
    struct wire_rank_info info;
    struct why why = {0};
    enum err err = accept_info(link, body, &why, &info);
    if (err) {
        refuse(link, &why);
        return;
    }
    control_move(link, PEER_VALIDATE);
    register_peer(link, &info);
    link->lane = known_lane(info.lane);
    control_note(link, TRANSFER_PEER_CONNECTED);
    control->options.handler->on_registered(control->options.context, link);
}

static void on_refused(struct link *link, struct span body)
{
    struct why why;
    wire_refusal_decode(body, &why);
    control_move(link, PEER_REFUSE);
    link->is_refused = true;
    snprintf(link->text, sizeof(link->text), "%s", why.text);
    log_warn_rare("transfer", "peer %s refuses us: %s",
                  io_stream_peer(link->stream), why.text);
    control_close(link, false);
}

bool control_is_hello(uint16_t type)
{
    return type == WIRE_REGISTER || type == WIRE_REGISTERED ||
           type == WIRE_REFUSED;
}

void control_on_hello(struct link *link, uint16_t type, struct span body)
{
    bool is_early = link->state == PEER_FETCHING;
    if (is_early && type == WIRE_REGISTER && !link->is_outgoing) {
        on_register(link, body);
    } else if (is_early && type == WIRE_REGISTERED && link->is_outgoing) {
        on_registered(link, body);
    } else if (is_early && type == WIRE_REFUSED && link->is_outgoing) {
        on_refused(link, body);
    } else {
        control_drop(link, "%s out of turn", wire_type_name(type));
    }
}
