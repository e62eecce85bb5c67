/* Every decoder of wire on the same bytes: nothing may crash, and what decodes
 * must encode to something that decodes to the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/aux.h"
#include "wire/bounce.h"
#include "wire/cancel.h"
#include "wire/frame.h"
#include "wire/greeting.h"
#include "wire/pack.h"
#include "wire/rank_info.h"
#include "wire/recv_request.h"
#include "wire/refusal.h"
#include "wire/result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool is_true)
{
    if (!is_true) {
        abort();
    }
}

static void try_request(struct span body)
{
    struct wire_recv_request request, again;
    struct why why = {0};
    if (wire_recv_request_decode(body, &why, &request)) {
        return;
    }
    for (uint32_t i = 0; i < request.block_count; i++) {
        IGNORE(wire_recv_request_page(&request, request.group_count - 1, i));
    }
    struct buf out;
    buf_init(&out, 4 * WIRE_BODY_SIZE_MAX);
    expect(!wire_recv_request_encode(&request, &why, &out));
    expect(!wire_recv_request_decode(buf_span(&out), &why, &again));
    expect(again.rid == request.rid &&
           again.group_count == request.group_count);
    buf_finish(&out);
}

static void try_result(struct span body)
{
    struct wire_result result;
    bool is_odd;
    if (wire_result_decode(body, NULL, &result, &is_odd)) {
        return;
    }
    struct buf out;
    buf_init(&out, WIRE_BODY_SIZE_MAX);
    wire_result_encode(&result, &out);
    for (uint32_t group = 0; group < result.group_count; group++) {
        for (uint32_t i = 0; i < result.groups[group].digest_count; i++) {
            wire_result_digest_encode(wire_result_digest(&result, group, i),
                                      &out);
        }
    }
    /* An unknown code is all that may differ. */
    expect(out.size == body.size);
    expect(!memcmp(out.data, body.data, 25));
    expect(!memcmp(out.data + 26, body.data + 26, out.size - 26));
    buf_finish(&out);
}

static void try_rank_info(struct span body)
{
    struct wire_rank_info info, again;
    struct why why = {0};
    if (wire_rank_info_decode(body, &why, &info)) {
        return;
    }
    struct buf out;
    buf_init(&out, WIRE_BODY_SIZE_MAX);
    wire_rank_info_encode(&info, &out);
    expect(!wire_rank_info_decode(buf_span(&out), &why, &again));
    expect(!wire_rank_info_compare(&info, &again, &why));
    buf_finish(&out);
}

static void try_aux(struct span body)
{
    struct wire_aux aux;
    if (wire_aux_decode(body, NULL, &aux)) {
        return;
    }
    struct buf out;
    buf_init(&out, WIRE_BODY_SIZE_MAX);
    wire_aux_encode(&aux, &out);
    expect(span_equals(buf_span(&out), body));
    buf_finish(&out);
}

/* Each decodes to what encodes to the same bytes. */
static void try_bounce(struct span body)
{
    struct wire_bounce_want want;
    struct wire_bounce_grant grant;
    struct wire_bounce_data data;
    struct wire_bounce_ack ack;
    struct buf out;
    buf_init(&out, WIRE_BODY_SIZE_MAX);
    if (!wire_bounce_want_decode(body, NULL, &want)) {
        wire_bounce_want_encode(&want, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_reset(&out);
    if (!wire_bounce_grant_decode(body, NULL, &grant)) {
        wire_bounce_grant_encode(&grant, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_reset(&out);
    if (!wire_bounce_data_decode(body, NULL, &data)) {
        wire_bounce_data_encode(&data, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_reset(&out);
    if (!wire_bounce_ack_decode(body, NULL, &ack)) {
        wire_bounce_ack_encode(&ack, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_finish(&out);
}

/* The same, of what comes before anything else. */
static void try_greeting(struct span body)
{
    struct wire_greet greet;
    struct wire_greeted greeted;
    uint8_t proof[WIRE_PROOF_SIZE];
    struct buf out;
    buf_init(&out, WIRE_BODY_SIZE_MAX);
    if (!wire_greet_decode(body, NULL, &greet)) {
        wire_greet_encode(&greet, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_reset(&out);
    if (!wire_greeted_decode(body, NULL, &greeted)) {
        wire_greeted_encode(&greeted, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_reset(&out);
    if (!wire_proof_decode(body, NULL, proof)) {
        wire_proof_encode(proof, &out);
        expect(span_equals(buf_span(&out), body));
    }
    buf_finish(&out);
}

static void try_body(struct span body)
{
    struct wire_cancel cancel;
    struct why why;
    IGNORE(wire_cancel_decode(body, NULL, &cancel));
    wire_refusal_decode(body, &why);
    expect(strlen(why.text) < sizeof(why.text));
    struct span rest = body;
    while (rest.size > 0 && !wire_unpack_skip(&rest)) {
    }
    try_request(body);
    try_result(body);
    try_rank_info(body);
    try_aux(body);
    try_bounce(body);
    try_greeting(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_header header;
    struct span body;
    size_t used;
    struct why why = {0};
    try_body(span_of(data, size));
    expect(wire_frame_size(span_of(data, size)) >= WIRE_HEADER_SIZE);
    if (!wire_frame_decode(span_of(data, size), &why, &header, &body, &used)) {
        expect(used == wire_frame_size(span_of(data, size)));
        expect(used <= size && body.size <= WIRE_BODY_SIZE_MAX);
        try_body(body);
    }
    return 0;
}
