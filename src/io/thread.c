#include "io/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/cgroup.h"

struct io_thread {
    pthread_t handle; /* to be joined */
    char name[16];
    void (*run)(void *context);
    void *context;
};

static void *thread_main(void *argument)
{
    struct io_thread *thread = argument;
    io_thread_set_name(thread->name);
    thread->run(thread->context);
    return NULL;
}

/* A thread inherits the mask of its creator: blocked from birth on, so that a
 * signal always meets the thread whose loop waits for it. */
static int begin(struct io_thread *thread, void *(*main)(void *thread),
                 const pthread_attr_t *attributes, pthread_t *handle_out)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(handle_out, attributes, main, thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0) {
        mem_free(thread);
    }
    return code;
}

static struct io_thread *thread_new(const char *name,
                                    void (*run)(void *context), void *context)
{
    struct io_thread *thread = mem_new(sizeof(*thread));
    snprintf(thread->name, sizeof(thread->name), "%s", name);
    thread->run = run;
    thread->context = context;
    return thread;
}

enum err io_thread_start(const char *name, void (*run)(void *context),
                         void *context, struct io_thread **thread_out)
{
    struct io_thread *thread = thread_new(name, run, context);
    pthread_t handle;
    if (begin(thread, thread_main, NULL, &handle) != 0) {
        return ERR_IO;
    }
    thread->handle = handle;
    *thread_out = thread;
    return OK;
}

static void *thread_alone(void *argument)
{
    thread_main(argument);
    mem_free(argument);
    return NULL;
}

enum err io_thread_start_alone(const char *name, void (*run)(void *context),
                               void *context)
{
    pthread_attr_t attributes;
    pthread_t handle;
    int code = pthread_attr_init(&attributes);
    CHECK(code == 0);
    code = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    CHECK(code == 0);
    code = begin(thread_new(name, run, context), thread_alone, &attributes,
                 &handle);
    /* Frees nothing here, and cannot fail. */
    IGNORE(pthread_attr_destroy(&attributes));
    return code == 0 ? OK : ERR_IO;
}

void io_thread_join(struct io_thread *thread)
{
    if (thread == NULL) {
        return;
    }
    int code = pthread_join(thread->handle, NULL);
    CHECK(code == 0);
    mem_free(thread);
}

void io_thread_set_name(const char *name)
{
    char cut[16];
    snprintf(cut, sizeof(cut), "%s", name);
    /* A name is for people: a refusal changes nothing. */
    IGNORE(pthread_setname_np(pthread_self(), cut));
}

uint32_t io_thread_cpu_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    int count = CPU_COUNT(&set);
    uint32_t ours = io_cgroup_read("").cpu_count;
    return count < 1 ? 1 : (uint32_t)count < ours ? (uint32_t)count : ours;
}

struct io_lock {
    pthread_mutex_t mutex;
};

struct io_lock *io_lock_create(void)
{
    struct io_lock *lock = mem_new(sizeof(*lock));
    int code = pthread_mutex_init(&lock->mutex, NULL);
    CHECK(code == 0);
    return lock;
}

void io_lock_destroy(struct io_lock *lock)
{
    if (lock == NULL) {
        return;
    }
    int code = pthread_mutex_destroy(&lock->mutex);
    CHECK(code == 0);
    mem_free(lock);
}

void io_lock_take(struct io_lock *lock)
{
    int code = pthread_mutex_lock(&lock->mutex);
    CHECK(code == 0);
}

void io_lock_give(struct io_lock *lock)
{
    int code = pthread_mutex_unlock(&lock->mutex);
    CHECK(code == 0);
}
