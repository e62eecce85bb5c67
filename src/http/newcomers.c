#include "http/newcomers.h"

#include <stddef.h>

#include "http/connection.h"

struct http_exchange *http_newcomers_add(struct http_newcomers *newcomers,
                                         struct http_exchange *exchange)
{
    struct http_exchange *newest = newcomers->newest;
    exchange->newcomer =
        (struct http_newcomer){.older = newest, .is_one = true};
    if (newest != NULL) {
        newest->newcomer.newer = exchange;
    } else {
        newcomers->oldest = exchange;
    }
    newcomers->newest = exchange;
    newcomers->count++;
    return newcomers->count > newcomers->count_max ? newcomers->oldest : NULL;
}

void http_newcomers_remove(struct http_newcomers *newcomers,
                           struct http_exchange *exchange)
{
    struct http_newcomer *newcomer = &exchange->newcomer;
    if (!newcomer->is_one) {
        return;
    }
    if (newcomer->older != NULL) {
        newcomer->older->newcomer.newer = newcomer->newer;
    } else {
        newcomers->oldest = newcomer->newer;
    }
    if (newcomer->newer != NULL) {
        newcomer->newer->newcomer.older = newcomer->older;
    } else {
        newcomers->newest = newcomer->older;
    }
    *newcomer = (struct http_newcomer){0};
    newcomers->count--;
}
