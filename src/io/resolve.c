#include "io/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "io/tcp.h"

static struct io_endpoint endpoint_v4(struct in_addr host, uint16_t port)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
    struct io_endpoint endpoint = {.size = sizeof(v4)};
    memcpy(&endpoint.address, &v4, sizeof(v4));
    return endpoint;
}

static struct io_endpoint endpoint_v6(struct in6_addr host, uint16_t port)
{
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = host};
    struct io_endpoint endpoint = {.size = sizeof(v6)};
    memcpy(&endpoint.address, &v6, sizeof(v6));
    return endpoint;
}

bool io_resolve_digits(const char *host, uint16_t port,
                       struct io_endpoint *endpoint_out)
{
    const char *digits = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, digits, &v4) == 1) {
        *endpoint_out = endpoint_v4(v4, port);
        return true;
    }
    if (inet_pton(AF_INET6, digits, &v6) == 1) {
        *endpoint_out = endpoint_v6(v6, port);
        return true;
    }
    return false;
}

enum err io_resolve_check(const char *host, struct why *why)
{
    if (host == NULL || host[0] == 0) {
        return why_say(why, ERR_INVALID, "host: is empty");
    }
    if (strlen(host) > 255) {
        return why_say(why, ERR_INVALID, "host: is longer than 255 bytes");
    }
    return OK;
}

enum err io_resolve_name(const char *name, struct why *why,
                         struct io_addresses *addresses_out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    uint32_t count = 0;
    int code = getaddrinfo(name, NULL, &hints, &found);
    if (code != 0) {
        return why_say(why, ERR_INVALID, "host \"%s\": %s", name,
                       gai_strerror(code));
    }
    for (struct addrinfo *one = found; one != NULL && count < IO_ADDRESS_MAX;
         one = one->ai_next) {
        struct io_endpoint endpoint = {.size = one->ai_addrlen};
        CHECK(endpoint.size <= sizeof(endpoint.address));
        memcpy(&endpoint.address, one->ai_addr, endpoint.size);
        addresses_out->list[count++] = endpoint;
    }
    freeaddrinfo(found);
    addresses_out->count = count;
    return OK;
}

enum err io_resolve_all(const char *host, struct why *why,
                        struct io_addresses *addresses_out)
{
    enum err err = io_resolve_check(host, why);
    if (err) {
        return err;
    }
    if (io_resolve_digits(host, 0, &addresses_out->list[0])) {
        addresses_out->count = 1;
        return OK;
    }
    return io_resolve_name(host, why, addresses_out);
}

void io_endpoint_set_port(struct io_endpoint *endpoint, uint16_t port)
{
    /* It lies at the same place in both families. */
    uint16_t port_on_wire = htons(port);
    struct sockaddr_in *in = (struct sockaddr_in *)&endpoint->address;
    memcpy(&in->sin_port, &port_on_wire, sizeof(port_on_wire));
}

uint16_t io_endpoint_port(const struct io_endpoint *endpoint)
{
    uint16_t port_on_wire;
    const struct sockaddr_in *in =
        (const struct sockaddr_in *)&endpoint->address;
    memcpy(&port_on_wire, &in->sin_port, sizeof(port_on_wire));
    return ntohs(port_on_wire);
}

void io_endpoint_host(const struct io_endpoint *endpoint,
                      char text_out[IO_ENDPOINT_TEXT_SIZE])
{
    bool is_v6 = endpoint->address.ss_family == AF_INET6;
    const void *bytes =
        is_v6 ? (const void *)&((const struct sockaddr_in6 *)&endpoint->address)
                    ->sin6_addr
              : (const void *)&((const struct sockaddr_in *)&endpoint->address)
                    ->sin_addr;
    snprintf(text_out, IO_ENDPOINT_TEXT_SIZE, "?");
    inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes, text_out,
              IO_ENDPOINT_TEXT_SIZE);
}

void io_endpoint_text(const struct io_endpoint *endpoint,
                      char text_out[IO_ENDPOINT_TEXT_SIZE])
{
    char host[IO_ENDPOINT_TEXT_SIZE];
    bool is_v6 = endpoint->address.ss_family == AF_INET6;
    io_endpoint_host(endpoint, host);
    snprintf(text_out, IO_ENDPOINT_TEXT_SIZE, is_v6 ? "[%.45s]:%u" : "%.45s:%u",
             host, io_endpoint_port(endpoint));
}

static bool parse_port(struct span text, uint16_t *port_out)
{
    uint32_t port = 0;
    if (text.size == 0 || text.size > 5) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        port = port * 10 + (text.data[i] - '0');
    }
    *port_out = (uint16_t)port;
    return port > 0 && port <= 65535;
}

static bool is_host_byte(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' ||
           byte == '_';
}

/* The end of the host part: the index of the colon before the port. */
static bool find_host(struct span text, struct span *host_out,
                      struct span *port_out)
{
    bool is_bracketed = span_starts_with(text, "[");
    size_t begin = is_bracketed ? 1 : 0;
    size_t end = begin;
    while (end < text.size && (is_host_byte(text.data[end]) ||
                               (is_bracketed && text.data[end] == ':'))) {
        end++;
    }
    *host_out = span_slice(text, begin, end);
    struct span rest = span_slice(text, end, text.size);
    const char *separator = is_bracketed ? "]:" : ":";
    if (host_out->size == 0 || !span_starts_with(rest, separator)) {
        return false;
    }
    *port_out = span_slice(rest, strlen(separator), rest.size);
    return true;
}

enum err io_address_parse(struct span text, struct why *why,
                          struct io_address *address_out)
{
    struct span rest = text;
    if (span_starts_with(text, "http://")) {
        rest = span_slice(text, 7, text.size);
    } else if (span_starts_with(text, "tcp://")) {
        rest = span_slice(text, 6, text.size);
    }
    struct span host;
    struct span port_text;
    struct io_address address = {.port = 0};
    if (!find_host(rest, &host, &port_text) ||
        !parse_port(port_text, &address.port) ||
        host.size >= sizeof(address.host)) {
        return why_say(why, ERR_INVALID, "\"%.*s\" is not host:port",
                       (int)(text.size > 200 ? 200 : text.size),
                       text.size == 0 ? "" : (const char *)text.data);
    }
    memcpy(address.host, host.data, host.size);
    *address_out = address;
    return OK;
}
