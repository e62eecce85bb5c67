#include "io/allow.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "io/resolve.h"

enum { NAME_SIZE = 256, ADDRESS_SIZE = 16, V4_AT = 12 };

/* All addresses are of 16 bytes; IPv4 lies behind the prefix that maps it. */
struct entry {
    uint8_t bytes[ADDRESS_SIZE];
    uint32_t bit_count; /* that must be the same */
    char name[NAME_SIZE]; /* "": an address */
};

struct io_allow {
    bool is_check; /* names are not looked up */
    uint32_t count, capacity;
    struct entry entries[];
};

static bool read_address(const char *text, uint8_t bytes[ADDRESS_SIZE],
                         bool *is_v4_out)
{
    static const uint8_t MAPPED[V4_AT] = {[10] = 0xff, [11] = 0xff};
    memcpy(bytes, MAPPED, sizeof(MAPPED));
    if (inet_pton(AF_INET, text, bytes + V4_AT) == 1) {
        *is_v4_out = true;
        return true;
    }
    *is_v4_out = false;
    return inet_pton(AF_INET6, text, bytes) == 1;
}

static bool has_prefix(const uint8_t *bytes, const uint8_t *prefix,
                       uint32_t bit_count)
{
    uint32_t whole = bit_count / 8;
    uint32_t rest = bit_count % 8;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return memcmp(bytes, prefix, whole) == 0 &&
           (rest == 0 || ((bytes[whole] ^ prefix[whole]) & mask) == 0);
}

static bool has_host_bits(const struct entry *entry)
{
    for (uint32_t bit = entry->bit_count; bit < 8 * ADDRESS_SIZE; bit++) {
        if (entry->bytes[bit / 8] & 0x80u >> bit % 8) {
            return true;
        }
    }
    return false;
}

/* Digits alone, at most `most`. */
static bool read_bit_count(const char *text, uint32_t most, uint32_t *count_out)
{
    uint32_t count = 0;
    size_t size = strlen(text);
    if (size == 0 || size > 3) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        count = count * 10 + (uint32_t)(text[i] - '0');
    }
    *count_out = count;
    return count <= most;
}

static bool is_name(const char *text)
{
    bool has_letter = false;
    for (const char *c = text; *c != 0; c++) {
        bool is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool is_other =
            (*c >= '0' && *c <= '9') || *c == '-' || *c == '.' || *c == '_';
        if (!is_letter && !is_other) {
            return false;
        }
        has_letter |= is_letter;
    }
    return has_letter && text[0] != '-' && text[0] != '.';
}

static enum err no_room(struct why *why)
{
    return why_say(why, ERR_INVALID, "more than %d hosts", IO_ALLOW_ENTRY_MAX);
}

static enum err add(struct io_allow *allow, const struct entry *entry,
                    struct why *why)
{
    if (allow->count == allow->capacity) {
        return no_room(why);
    }
    allow->entries[allow->count++] = *entry;
    return OK;
}

static enum err add_name(struct io_allow *allow, const char *name,
                         struct why *why)
{
    struct entry entry = {.bit_count = 8 * ADDRESS_SIZE};
    snprintf(entry.name, sizeof(entry.name), "%s", name);
    struct io_addresses found = {.count = 0};
    enum err err = allow->is_check ? OK : io_resolve_all(name, why, &found);
    err = err ? err : add(allow, &entry, why);
    entry.name[0] = 0;
    for (uint32_t i = 0; i < found.count && !err; i++) {
        char text[IO_ENDPOINT_TEXT_SIZE];
        bool is_v4;
        io_endpoint_host(&found.list[i], text);
        if (read_address(text, entry.bytes, &is_v4)) {
            err = add(allow, &entry, why);
        }
    }
    return err;
}

