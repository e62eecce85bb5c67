#include "wire/cancel.h"

#include "wire/bytes.h"

void wire_cancel_encode(const struct wire_cancel *cancel, struct buf *out)
{
    wire_write_u64(out, (uint64_t)cancel->receiver_slice);
    wire_write_u8(out, cancel->reason);
}

enum err wire_cancel_decode(struct span body, struct why *why,
                            struct wire_cancel *cancel_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_cancel cancel;
    cancel.receiver_slice = (int64_t)wire_read_u64(&reader);
    cancel.reason = wire_read_u8(&reader);
    if (!wire_reader_is_done(&reader) || cancel.receiver_slice < 0) {
        return why_say(why, ERR_CORRUPT, "cancel: %zu bytes", body.size);
    }
    *cancel_out = cancel;
    return OK;
}
