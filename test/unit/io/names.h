#pragma once
/* A name service of the test's own, to be asked by io/resolver's threads:
 *
 *   "one"     127.77.0.1
 *   "two"     127.77.0.1, then 127.77.0.2
 *   "hang-*"  nothing before names_release, then 127.77.0.1
 *   others    unknown
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "unit/io/test.h"

#include "io/resolver.h"

struct names {
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool is_released, is_ill; /* ill: it knows nobody */
    int asked, answered, hanging;
    char last[64]; /* asked for */
};
static struct names names = {PTHREAD_MUTEX_INITIALIZER,
                             PTHREAD_COND_INITIALIZER};

static inline void names_wait_for_release(void)
{
    names.hanging++;
    pthread_cond_broadcast(&names.change);
    while (!names.is_released) {
        pthread_cond_wait(&names.change, &names.lock);
    }
    names.hanging--;
}

static inline void names_add(struct io_addresses *addresses, const char *text)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &at.sin_addr);
    struct io_endpoint *to = &addresses->list[addresses->count++];
    memcpy(&to->address, &at, sizeof(at));
    to->size = sizeof(at);
}

static inline enum err names_ask(void *context, const char *name,
                                 struct why *why,
                                 struct io_addresses *addresses_out)
{
    (void)context;
    bool is_hanging = strncmp(name, "hang-", 5) == 0;
    bool is_two = strcmp(name, "two") == 0;
    bool is_known = is_hanging || is_two || strcmp(name, "one") == 0;
    pthread_mutex_lock(&names.lock);
    names.asked++;
    snprintf(names.last, sizeof(names.last), "%s", name);
    if (is_hanging) {
        names_wait_for_release();
    }
    bool is_ill = names.is_ill;
    names.answered++;
    pthread_cond_broadcast(&names.change);
    pthread_mutex_unlock(&names.lock);
    addresses_out->count = 0;
    if (!is_known || is_ill) {
        return why_say(why, ERR_INVALID, "host \"%s\": unknown here", name);
    }
    names_add(addresses_out, "127.77.0.1");
    if (is_two) {
        names_add(addresses_out, "127.77.0.2");
    }
    return OK;
}

static inline void names_reset(void)
{
    names.is_released = names.is_ill = false;
    names.asked = names.answered = names.hanging = 0;
}

static inline int names_asked(void)
{
    pthread_mutex_lock(&names.lock);
    int asked = names.asked;
    pthread_mutex_unlock(&names.lock);
    return asked;
}

static inline void names_set_ill(bool is_ill)
{
    pthread_mutex_lock(&names.lock);
    names.is_ill = is_ill;
    pthread_mutex_unlock(&names.lock);
}

/* Until so many look-ups hang. */
static inline void names_wait_hanging(int count)
{
    pthread_mutex_lock(&names.lock);
    while (names.hanging < count) {
        pthread_cond_wait(&names.change, &names.lock);
    }
    pthread_mutex_unlock(&names.lock);
}

/* All that hang come back now, and so does who asks later. */
static inline void names_release(void)
{
    pthread_mutex_lock(&names.lock);
    names.is_released = true;
    pthread_cond_broadcast(&names.change);
    while (names.answered < names.asked) {
        pthread_cond_wait(&names.change, &names.lock);
    }
    pthread_mutex_unlock(&names.lock);
}

static const struct io_look_up NAMES = {.ask = names_ask};
