#pragma once
/* cli/exit: what the exit codes of `baton` mean; the manual lists them too. */

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1, /* it ran and failed */
    CLI_USAGE = 2, /* the command line is wrong */
    CLI_BAD_INPUT = 3, /* a model, config or other file is wrong */
    CLI_UNAVAILABLE =
        4, /* a port, memory or another process is not to be had */
    CLI_FILE_LOST = 5, /* a mapped file was cut short while it was in use */
    CLI_INTERRUPTED = 130
};

#include "base/err.h"

static inline enum cli_exit cli_exit_of(enum err code)
{
    switch (code) {
    case OK:
        return CLI_OK;
    case ERR_INVALID:
    case ERR_UNSUPPORTED:
    case ERR_NOT_FOUND:
    case ERR_CORRUPT:
        return CLI_BAD_INPUT;
    case ERR_IO:
    case ERR_FULL:
    case ERR_NO_MEMORY:
    case ERR_BUSY:
    case ERR_CLOSED:
    case ERR_TIMEOUT:
        return CLI_UNAVAILABLE;
    default:
        return CLI_FAILED;
    }
}
