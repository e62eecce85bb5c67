#pragma once
/* node/ports: what a worker is told to listen on is tried before its model is
 * read, which may take minutes; and a port that is not to be had is named by the
 * option that asked for it. */
#include "base/err.h"
#include "config/worker.h"

/* Binds the ports of transfers, where they are given, and lets go of them
 * again; warns of a host that peers cannot use. ERR_IO: "`transfer_port`: port
 * 8000 is in use". */
MUST_USE enum err node_ports_check(const struct config_worker *config,
                                   struct why *why);
/* For who does not run the worker: says in the log what `node_ports_check` would
 * fail of, and of the HTTP port, and goes on. */
void node_ports_warn(const struct config_worker *config);
/* Puts `key` before an error that a port is the reason of; any other one stays
 * as it is. Returns `code`. */
enum err node_ports_name(enum err code, const char *key, struct why *why);

/* "ready http://host:port" on standard output, for whoever started us. */
void node_ports_say(const char *what, const char *host, uint16_t port);
