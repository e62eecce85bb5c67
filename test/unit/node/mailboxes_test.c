#include "unit/base/test.h"

#include "engine/port.h"
#include "node/mailboxes.h"
#include "transfer/port.h"

static const struct node_limits LIMITS = {.request_count_max = 10,
                                          .event_count_max = 32};

/* Proof: each takes as many messages of its kind as the limits say, then is
 * full: 84 commands are ten requests twice over and 64 beside. */
static void each_holds_what_the_limits_say(void **state)
{
    (void)state;
    struct node_mailboxes boxes = {0};
    static const struct engine_command command = {.kind = ENGINE_DRAIN};
    static const struct engine_event event = {.kind = ENGINE_EVENT_STOPPED};
    assert_int_equal(node_mailboxes_open(&boxes, &LIMITS), OK);
    uint32_t commands = io_mailbox_room(boxes.commands);
    uint32_t events = io_mailbox_room(boxes.events);
    assert_true(commands >= 84);
    assert_true(events >= 32);
    for (uint32_t i = 0; i < commands; i++) {
        assert_int_equal(io_mailbox_post(boxes.commands, &command), OK);
    }
    assert_int_equal(io_mailbox_post(boxes.commands, &command), ERR_FULL);
    for (uint32_t i = 0; i < events; i++) {
        assert_int_equal(io_mailbox_post(boxes.events, &event), OK);
    }
    assert_int_equal(io_mailbox_post(boxes.events, &event), ERR_FULL);
    node_mailboxes_close(&boxes);
    assert_null(boxes.commands);
}

/* Proof: what came in at one end comes out at the other, by kind. */
static void messages_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct node_mailboxes boxes = {0};
    struct transfer_report report = {0};
    struct transfer_command command = {0};
    struct transfer_report report_got;
    struct transfer_command command_got;
    memset(&report, 7, sizeof(report));
    memset(&command, 9, sizeof(command));
    assert_int_equal(node_mailboxes_open(&boxes, &LIMITS), OK);
    assert_int_equal(io_mailbox_post(boxes.reports, &report), OK);
    assert_int_equal(io_mailbox_post(boxes.transfer_commands, &command), OK);
    assert_true(io_mailbox_take(boxes.reports, &report_got));
    assert_true(io_mailbox_take(boxes.transfer_commands, &command_got));
    assert_memory_equal(&report, &report_got, sizeof(report));
    assert_memory_equal(&command, &command_got, sizeof(command));
    node_mailboxes_close(&boxes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_holds_what_the_limits_say),
        cmocka_unit_test(messages_come_out_as_they_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
