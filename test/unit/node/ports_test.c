/* node/ports: a taken port is told before anything else, by the option's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "io/socket.h"
#include "node/ports.h"

static uint16_t take_port(int *fd_out)
{
    struct io_socket_listen at = {.host = "127.0.0.1"};
    assert_int_equal(io_socket_listen(&at, NULL, fd_out), OK);
    return io_socket_port(*fd_out);
}

/* Proof: each port of transfers that is taken is named with its key and number,
 * the one of a backend that is not used is not looked at, and a free one is free
 * afterwards too. */
static void a_taken_port_is_named(void **state)
{
    struct config_worker config;
    struct why why = {""};
    char wanted[100];
    int fd;
    (void)state;
    uint16_t port = take_port(&fd);
    config_worker_init(&config);
    assert_int_equal(node_ports_check(&config, &why), OK);
    config.transfer_port = port;
    assert_int_equal(node_ports_check(&config, &why), ERR_IO);
    snprintf(wanted, sizeof(wanted), "`transfer_port`: port %u is in use",
             port);
    assert_string_equal(why.text, wanted);
    config.transfer_port = 0;
    config.data_port = port;
    assert_int_equal(node_ports_check(&config, &why), ERR_IO);
    snprintf(wanted, sizeof(wanted),
             "`cache_transceiver_config.port`: port %u is in use", port);
    assert_string_equal(why.text, wanted);
    strcpy(config.backend, "ucx");
    assert_int_equal(node_ports_check(&config, &why), OK);
    io_socket_reset(fd);
    config.transfer_port = port;
    assert_int_equal(node_ports_check(&config, &why), OK);
    assert_int_equal(node_ports_check(&config, &why), OK);
}

/* Proof: only what a port is the reason of gets a port's name. */
static void other_errors_keep_their_words(void **state)
{
    struct why why = {"port 5 is in use"};
    (void)state;
    assert_int_equal(node_ports_name(ERR_IO, "port", &why), ERR_IO);
    assert_string_equal(why.text, "`port`: port 5 is in use");
    strcpy(why.text, "host x is no address of this machine");
    assert_int_equal(node_ports_name(ERR_IO, "port", &why), ERR_IO);
    assert_string_equal(why.text, "host x is no address of this machine");
    assert_int_equal(node_ports_name(OK, "port", NULL), OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(other_errors_keep_their_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
