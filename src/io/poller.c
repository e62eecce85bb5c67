#include "io/poller.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"

enum { TAKEN_MAX = 64, ENDS = EPOLLERR | EPOLLHUP | EPOLLRDHUP };

struct io_poller {
    int fd;
    int alarm_fd;
    uint64_t alarm_ns; /* 0: none */
};

enum err io_poller_create(struct io_poller **poller_out)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    int alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (fd < 0 || alarm_fd < 0 ||
        epoll_ctl(fd, EPOLL_CTL_ADD, alarm_fd, &event) != 0) {
        close(fd);
        close(alarm_fd);
        return ERR_IO;
    }
    struct io_poller *poller = mem_new(sizeof(*poller));
    poller->fd = fd;
    poller->alarm_fd = alarm_fd;
    *poller_out = poller;
    return OK;
}

void io_poller_destroy(struct io_poller *poller)
{
    if (poller == NULL) {
        return;
    }
    close(poller->alarm_fd);
    close(poller->fd);
    mem_free(poller);
}

int io_poller_fd(const struct io_poller *poller)
{
    return poller->fd;
}

enum err io_poller_add(struct io_poller *poller, int fd, bool by_edge,
                       void *context)
{
    CHECK(context != NULL); /* that is the alarm */
    struct epoll_event event = {
        .events = by_edge ? EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET : EPOLLIN,
        .data.ptr = context,
    };
    return epoll_ctl(poller->fd, EPOLL_CTL_ADD, fd, &event) == 0 ? OK : ERR_IO;
}

void io_poller_remove(struct io_poller *poller, int fd)
{
    int code = epoll_ctl(poller->fd, EPOLL_CTL_DEL, fd, NULL);
    CHECK(code == 0);
}

void io_poller_set_alarm(struct io_poller *poller, uint64_t at_ns)
{
    if (at_ns == poller->alarm_ns) {
        return;
    }
    poller->alarm_ns = at_ns;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
                     .tv_nsec = (long)(at_ns % 1000000000u)},
    };
    int code = timerfd_settime(poller->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL);
    CHECK(code == 0);
}

static void hear_alarm(struct io_poller *poller)
{
    uint64_t count;
    if (read(poller->alarm_fd, &count, sizeof(count)) == sizeof(count)) {
        poller->alarm_ns = 0;
    }
}

static int ready_of(uint32_t events)
{
    return (events & (EPOLLIN | ENDS) ? IO_READABLE : 0) |
           (events & (EPOLLOUT | ENDS) ? IO_WRITABLE : 0);
}

size_t io_poller_take(struct io_poller *poller, struct io_ready *ready_out,
                      size_t max)
{
    struct epoll_event events[TAKEN_MAX];
    int limit = max < TAKEN_MAX ? (int)max : TAKEN_MAX;
    int count = epoll_wait(poller->fd, events, limit, 0);
    size_t taken = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == NULL) {
            hear_alarm(poller);
            continue;
        }
        ready_out[taken++] = (struct io_ready){
            .context = events[i].data.ptr,
            .ready = ready_of(events[i].events),
            .has_ended = (events[i].events & ENDS) != 0,
        };
    }
    return taken;
}
