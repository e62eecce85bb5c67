#include "io/map_watch.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { PLACE_COUNT = 1024 }; /* as many as a model file may have parts */

/* `begin` is set last and cleared first: a place that has one is whole. */
struct place {
    atomic_uintptr_t begin; /* 0: free */
    atomic_size_t size;
    const char *_Atomic path;
};

static struct place places[PLACE_COUNT];
static atomic_flag is_adding = ATOMIC_FLAG_INIT;
static atomic_int exit_code_of;

void io_map_watch_add(const void *begin, size_t size, const char *path)
{
    while (atomic_flag_test_and_set(&is_adding)) {
    }
    for (int i = 0; i < PLACE_COUNT; i++) {
        struct place *place = &places[i];
        if (atomic_load(&place->begin) == 0) {
            atomic_store(&place->size, size);
            atomic_store(&place->path, path);
            atomic_store(&place->begin, (uintptr_t)begin);
            break;
        }
    }
    atomic_flag_clear(&is_adding);
}

void io_map_watch_remove(const void *begin)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        uintptr_t wanted = (uintptr_t)begin;
        if (atomic_compare_exchange_strong(&places[i].begin, &wanted, 0)) {
            return;
        }
    }
}

static const char *find_path(uintptr_t address)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        uintptr_t begin = atomic_load(&places[i].begin);
        if (begin != 0 && address >= begin &&
            address - begin < atomic_load(&places[i].size)) {
            return atomic_load(&places[i].path);
        }
    }
    return NULL;
}

static void say(const char *text)
{
    /* There is nobody to tell that telling failed. */
    ssize_t put = write(STDERR_FILENO, text, strlen(text));
    (void)put;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *path = find_path((uintptr_t)info->si_addr);
    if (path == NULL) {
        signal(number, SIG_DFL); /* the same instruction fails again */
        return;
    }
    say("baton: ");
    say(path);
    say(": the file was cut short, or cannot be read any more, while it was in "
        "use; replace a model by renaming a new file over it\n");
    _exit(atomic_load(&exit_code_of));
}

void io_map_watch(int exit_code)
{
    struct sigaction action = {.sa_sigaction = on_bus_error,
                               .sa_flags = SA_SIGINFO};
    atomic_store(&exit_code_of, exit_code);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
