#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "io/sim_body.h"

struct io_endpoint io_sim_endpoint(uint32_t host, uint16_t port)
{
    struct io_endpoint endpoint = {.size = sizeof(struct sockaddr_in)};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&endpoint.address;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    v4->sin_addr.s_addr = htonl(SIM_NETWORK + host);
    return endpoint;
}

enum err io_sim_look_up(void *context, const char *name, struct why *why,
                        struct io_addresses *addresses_out)
{
    (void)context;
    for (uint32_t host = 1; host < IO_SIM_HOST_MAX; host++) {
        char known[16];
        snprintf(known, sizeof(known), "host-%u", host);
        if (strcmp(name, known) == 0) {
            addresses_out->count = 1;
            addresses_out->list[0] = io_sim_endpoint(host, 0);
            return OK;
        }
    }
    return why_say(why, ERR_INVALID, "host \"%s\": not of this world", name);
}

enum err io_sim_waker(struct io_loop *loop, struct io_waker **waker_out)
{
    return io_sim_waker_create(((struct sim_loop *)loop)->sim, waker_out);
}
