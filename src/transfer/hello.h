#pragma once
/* transfer/hello: what we say about ourselves, and whether a peer that says
 * its own may exchange pages with us. Private to transfer. */
#include "transfer/process.h"
#include "transfer/transfer.h"
#include "wire/rank_info.h"

struct hello {
    struct transfer_identity identity;
    struct transfer_marks marks; /* what info points to */
    struct wire_rank_info info; /* without the memory's address */
    struct buf blob; /* the memory's address */
    struct buf layers[TRANSFER_GROUP_COUNT_MAX]; /* likewise */
};

MUST_USE enum err hello_init(struct hello *hello,
                             const struct transfer_options *options,
                             const char *endpoint, struct why *why);
void hello_finish(struct hello *hello);
/* ERR_UNSUPPORTED names the field that does not fit. */
MUST_USE enum err hello_check(const struct hello *hello,
                              const struct transfer_backend *backend,
                              const struct wire_rank_info *theirs,
                              bool are_they_sender, struct why *why);
struct transfer_identity hello_identity(const struct wire_rank_info *info);
