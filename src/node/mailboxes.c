#include "node/mailboxes.h"

#include "engine/port.h"
#include "transfer/port.h"

enum {
    TRANSFER_COMMAND_COUNT_MAX = 2048,
    /* A quarter of it bounds the live sessions (engine/engine.h). */
    TRANSFER_REPORT_COUNT_MAX = 1024
};

static enum err open_wakers(struct node_mailboxes *boxes)
{
    enum err code = io_waker_create(&boxes->engine_waker);
    if (code == OK) {
        code = io_waker_create(&boxes->transfer_waker);
    }
    return code == OK ? io_waker_create(&boxes->event_waker) : code;
}

enum err node_mailboxes_open(struct node_mailboxes *boxes,
                             const struct node_limits *limits)
{
    enum err code = open_wakers(boxes);
    const struct {
        struct io_mailbox **mailbox;
        struct io_mailbox_options options;
    } all[] = {
        {&boxes->commands,
         {.message_size = sizeof(struct engine_command),
          .capacity = 2 * limits->request_count_max + 64,
          .waker = boxes->engine_waker}},
        {&boxes->events,
         {.message_size = sizeof(struct engine_event),
          .capacity = limits->event_count_max,
          .waker = boxes->event_waker}},
        {&boxes->transfer_commands,
         {.message_size = sizeof(struct transfer_command),
          .capacity = TRANSFER_COMMAND_COUNT_MAX,
          .waker = boxes->transfer_waker}},
        {&boxes->reports,
         {.message_size = sizeof(struct transfer_report),
          .capacity = TRANSFER_REPORT_COUNT_MAX,
          .waker = boxes->engine_waker}},
    };
    for (size_t i = 0; code == OK && i < sizeof(all) / sizeof(all[0]); i++) {
        code = io_mailbox_create(&all[i].options, all[i].mailbox);
    }
    return code;
}

void node_mailboxes_close(struct node_mailboxes *boxes)
{
    io_mailbox_destroy(boxes->commands);
    io_mailbox_destroy(boxes->events);
    io_mailbox_destroy(boxes->transfer_commands);
    io_mailbox_destroy(boxes->reports);
    io_waker_destroy(boxes->engine_waker);
    io_waker_destroy(boxes->transfer_waker);
    io_waker_destroy(boxes->event_waker);
    *boxes = (struct node_mailboxes){0};
}
