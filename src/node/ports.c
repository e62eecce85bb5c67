#include "node/ports.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "io/socket.h"

enum err node_ports_name(enum err code, const char *key, struct why *why)
{
    bool is_port = code == ERR_IO && why != NULL &&
                   strncmp(why->text, "port ", strlen("port ")) == 0;
    return is_port ? why_prefix(why, code, "`%s`", key) : code;
}

static enum err check(const char *host, uint32_t port, const char *key,
                      struct why *why)
{
    struct why refusal = {""};
    int fd = -1;
    if (port == 0) {
        return OK;
    }
    struct io_socket_listen at = {.host = host, .port = (uint16_t)port};
    enum err code = io_socket_listen(&at, &refusal, &fd);
    if (code == OK) {
        io_socket_reset(fd);
        return OK;
    }
    node_ports_name(code, key, &refusal);
    return why_say(why, code, "%s", refusal.text);
}

static bool uses_data_port(const struct config_worker *config)
{
    return strcmp(config->backend, "tcp") == 0 ||
           strcmp(config->backend, "auto") == 0;
}

static void warn_of_host(const struct config_worker *config)
{
    bool is_any =
        strcmp(config->host, "0.0.0.0") == 0 || strcmp(config->host, "::") == 0;
    if (is_any && config->advertise[0] == 0) {
        log_warn("worker",
                 "--host %s without --advertise: peers on other hosts are told "
                 "to fetch KV from %s, which is themselves",
                 config->host, config->host);
    }
}

enum err node_ports_check(const struct config_worker *config, struct why *why)
{
    warn_of_host(config);
    enum err code =
        check(config->host, config->transfer_port, "transfer_port", why);
    if (code == OK && uses_data_port(config)) {
        code = check(config->host, config->data_port,
                     "cache_transceiver_config.port", why);
    }
    return code;
}

void node_ports_warn(const struct config_worker *config)
{
    struct why why = {""};
    enum err code = node_ports_check(config, &why);
    code = code ? code : check(config->host, config->port, "port", &why);
    if (code != OK) {
        log_warn("worker", "not to be had now: %s", why.text);
    }
}

void node_ports_say(const char *what, const char *host, uint16_t port)
{
    bool is_v6 = strchr(host, ':') != NULL && host[0] != '[';
    printf(is_v6 ? "%s http://[%s]:%u\n" : "%s http://%s:%u\n", what, host,
           port);
    fflush(stdout);
}
