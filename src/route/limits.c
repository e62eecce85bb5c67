#include "route/limits.h"

#include <unistd.h>

#include "route/front_internal.h"

/* Sockets a request may need: the client's and both legs', or one leg's and
 * spare. */
enum { FILES_A_REQUEST = 3, FILES_KEPT = 64, CONNECTIONS_BESIDE = 64 };
/* One a leg. */
enum { ABORTS_A_REQUEST = 2 };

uint32_t route_limits_open_max(const struct config_route *config)
{
    long files = sysconf(_SC_OPEN_MAX);
    if (config->max_inflight > 0) {
        return config->max_inflight;
    }
    if (files < FILES_KEPT + FILES_A_REQUEST) {
        return 1;
    }
    long count = (files - FILES_KEPT) / FILES_A_REQUEST;
    return count > 65536 ? 65536 : (uint32_t)count;
}

uint32_t route_limits_connection_max(const struct config_route *config)
{
    return route_limits_open_max(config) + CONNECTIONS_BESIDE;
}

uint32_t route_limits_abort_max(const struct config_route *config)
{
    return ABORTS_A_REQUEST * route_limits_open_max(config);
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

void route_limits_describe(const struct config_route *config, struct buf *out)
{
    buf_printf(out,
               "servers             %u context, %u generation; %d a role "
               "at most\n",
               config->context.count, config->generation.count,
               CONFIG_SERVER_COUNT_MAX);
    buf_printf(out, "open requests       %u at most\n",
               route_limits_open_max(config));
    buf_printf(out, "client connections  %u at most\n",
               route_limits_connection_max(config));
    buf_printf(out, "request head        %u bytes at most\n",
               config->max_header_bytes);
    buf_printf(out, "request body        %.1f MiB at most\n",
               mib(config->max_body_bytes));
    buf_printf(out, "bodies held at once %.1f MiB at most, of all clients\n",
               mib(http_server_held_max(config->max_body_bytes)));
    buf_printf(out, "worker's answer     %.1f MiB at most, unless relayed\n",
               mib(config->max_body_bytes));
    buf_printf(out, "conversation id     %d bytes, longer ones hashed\n",
               ROUTE_CONVERSATION_SIZE_MAX);
    buf_printf(out, "aborts under way    %u at most, %d a server at once\n",
               route_limits_abort_max(config), FRONT_ABORT_CALL_MAX);
}
