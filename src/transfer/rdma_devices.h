#pragma once
/* transfer/rdma_devices: which RDMA devices UCX finds on this host, without
 * opening one. Any thread. */
#include <stddef.h>

#include "base/buf.h"

/* Their number; names, with ", " between them, are added. 0 also when UCX does
 * not say. */
size_t rdma_devices_find(struct buf *names_out);