/* "ADDRESS" or "ADDRESS/BITS", brackets taken off. */
static enum err add_block(struct io_allow *allow, const char *whole, char *text,
                          struct why *why)
{
    struct entry entry = {.bit_count = 8 * ADDRESS_SIZE};
    bool is_v4;
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = 0;
    }
    if (!read_address(text, entry.bytes, &is_v4)) {
        return why_say(why, ERR_INVALID,
                       "\"%s\" is neither an address, a block of them nor a "
                       "name",
                       whole);
    }
    uint32_t most = is_v4 ? 32 : 128;
    uint32_t bits = most;
    if (slash != NULL && !read_bit_count(slash + 1, most, &bits)) {
        return why_say(why, ERR_INVALID,
                       "\"%s\": behind the / goes a number up to %u", whole,
                       most);
    }
    entry.bit_count = is_v4 ? 8 * V4_AT + bits : bits;
    if (has_host_bits(&entry)) {
        return why_say(why, ERR_INVALID,
                       "\"%s\": bits behind the first %u are not zero", whole,
                       bits);
    }
    return add(allow, &entry, why);
}

static enum err add_entry(struct io_allow *allow, struct span text,
                          struct why *why)
{
    char whole[NAME_SIZE], bare[NAME_SIZE];
    if (text.size == 0) {
        return why_say(why, ERR_INVALID, "an entry is empty");
    }
    if (text.size >= sizeof(whole) || memchr(text.data, 0, text.size)) {
        return why_say(why, ERR_INVALID, "an entry is longer than a host");
    }
    snprintf(whole, sizeof(whole), "%.*s", (int)text.size,
             (const char *)text.data);
    snprintf(bare, sizeof(bare), "%s", whole);
    if (is_name(whole)) {
        return add_name(allow, whole, why);
    }
    char *close = strchr(bare, ']');
    if (bare[0] == '[' && close != NULL && strchr(bare, ':') != NULL) {
        /* [fd00::7] or [fd00::]/8 */
        memmove(close, close + 1, strlen(close));
        memmove(bare, bare + 1, strlen(bare));
    }
    return add_block(allow, whole, bare, why);
}

static struct span trimmed(struct span text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text = span_slice(text, 1, text.size);
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' ||
                             text.data[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

static enum err add_all(struct io_allow *allow, struct span text,
                        struct why *why)
{
    enum err err = OK;
    bool is_more = true;
    while (is_more && !err) {
        const uint8_t *comma =
            text.size == 0 ? NULL : memchr(text.data, ',', text.size);
        size_t size = comma == NULL ? text.size : (size_t)(comma - text.data);
        err = add_entry(allow, trimmed(span_slice(text, 0, size)), why);
        is_more = comma != NULL;
        text = span_slice(text, is_more ? size + 1 : size, text.size);
    }
    return err;
}

static struct io_allow *new_list(bool is_check)
{
    uint32_t capacity = IO_ALLOW_ENTRY_MAX;
    struct io_allow *allow =
        mem_new(sizeof(*allow) + capacity * sizeof(allow->entries[0]));
    allow->is_check = is_check;
    allow->capacity = capacity;
    return allow;
}

enum err io_allow_create(struct span text, struct why *why,
                         struct io_allow **allow_out)
{
    struct io_allow *allow = new_list(false);
    enum err err = add_all(allow, text, why);
    if (err) {
        io_allow_destroy(allow);
        return err;
    }
    *allow_out = allow;
    return OK;
}

enum err io_allow_check(struct span text, struct why *why)
{
    struct io_allow *allow = new_list(true);
    enum err err = add_all(allow, text, why);
    io_allow_destroy(allow);
    return err;
}

void io_allow_destroy(struct io_allow *allow)
{
    mem_free(allow);
}

bool io_allow_has(const struct io_allow *allow, const char *host)
{
    uint8_t bytes[ADDRESS_SIZE];
    bool is_v4;
    bool is_address = read_address(host, bytes, &is_v4);
    for (uint32_t i = 0; i < allow->count; i++) {
        const struct entry *entry = &allow->entries[i];
        bool is_same = entry->name[0] != 0
                           ? strcasecmp(entry->name, host) == 0
                           : is_address && has_prefix(bytes, entry->bytes,
                                                      entry->bit_count);
        if (is_same) {
            return true;
        }
    }
    return false;
}
