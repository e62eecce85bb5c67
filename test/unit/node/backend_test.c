/* node/backend: each name of the config gives its body, and a hidden switch
 * its faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/backend.h"
#include "transfer/rdma_devices.h"

static void each_name_opens_its_body(void **state)
{
    (void)state;
    static const char *const NAMES[][2] = {{"DEFAULT", "auto"},
                                           {"UCX", "ucx"},
                                           {"TCP", "tcp"},
                                           {"tcp", "tcp"},
                                           {"inproc", "inproc"}};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct config_worker config;
        struct node_backend node = {0};
        struct why why = {""};
        config_worker_init(&config);
        assert_int_equal(
            config_worker_set(&config, "backend", NAMES[i][0], &why), OK);
        assert_int_equal(
            node_backend_open(&config, 7, span_of_string("key"), &why, &node),
            OK);
        assert_string_equal(transfer_backend_name(node.backend), NAMES[i][1]);
        struct buf text;
        buf_init(&text, 64);
        node_backend_print(&node, &text);
        assert_string_equal(buf_string(&text), "[]");
        buf_finish(&text);
        node_backend_close(&node);
        node_backend_close(&node);
    }
}

/* What cannot be names the key and the value; what is no name is refused by
 * the config with both. */
static void failures_name_key_and_value(void **state)
{
    (void)state;
    struct config_worker config;
    struct node_backend node = {0};
    struct why why = {""};
    config_worker_init(&config);
    config_worker_init(&config);
    assert_int_equal(config_worker_set(&config, "backend", "RDMA", &why),
                     ERR_INVALID);
    assert_string_equal(why.text, "must be one of DEFAULT|UCX|TCP|auto|ucx|tcp|"
                                  "rdma|inproc, not 'RDMA'");
    assert_int_equal(config_worker_set(&config, "backend", "tcp", &why), OK);
    strcpy(config.host, "192.0.2.1");
    assert_int_not_equal(
        node_backend_open(&config, 7, span_of_string(""), &why, &node), OK);
    assert_non_null(strstr(why.text, "cache_transceiver_config.backend tcp: "));
    node_backend_close(&node);
}

/* Where the host has no adapter rdma is one error; where it has some it is
 * shared memory with rdma, never rdma over a transport of another kind; and
 * never without a key. */
static void rdma_needs_a_device_and_a_key(void **state)
{
    (void)state;
    struct buf names;
    buf_init(&names, 4096);
    bool has_device = rdma_devices_find(&names) > 0;
    buf_finish(&names);
    struct config_worker config;
    struct node_backend node = {0};
    struct why why = {""};
    config_worker_init(&config);
    assert_int_equal(config_worker_set(&config, "backend", "rdma", &why), OK);
    assert_int_equal(node_backend_check(&config, &why),
                     has_device ? OK : ERR_UNSUPPORTED);
    enum err err =
        node_backend_open(&config, 7, span_of_string("key"), &why, &node);
    if (has_device && !err) {
        assert_string_equal(transfer_backend_name(node.backend), "auto");
        assert_non_null(
            strstr(transfer_backend_config(node.backend), "TLS=rc"));
    } else if (!has_device) {
        assert_int_equal(err, ERR_UNSUPPORTED);
        assert_string_equal(why.text, "cache_transceiver_config.backend rdma: "
                                      "rdma: no RDMA device");
    }
    config_worker_init(&config);
    assert_int_equal(node_backend_check(&config, &why), OK);
    assert_int_equal(config_worker_set(&config, "backend", "rdma", &why), OK);
    node_backend_close(&node);
    assert_int_not_equal(
        node_backend_open(&config, 7, span_of_string(""), &why, &node), OK);
    node_backend_close(&node);
}

/* corrupt_ppm of a million: every write lands wrong by one byte. */
static void the_switch_corrupts(void **state)
{
    (void)state;
    struct config_worker config;
    struct node_backend node = {0};
    config_worker_init(&config);
    assert_int_equal(config_worker_set(&config, "backend", "inproc", NULL), OK);
    assert_int_equal(
        config_worker_set(&config, "fault_corrupt_ppm", "1000000", NULL), OK);
    assert_int_equal(
        node_backend_open(&config, 7, span_of_string(""), NULL, &node), OK);
    void *pool;
    struct transfer_backend_peer *self;
    struct buf blob;
    buf_init(&blob, 1024);
    assert_int_equal(transfer_backend_alloc(node.backend, 256, NULL, &pool),
                     OK);
    assert_int_equal(
        transfer_backend_export(node.backend, pool, 256, NULL, &blob), OK);
    assert_int_equal(transfer_backend_peer_open(node.backend, buf_span(&blob),
                                                256, NULL, &self),
                     OK);
    memset(pool, 5, 128);
    struct transfer_piece piece = {0, 128, 128, 0};
    struct transfer_write write = {
        .peer = self, .pieces = &piece, .piece_count = 1};
    transfer_backend_write(node.backend, &write);
    bool is_busy;
    while (transfer_backend_poll(node.backend, &is_busy) == NULL) {
    }
    assert_int_not_equal(memcmp(pool, (uint8_t *)pool + 128, 128), 0);
    transfer_backend_peer_close(self);
    transfer_backend_free(node.backend, pool);
    buf_finish(&blob);
    node_backend_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_opens_its_body),
        cmocka_unit_test(failures_name_key_and_value),
        cmocka_unit_test(rdma_needs_a_device_and_a_key),
        cmocka_unit_test(the_switch_corrupts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
