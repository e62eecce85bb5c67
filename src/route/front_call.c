/* What each call to a worker carries, whoever makes it, and what the head of its
 * answer says of the worker. */
#include <stdio.h>

#include "route/front_internal.h"

const char *front_call_incarnation(const struct route_front *front,
                                   int32_t server)
{
    const char *text = front->pool.servers[server].marks.incarnation;
    return text[0] == 0 ? NULL : text;
}

uint32_t front_call_headers(const struct route_front *front, int32_t server,
                            char max_seq[FRONT_MAX_SEQ_SIZE],
                            struct http_header *headers)
{
    uint32_t count = 0;
    const char *incarnation = front_call_incarnation(front, server);
    if (front->pool.max_seq != 0) {
        snprintf(max_seq, FRONT_MAX_SEQ_SIZE, "%u", front->pool.max_seq);
        headers[count++] = (struct http_header){"x-baton-max-seq-len", max_seq};
    }
    if (incarnation != NULL) {
        headers[count++] =
            (struct http_header){"x-baton-incarnation", incarnation};
    }
    headers[count] = (struct http_header){NULL, NULL};
    return count;
}

static bool header_is(const struct http_call *call, const char *name,
                      const char *value)
{
    struct span text;
    return http_call_header(call, name, &text) &&
           span_equals_string(text, value);
}

bool front_call_is_not_accepted(const struct http_call *call)
{
    int status = http_call_status(call);
    bool is_busy = status == 503 || status == 429;
    return (status == 503 &&
            header_is(call, "x-trtllm-server-state", "starting")) ||
           (is_busy && header_is(call, "x-disagg-not-accepted", "1"));
}

bool front_call_is_restarted(struct route_front *front, int32_t server,
                             const struct http_call *call)
{
    bool is_so = http_call_status(call) == 503 &&
                 header_is(call, "x-trtllm-server-state", "restarted");
    if (is_so) {
        route_pool_on_restarted(&front->pool, server, io_loop_now(front->loop));
        front_probe_wake(front);
    }
    return is_so;
}
