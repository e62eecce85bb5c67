#pragma once
/* transfer/bounce_receive_part: what the two halves of bounce_receive share:
 * events (bounce_receive.c), what follows from them (bounce_sweep.c). Private to
 * them. */
#include "transfer/bounce_receive.h"

struct bounce_receive_action *bounce_receive_act(
    struct bounce_receive_actions *actions,
    enum bounce_receive_action_kind kind, uint32_t flow, uint32_t slot);
/* At most one SCATTER and one GRANT. */
void bounce_receive_sweep(struct bounce_receive *role,
                          const struct bounce_receive_event *event,
                          struct bounce_receive_actions *actions);
