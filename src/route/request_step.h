#pragma once
/* route/request_step: what the events of one request have in common: posting
 * and placing legs, retries, restarts, failing. Private to route/request. */
#include <stdbool.h>
#include <stdint.h>

#include "route/request.h"

struct route_step {
    struct route_request *request;
    struct route_pool *pool;
    const struct route_event *event;
    struct route_actions *actions;
};

void route_step_act(struct route_step *step, struct route_action action);
void route_step_done(struct route_step *step);
void route_step_abort_hand_off(struct route_step *step);
/* A begun stream breaks visibly (S7). */
void route_step_cut(struct route_step *step, const char *message);
void route_step_fail(struct route_step *step, int status, const char *message);
void route_step_fail_outcome(struct route_step *step,
                             const struct route_outcome *outcome);
void route_step_place_first(struct route_step *step, int64_t id);
void route_step_restart(struct route_step *step);
bool route_step_may_restart(const struct route_request *request);
/* What a server that says the id is taken holds under it: not ours to abort. */
void route_step_disown(struct route_request *request, enum route_leg_kind kind,
                       const struct route_outcome *outcome);
/* All again under a new id; false: it has been once already. */
bool route_step_renew(struct route_step *step);
void route_step_place_generation(struct route_step *step);
void route_step_place_again(struct route_step *step);
bool route_step_has_other(const struct route_step *step);
/* A server that will not take part in the hand-off, by its settings, is no
 * reason that another one should not. False: there is none, or no budget; it has
 * failed all the same. */
bool route_step_ask_another(struct route_step *step, int32_t refused);
void route_step_retry(struct route_step *step, int32_t failed);
int32_t route_step_server_of_leg(const struct route_request *request);

/* request_pair: events of a request whose two legs run at once. */
void route_pair_post(struct route_step *step, int32_t context,
                     int32_t generation);
/* Ends what is open of a pair; nothing when there is none. */
void route_pair_cancel(struct route_step *step);
void route_pair_on_leg_end(struct route_step *step);
void route_pair_on_beside_end(struct route_step *step);
void route_pair_on_server_down(struct route_step *step);
/* The client has its answer, and the context leg took too long to end. */
void route_pair_on_linger_end(struct route_step *step);
