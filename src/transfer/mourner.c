#include "transfer/mourner.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

void mourners_init(struct mourners *mourners, uint32_t capacity)
{
    mourners->capacity = capacity;
    mourners->items = mem_new_array(capacity, sizeof(mourners->items[0]));
}

void mourners_finish(struct mourners *mourners)
{
    for (uint32_t i = 0; i < mourners->capacity; i++) {
        if (mourners->items[i].is_used) {
            mourner_end(&mourners->items[i]);
        }
    }
    mem_free(mourners->items);
}

static struct mourner *find(struct mourners *mourners, uint64_t incarnation)
{
    struct mourner *free_one = NULL;
    for (uint32_t i = 0; i < mourners->capacity; i++) {
        struct mourner *mourner = &mourners->items[i];
        if (mourner->is_used && mourner->incarnation == incarnation) {
            return mourner;
        }
        free_one = mourner->is_used ? free_one : mourner;
    }
    return free_one;
}

void mourners_add(struct mourners *mourners, struct link *link, uint64_t now)
{
    struct mourner *mourner = find(mourners, link->incarnation);
    if (mourner == NULL) {
        log_error("transfer", "too many lost senders to ask again");
        return;
    }
    if (mourner->is_used) {
        return;
    }
    mourner->is_used = true;
    mourner->incarnation = link->incarnation;
    mourner->retry_ns = now;
    snprintf(mourner->endpoint, sizeof(mourner->endpoint), "%s",
             link->endpoint);
    mourner->process = link->process;
    link->process = NULL;
}

void mourner_end(struct mourner *mourner)
{
    transfer_process_close(mourner->process);
    mourner->process = NULL;
    mourner->is_used = false;
}
