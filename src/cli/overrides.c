#include "cli/overrides.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static void key_of(const struct cli_overrides *overrides, const char *flag,
                   char key_out[CLI_KEY_SIZE])
{
    for (const struct cli_flag_key *at = overrides->keys; at->flag; at++) {
        if (strcmp(at->flag, flag) == 0) {
            snprintf(key_out, CLI_KEY_SIZE, "%s", at->key);
            return;
        }
    }
    snprintf(key_out, CLI_KEY_SIZE, "%s", flag);
    for (char *at = key_out; *at != 0; at++) {
        *at = *at == '-' ? '_' : *at;
    }
}

enum err cli_overrides_add(struct cli_overrides *overrides, const char *flag,
                           const char *value, struct why *why)
{
    if (overrides->count == CLI_OVERRIDE_COUNT_MAX) {
        return why_say(why, ERR_FULL, "given too often");
    }
    char *key = overrides->list[overrides->count].key;
    key_of(overrides, flag, key);
    enum err code = overrides->set(overrides->scratch, key, value, why);
    if (code == OK) {
        overrides->list[overrides->count].flag = flag;
        overrides->list[overrides->count++].value = value;
    }
    return code;
}

bool cli_overrides_has(const struct cli_overrides *overrides, const char *flag)
{
    for (uint32_t i = 0; i < overrides->count; i++) {
        if (strcmp(overrides->list[i].flag, flag) == 0) {
            return true;
        }
    }
    return false;
}

enum err cli_overrides_apply(const struct cli_overrides *overrides,
                             struct why *why, void *config)
{
    for (uint32_t i = 0; i < overrides->count; i++) {
        enum err code = overrides->set(config, overrides->list[i].key,
                                       overrides->list[i].value, why);
        if (code != OK) {
            return why_prefix(why, code, "--%s", overrides->list[i].flag);
        }
    }
    return OK;
}

static bool is_word_byte(char byte)
{
    return isalnum((unsigned char)byte) ||
           (byte != 0 && strchr("_-./", byte) != NULL);
}

/* Where `text` names `key`: in quotes, or bare when no plain word looks so.
 * `size_out` covers the quotes. NULL: it does not. */
static const char *find_key(const char *text, const char *key, size_t *size_out)
{
    size_t size = strlen(key);
    bool is_plain = strpbrk(key, "_.") == NULL;
    for (const char *at = text; (at = strstr(at, key)) != NULL; at++) {
        char before = at == text ? ' ' : at[-1];
        if (before == '`' && at[size] == '`') {
            *size_out = size + 2;
            return at - 1;
        }
        if (!is_plain && !is_word_byte(before) && !is_word_byte(at[size])) {
            *size_out = size;
            return at;
        }
    }
    return NULL;
}

static void name_one(const char *key, const char *flag, struct why *why)
{
    struct buf line;
    size_t size = 0;
    const char *rest = why->text;
    buf_init(&line, 2 * sizeof(why->text) + CLI_KEY_SIZE);
    for (const char *at; (at = find_key(rest, key, &size)) != NULL;
         rest = at + size) {
        buf_add(&line, rest, (size_t)(at - rest));
        buf_printf(&line, "--%s", flag);
    }
    buf_add_string(&line, rest);
    snprintf(why->text, sizeof(why->text), "%s", buf_string(&line));
    buf_finish(&line);
}

void cli_overrides_name(const struct cli_overrides *overrides, struct why *why)
{
    for (uint32_t i = 0; i < overrides->count; i++) {
        name_one(overrides->list[i].key, overrides->list[i].flag, why);
    }
}
