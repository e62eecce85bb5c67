#pragma once
/* transfer: moves the KV pages of a prompt from the worker that computed them
 * into the pool of the worker that decodes, and proves when nobody touches the
 * pages any more (transfer.md; design decisions 3 to 6 and 10).
 *
 *   engine ==port.h==> [ sessions | control connections | backend ] ~~~> peers
 *
 * Runs on the loop it is given; node starts the thread that runs it. Call
 * everything here from that thread, or while no thread runs the loop; the
 * exceptions say so. Memory, tables and queues are bounded by the options.
 *
 * What the reports say beyond port.h:
 *   send     T|Q done and pulled; T|F(|C)|Q not; T|F without Q first when a
 *            write is still under way. A session ends once: slices that the
 *            engine posted before it heard of the end have no answer. The first
 *            one under a rid whose session has ended is T|F|Q.
 *            Slices posted while others wait or are written leave together.
 *   receive  T|Q all pages there, counted and their digests right; T|F(|C)
 *            first when the sender may still write, Q with its proof; U when
 *            `grace_ns` after that there was none yet (it may still come). */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kv/view.h"
#include "transfer/backend.h"
#include "transfer/port.h"

struct io_allow;
struct io_loop;
struct transfer;
struct transfer_identity;
struct transfer_peers;

/* The pages of one life cycle. */
struct transfer_group {
    struct kv_pool_view pool; /* inside the options' memory */
    struct kv_life life;
    const uint16_t *layers; /* (pool.layout.layer_count) global ids; NULL: not
                               told, and then not compared with the peer's */
};

/* By what two workers know that they hold the same model and tokenizer. */
struct transfer_marks {
    uint8_t model[32], tokenizer[32];
};

/* A part of the memory, outside the pools, through which writes of many tiny
 * pieces go packed (transfer/bounce.h). */
struct transfer_bounce_options {
    uint64_t offset, size; /* size 0: none */
    uint32_t granule; /* 0: 1 MiB; a power of two */
    uint32_t chunk_max; /* 0: 32 MiB; never over half of what is usable */
    uint64_t patience_ns; /* for a first grant, then the plain way; 0: 0.2 s */
    bool is_forced; /* for tests: each write, whatever it gains */
};

struct transfer_options {
    struct io_loop *loop;
    struct transfer_backend *backend; /* the caller's, outlives the transfer */
    uint8_t *memory; /* of transfer_backend_alloc, with all pools */
    size_t memory_size;
    /* Peers must have the same life cycles, in any order, with blocks of one
     * number of tokens that divides ours or is a multiple (transfer.md 4.5). */
    uint32_t group_count; /* 1 .. TRANSFER_GROUP_COUNT_MAX */
    struct transfer_group groups[TRANSFER_GROUP_COUNT_MAX];
    struct transfer_bounce_options bounce;
    struct transfer_marks marks; /* peers must have the same */
    uint64_t incarnation; /* random, not 0, the same for the backend */
    /* That all instances hold, proven by both ends of each control connection;
     * empty: none, which is proven too. The caller's, outlives the transfer. */
    struct span key;
    uint64_t chance; /* 0: the system's; else nonces follow from it, for
                        simulations */
    /* Who we say we are (transfer/process.h); NULL: this process. */
    const struct transfer_identity *identity;
    const char *host; /* to listen on */
    const char *advertise; /* for others to connect to; NULL: host */
    uint16_t listen_port; /* 0: any free one */
    const struct io_allow *allow; /* the only hosts that are connected to and
                                     taken from; NULL: all. The caller's */
    struct transfer_peers *peers; /* is told of all links; the caller's; NULL:
                                     nobody wants to know */
    struct transfer_port port;
    /* The commands mailbox's, not attached to a loop yet. It is for this
     * transfer alone: once the transfer is gone it must not be woken. */
    struct io_waker *commands_waker;
    uint32_t send_count_max; /* sessions at once; 0: 256 */
    uint32_t receive_count_max; /* 0: 256 */
    uint32_t peer_count_max; /* connections each way; 0: 64 */
    uint64_t grace_ns; /* 0: 60 s */
    uint64_t advert_ttl_ns; /* 0: 120 s (transfer.md 2.7) */
    uint64_t heartbeat_ns; /* 0: 1 s; 10 missed close the connection */
};

/* Listens at once. ERR_INVALID names the option; ERR_IO: the port. */
MUST_USE enum err transfer_create(const struct transfer_options *options,
                                  struct why *why,
                                  struct transfer **transfer_out);
/* Only while no thread runs the loop, which this call turns until the
 * connections are closed. ERR_BUSY and no effect while a session is undrained:
 * its pages may still be touched (transfer.md I32). NULL is fine. */
MUST_USE enum err transfer_destroy(struct transfer *transfer);

/* What the end of the process does to it: connections are gone and with them
 * all that was known of sessions, whatever anybody touches. For simulations of
 * a crash; the backend has been told before and gives no write back. */
void transfer_abandon(struct transfer *transfer);

/* "tcp://host:port" for disaggregated_params; valid for the transfer's life,
 * any thread. */
const char *transfer_endpoint(const struct transfer *transfer);

/* Any thread; each number is exact at some moment of the last turn. */
struct transfer_stats {
    uint64_t sends_started, sends_done, sends_failed;
    uint64_t receives_started, receives_done, receives_failed;
    uint64_t sent_bytes, received_bytes;
    uint64_t sent_slices, received_slices; /* as they went over the wire */
    /* Of those, through the arenas: writes that ended well, bytes of pages. */
    uint64_t sent_bounced_writes, sent_bounced_bytes, received_bounced_bytes;
    uint64_t bounce_live_bytes, bounce_quarantined_bytes; /* of the arena now */
    uint64_t integrity_failures; /* digests that did not match */
    uint64_t peers_refused, connections_dropped, frames_dropped;
    uint64_t peers_denied; /* their internal key is not ours */
    uint64_t strangers_cut; /* they never said who they are */
    uint32_t sends, receives; /* sessions not yet quiet */
    uint32_t adverts; /* stored without a session */
    uint32_t peers; /* open connections, both ways */
};
void transfer_stats_read(const struct transfer *transfer,
                         struct transfer_stats *stats_out);
