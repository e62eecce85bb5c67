#include "transfer/write_queue.h"

#include "base/check.h"
#include "transfer/copy.h"

void transfer_write_queue_push(struct transfer_write_queue *queue,
                               struct transfer_write *write)
{
    write->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = write;
    } else {
        queue->first = write;
    }
    queue->last = write;
}

struct transfer_write *transfer_write_queue_pop(
    struct transfer_write_queue *queue)
{
    struct transfer_write *write = queue->first;
    if (write != NULL) {
        queue->first = write->next;
        queue->last = write->next != NULL ? queue->last : NULL;
        write->next = NULL;
    }
    return write;
}

static void check_inside(uint64_t offset, uint64_t size, size_t pool_size)
{
    CHECK(offset <= pool_size);
    CHECK(size <= pool_size - offset);
}

static void copy_piece(struct transfer_piece *piece,
                       const struct transfer_target *pools, bool with_digest,
                       const uint8_t *ahead)
{
    uint8_t *to = pools->target_base + piece->target_offset;
    const uint8_t *from = pools->source_base + piece->source_offset;
    if (with_digest) {
        piece->crc32c = transfer_copy(to, from, piece->size, ahead);
    } else {
        transfer_copy_plain(to, from, piece->size, ahead);
    }
}

bool transfer_write_step(struct transfer_write *write,
                         const struct transfer_target *target)
{
    CHECK(target->target_base != NULL);
    uint64_t copied = 0;
    while (write->cursor < write->piece_count && copied < TRANSFER_STEP_SIZE) {
        struct transfer_piece *piece = &write->pieces[write->cursor++];
        check_inside(piece->source_offset, piece->size, target->source_size);
        check_inside(piece->target_offset, piece->size, target->target_size);
        bool is_last = write->cursor == write->piece_count;
        copy_piece(piece, target, !write->without_digest,
                   target->source_base + (is_last ? piece->source_offset
                                                  : piece[1].source_offset %
                                                        target->source_size));
        copied += piece->size;
    }
    transfer_copy_fence();
    return write->cursor == write->piece_count;
}
