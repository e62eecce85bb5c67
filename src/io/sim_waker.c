#include "io/sim_body.h"

int io_sim_waker_open(struct io_sim *sim)
{
    int index = io_sim_take(sim, SIM_SOCKET_WAKER, NULL, 0);
    return index < 0 ? -1 : SIM_FD_FIRST + index;
}

void io_sim_waker_set(struct io_sim *sim, int fd, bool is_raised)
{
    sim->sockets[fd - SIM_FD_FIRST].is_raised = is_raised;
}

void io_sim_waker_close(struct io_sim *sim, int fd)
{
    sim->sockets[fd - SIM_FD_FIRST].state = SIM_SOCKET_FREE;
}
