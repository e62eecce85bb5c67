/* What the front end reads before anybody is asked: the client's body and its
 * headers, and what workers say of themselves. The two legs that are made of a
 * body must be JSON again. The first byte chooses the reader's settings. */
#include <stdlib.h>
#include <string.h>

#include "api/scan.h"
#include "base/check.h"
#include "io/tcp.h"
#include "route/body.h"
#include "route/deadline.h"
#include "route/match.h"
#include "route/peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every header that is asked for holds the end of the input, or is absent. */
struct headers {
    struct span value;
    bool has;
};

static bool get(const void *context, const char *name, struct span *value_out)
{
    const struct headers *headers = context;
    (void)name;
    *value_out = headers->value;
    return headers->has;
}

static void check_json(struct buf *out)
{
    static struct api_object object;
    CHECK(!buf_error(out));
    /* Members of ours may be too many beside as many of the client's. */
    enum err err = api_scan(buf_span(out), NULL, &object);
    CHECK(err == OK || err == ERR_FULL);
    buf_reset(out);
}

static void try_body(struct span bytes, uint8_t how)
{
    struct config_route config = {0};
    struct headers headers = {span_slice(bytes, bytes.size / 2, bytes.size),
                              how & 1};
    struct route_body_options options = {&config, (how & 2) != 0, get,
                                         &headers};
    static struct route_body body;
    if (route_body_read(bytes, &options, NULL, &body)) {
        return;
    }
    struct buf out;
    buf_init(&out, 1 << 22);
    route_body_whole(&body, &out);
    check_json(&out);
    route_body_context(&body, 5, how & 4, &out);
    check_json(&out);
    route_body_pair_context(&body, 5, &out);
    check_json(&out);
    buf_finish(&out);
    route_body_finish(&body);
}

static void try_worker(struct span bytes)
{
    static struct route_peer peer;
    struct route_marks marks;
    peer = (struct route_peer){0};
    if (route_peer_read(bytes, NULL, &peer) == OK) {
        CHECK(route_peer_is_known(&peer));
        CHECK(route_peer_endpoint(&peer).size < ROUTE_PEER_SIZE_MAX);
    }
    route_marks_read(bytes, &marks);
    CHECK(memchr(marks.model, 0, sizeof(marks.model)) != NULL);
    CHECK(memchr(marks.tokenizer, 0, sizeof(marks.tokenizer)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    struct span bytes = span_of(copy, size - 1);
    uint64_t ns = 0;
    struct io_address address;
    try_body(bytes, data[0]);
    try_worker(bytes);
    IGNORE(route_deadline_read(bytes, 1000000000, NULL, &ns));
    if (io_address_parse(bytes, NULL, &address) == OK) {
        CHECK(strlen(address.host) > 0);
    }
    free(copy);
    return 0;
}
