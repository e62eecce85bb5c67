#include "unit/base/test.h"

#include "base/mem.h"
#include "engine/port.h"

struct fixture {
    struct io_waker *waker;
    struct io_mailbox *commands;
    atomic_bool hint;
    struct engine_port port;
};

static int create(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.hint = false};
    assert_int_equal(io_waker_create(&fixture.waker), OK);
    assert_int_equal(io_mailbox_create(
                         &(struct io_mailbox_options){
                             .message_size = sizeof(struct engine_command),
                             .capacity = 1,
                             .waker = fixture.waker},
                         &fixture.commands),
                     OK);
    fixture.port = (struct engine_port){.commands = fixture.commands,
                                        .cancel_hint = &fixture.hint};
    *state = &fixture;
    return 0;
}

static int destroy(void **state)
{
    struct fixture *fixture = *state;
    io_mailbox_destroy(fixture->commands);
    io_waker_destroy(fixture->waker);
    return 0;
}

/* Each kind, posted and taken: those that take work away raise the hint. */
static void commands_that_take_work_away_raise_the_hint(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        enum engine_command_kind kind;
        bool hint;
    } KINDS[] = {
        {ENGINE_SUBMIT, false},       {ENGINE_CANCEL, true},
        {ENGINE_CANCEL_CHOICE, true}, {ENGINE_ABORT_RID, true},
        {ENGINE_DRAIN, false},        {ENGINE_STOP, true},
    };
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        struct engine_command command = {.kind = KINDS[i].kind};
        atomic_store(&fixture->hint, false);
        assert_int_equal(engine_port_post(&fixture->port, &command), OK);
        assert_int_equal(atomic_load(&fixture->hint), KINDS[i].hint);
        assert_true(io_mailbox_take(fixture->commands, &command));
    }
}

/* A full mailbox: refused, no hint for a command that is not there. */
static void a_refused_command_raises_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct engine_command command = {.kind = ENGINE_DRAIN};
    assert_int_equal(engine_port_post(&fixture->port, &command), OK);
    command.kind = ENGINE_CANCEL;
    assert_int_equal(engine_port_post(&fixture->port, &command), ERR_FULL);
    assert_false(atomic_load(&fixture->hint));
}

/* Every part goes (the sanitizer watches), and NULL is fine. */
static void a_request_is_freed_whole(void **state)
{
    (void)state;
    struct engine_request *request = mem_new(sizeof(*request));
    request->prompt = mem_new_array(3, sizeof(int32_t));
    request->biases = mem_new_array(2, sizeof(struct sampler_bias));
    engine_request_free(request);
    engine_request_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commands_that_take_work_away_raise_the_hint),
        TEST(a_refused_command_raises_nothing),
        TEST(a_request_is_freed_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
