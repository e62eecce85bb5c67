#include "unit/base/test.h"

#include "../api/golden.h"
#include "serve/cache_events.h"

/* Ids 1 to 10 in blocks of 4, as serve.md 3.3 has them. */
static const int32_t TOKENS[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static struct kv_event record(uint64_t id, enum kv_event_kind kind,
                              uint8_t number)
{
    return (struct kv_event){
        .id = id, .kind = kind, .key = {{number}}, .priority = 35};
}

static struct kv_event stored(uint64_t id, uint8_t number, uint8_t parent)
{
    struct kv_event event = record(id, KV_EVENT_STORED, number);
    event.has_parent = parent != 0;
    event.parent = (struct prefix_key){{parent}};
    event.token_count = 4;
    event.tokens = TOKENS + (parent == 0 ? 0 : 4);
    return event;
}

static struct serve_cache_events events_of(enum prefix_hash_algo algo)
{
    return (struct serve_cache_events){
        .names = serve_block_names_create(algo, 64),
        .algo = algo,
        .windows = {1000, 16},
        .level_count = 2,
    };
}

static void print(struct serve_cache_events *events,
                  const struct kv_event *told, uint32_t count, struct buf *out)
{
    struct engine_cache_batch batch = {
        .id_last = told[count - 1].id,
        .told_count = count,
        .told = (struct kv_event *)told,
    };
    serve_cache_events_print(events, &batch, false, out);
    buf_add_byte(out, '\n');
}

static void print_listing(struct serve_cache_events *events,
                          const struct kv_event *listed, uint32_t count,
                          struct buf *out)
{
    struct engine_cache_batch batch = {
        .id_last = 20,
        .has_listing = true,
        .listed_count = count,
        .listed = (struct kv_event *)listed,
    };
    serve_cache_events_print(events, &batch, true, out);
    buf_add_byte(out, '\n');
}

/* Each kind once, blocks of one chain in one event, two life cycles. */
static void print_kinds(struct serve_cache_events *events, struct buf *out)
{
    struct kv_event told[9] = {
        record(1, KV_EVENT_CREATED, 0),
        record(4, KV_EVENT_GAP, 0),
        stored(5, 1, 0),
        stored(5, 2, 1),
        stored(6, 2, 1),
        record(7, KV_EVENT_UPDATED, 2),
        record(8, KV_EVENT_REMOVED, 2),
        record(8, KV_EVENT_REMOVED, 1),
        stored(9, 8, 7),
    };
    told[0].blocks[0] = 512;
    told[0].blocks[1] = 64;
    told[1].lost = 3;
    told[3].is_continued = true;
    told[4].life = 1;
    told[4].level = 1;
    told[5].level = 1;
    told[5].priority = 80;
    told[5].priority_before = 35;
    told[7].is_continued = true;
    print(events, told, 9, out);
}

static void print_all(enum prefix_hash_algo algo, struct buf *out)
{
    struct serve_cache_events events = events_of(algo);
    print_kinds(&events, out);
    struct kv_event salted = stored(10, 5, 0);
    salted.has_salt = true;
    salted.salt = 123;
    events.with_tokens = true;
    print(&events, &salted, 1, out);
    events.with_tokens = false;
    struct kv_event listed[3] = {salted, stored(0, 1, 0), stored(0, 2, 1)};
    print_listing(&events, listed, 3, out);
    serve_block_names_destroy(events.names);
}

/* [serve T42] Proof: the bytes of test/golden/openai/cache_events.txt, which a
 * person has read; the hashes in it are those of serve.md 3.3, the block that
 * nobody can name is not there. */
static void the_lists_are_as_in_the_file(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 1 << 20);
    for (int algo = 0; algo < PREFIX_HASH_ALGO_COUNT; algo++) {
        print_all((enum prefix_hash_algo)algo, &out);
    }
    assert_non_null(strstr(buf_string(&out), "\"block_hash\":924206229973855"));
    assert_non_null(strstr(buf_string(&out), "\"parent_hash\":null,"
                                             "\"cache_salt_id\":123,"));
    assert_non_null(strstr(buf_string(&out),
                           "\"block_hash\":\"d640331a8566b89199962bb4552f386a"
                           "57361738fef5a92ac3d8a5c7bfbb4231\""));
    golden_is("test/golden/openai/cache_events.txt", buf_span(&out));
    buf_finish(&out);
}

/* Proof: what nobody read shows as a gap of as many events, once, and what came
 * in it is known all the same. */
static void an_unread_batch_becomes_a_gap(void **state)
{
    (void)state;
    struct buf out;
    struct serve_cache_events events = events_of(PREFIX_V1_BLOCK_KEY);
    struct kv_event unread[3] = {stored(1, 1, 0), stored(1, 2, 1),
                                 record(2, KV_EVENT_UPDATED, 1)};
    unread[1].is_continued = true;
    struct engine_cache_batch batch = {
        .id_last = 2, .told_count = 3, .told = unread};
    serve_cache_events_skip(&events, &batch);
    assert_int_equal(events.lost, 2);
    buf_init(&out, 1 << 16);
    const struct kv_event removed = record(3, KV_EVENT_REMOVED, 1);
    print(&events, &removed, 1, &out);
    assert_non_null(strstr(buf_string(&out), "[{\"event_id\":2,"));
    assert_non_null(strstr(buf_string(&out), "{\"type\":\"gap\",\"lost\":2}"));
    assert_non_null(
        strstr(buf_string(&out), "\"block_hashes\":[924206229973855]"));
    buf_reset(&out);
    const struct kv_event other = record(4, KV_EVENT_REMOVED, 2);
    print(&events, &other, 1, &out);
    assert_null(strstr(buf_string(&out), "gap"));
    buf_finish(&out);
    serve_block_names_destroy(events.names);
}

/* Proof: after a gap of the cache's own the books are those of the listing that
 * came along, which is not shown. */
static void a_gap_brings_the_books_up_to_date(void **state)
{
    (void)state;
    struct buf out;
    struct serve_cache_events events = events_of(PREFIX_V1_BLOCK_KEY);
    struct kv_event told[2] = {record(6, KV_EVENT_GAP, 0), stored(7, 2, 1)};
    struct kv_event listed[2] = {stored(0, 1, 0), stored(0, 2, 1)};
    struct engine_cache_batch batch = {.id_last = 7,
                                       .told_count = 2,
                                       .told = told,
                                       .has_listing = true,
                                       .listed_count = 2,
                                       .listed = listed};
    told[0].lost = 6;
    buf_init(&out, 1 << 16);
    serve_cache_events_print(&events, &batch, false, &out);
    assert_non_null(strstr(buf_string(&out), "\"lost\":6"));
    assert_non_null(
        strstr(buf_string(&out), "\"parent_hash\":924206229973855"));
    assert_null(strstr(buf_string(&out), "\"block_hash\":924206229973855"));
    buf_reset(&out);
    const struct kv_event removed = record(8, KV_EVENT_REMOVED, 1);
    print(&events, &removed, 1, &out);
    assert_non_null(strstr(buf_string(&out), "[924206229973855]"));
    buf_finish(&out);
    serve_block_names_destroy(events.names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lists_are_as_in_the_file),
        cmocka_unit_test(an_unread_batch_becomes_a_gap),
        cmocka_unit_test(a_gap_brings_the_books_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
