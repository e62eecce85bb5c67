#include "api/media.h"

#include <string.h>
#include <strings.h>

enum { SHOWN_SIZE_MAX = 100 };

/* "Application/JSON ; charset=utf-8" without what is behind the name. */
static struct span name_of(struct span type)
{
    size_t size = 0;
    while (size < type.size && strchr("; \t", type.data[size]) == NULL) {
        size++;
    }
    return span_slice(type, 0, size);
}

static bool is_name(struct span name, const char *wanted)
{
    return name.size == strlen(wanted) &&
           strncasecmp((const char *)name.data, wanted, name.size) == 0;
}

static bool has_suffix(struct span name, const char *suffix)
{
    size_t size = strlen(suffix);
    return name.size > size &&
           is_name(span_slice(name, name.size - size, name.size), suffix);
}

/* People type `curl -d '{...}'`, and curl then says the form type without being
 * asked: a body that is JSON all the same is taken, and one that is not fails
 * in the scanner, which says where. No header at all is taken too.
 *
 * Not from a page in a browser: these are the types that a page of any site may
 * send to this address without the browser asking us first (CORS). Browsers put
 * an Origin on such requests, curl and the clients of OpenAI do not. */
enum err api_media_check(struct span type, bool is_from_page, struct why *why)
{
    struct span name = name_of(type);
    if (is_name(name, "application/json") || has_suffix(name, "+json")) {
        return OK;
    }
    bool is_silent =
        name.size == 0 || is_name(name, "application/x-www-form-urlencoded");
    if (is_silent && !is_from_page) {
        return OK;
    }
    if (name.size == 0) {
        return why_say(why, ERR_UNSUPPORTED,
                       "Content-Type: a page in a browser must say "
                       "application/json");
    }
    return why_say(
        why, ERR_UNSUPPORTED,
        "Content-Type: must be application/json, not '%.*s'",
        (int)(name.size < SHOWN_SIZE_MAX ? name.size : SHOWN_SIZE_MAX),
        (const char *)name.data);
}
