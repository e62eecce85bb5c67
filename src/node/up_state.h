#pragma once
/* node/up_state: what the supervisor of `baton up` knows; private to node/up.
 * up.c watches and restarts, up_args.c builds command lines and the unnamed
 * files that children read. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/loop.h"
#include "io/process.h"
#include "io/tcp.h"
#include "node/prompt.h"
#include "node/up.h"
#include "node/warm.h"

enum { UP_ARGV_MAX = 64, UP_ARGUMENT_SIZE = 1100 };

struct up_child {
    struct up *up;
    char name[32];
    const char *role; /* NULL: the front end */
    uint32_t threads;
    uint16_t port; /* 0 until it first listened */
    struct io_process *process; /* NULL: not running */
    struct io_timer *restart;
    uint64_t backoff_ns;
    uint32_t failures;
    bool is_listening, is_ready;
    bool was_listening;
};

struct up {
    const struct node_up_options *options;
    struct io_loop *loop;
    char self[4096];
    uint32_t worker_count;
    struct up_child workers[NODE_UP_WORKER_COUNT_MAX];
    struct up_child front;
    struct node_warm *warm;
    struct node_prompt *prompt;
    struct node_prompt_worker asked[NODE_UP_WORKER_COUNT_MAX];
    struct io_timer *give_up;
    struct buf key; /* hex */
    int key_fd, config_fd;
    bool is_stopping;
    bool are_workers_told; /* to end, at a stop */
    bool was_ready;
    enum err result;
    struct why why;
};

/* A command line with the memory behind it; ended with mem_free. */
struct up_arguments {
    uint32_t count;
    char *argv[UP_ARGV_MAX + 1];
    char text[UP_ARGV_MAX][UP_ARGUMENT_SIZE];
};
struct up_arguments *up_arguments_create(const struct up_child *child);

/* The key of this cluster's internal requests: made anew at each start. */
MUST_USE enum err up_key_file_open(struct up *up);
/* The front end's YAML; every worker's port must be known. */
MUST_USE enum err up_config_file_open(struct up *up);
