#pragma once
/* io/stream: what the listener needs of a stream. Private to io. */
#include "io/resolve.h"
#include "io/tcp.h"

/* Takes a connected descriptor. `on_gone` tells, last of all, that the memory
 * of the stream goes away. */
struct io_stream *io_stream_adopt(struct io_loop *loop, int fd,
                                  const struct io_endpoint *peer,
                                  void (*on_gone)(void *owner), void *owner);
bool io_stream_has_handler(const struct io_stream *stream);
