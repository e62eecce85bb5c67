#include "base/mem.h"
#include "engine/port.h"

void engine_request_free(struct engine_request *request)
{
    if (request == NULL) {
        return;
    }
    mem_free(request->prompt);
    mem_free(request->biases);
    mem_free(request);
}

static bool takes_work_away(enum engine_command_kind kind)
{
    return kind == ENGINE_CANCEL || kind == ENGINE_CANCEL_CHOICE ||
           kind == ENGINE_ABORT_RID || kind == ENGINE_STOP;
}

enum err engine_port_post(const struct engine_port *port,
                          const struct engine_command *command)
{
    enum err err = io_mailbox_post(port->commands, command);
    if (err == OK && port->cancel_hint != NULL &&
        takes_work_away(command->kind)) {
        atomic_store(port->cancel_hint, true);
    }
    return err;
}
