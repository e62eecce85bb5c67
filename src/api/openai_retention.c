/* api/openai_retention: kv_cache_retention_config, by the names that clients of
 * TensorRT-LLM know: what is to be kept of a request in the cache, and how long.
 *
 *   {"token_range_retention_configs": [{"token_start": 0, "token_end": 1000,
 *                                       "priority": 90, "duration_ms": 30000}],
 *    "decode_retention_priority": 10, "decode_duration_ms": null} */
#include <inttypes.h>

#include "api/openai_fields.h"

/* An absent or null member leaves what is there. */
static enum err read_member(const struct api_object *object, const char *name,
                            int64_t min, int64_t max, struct why *why,
                            int64_t *value_out)
{
    const struct api_member *member = api_find(object, name);
    if (member == NULL || member->value.kind == API_JSON_NULL) {
        return OK;
    }
    enum err err = api_read_int(member->value, min, max, why, value_out);
    return err == OK ? OK : why_prefix(why, err, "%s", name);
}

static enum err read_numbers(const struct api_object *object, struct why *why,
                             struct openai_retention_rule *rule)
{
    enum err err = read_member(object, "token_start", 0, INT32_MAX, why,
                               &rule->first_token);
    if (err == OK) {
        err = read_member(object, "token_end", 0, INT32_MAX, why,
                          &rule->end_token);
    }
    if (err == OK) {
        err = read_member(object, "priority", 0, 100, why, &rule->priority);
    }
    if (err == OK) {
        err = read_member(object, "duration_ms", 0, INT64_MAX, why,
                          &rule->duration_ms);
    }
    return err;
}

static enum err read_rule(struct api_json value, struct why *why,
                          struct openai_retention_rule *rule_out)
{
    static const char *const names[] = {"token_start", "token_end", "priority",
                                        "duration_ms"};
    struct openai_retention_rule rule = {-1, -1, -1, -1};
    struct api_object object;
    enum err err = api_scan_object(value, why, &object);
    if (err == OK) {
        err = openai_only_members(&object, names, 4, why);
    }
    if (err == OK) {
        err = read_numbers(&object, why, &rule);
    }
    if (err != OK) {
        return err;
    }
    if (rule.first_token < 0 || rule.priority < 0) {
        return why_say(why, ERR_INVALID, "%s: is missing",
                       rule.priority < 0 ? "priority" : "token_start");
    }
    if (rule.end_token >= 0 && rule.end_token <= rule.first_token) {
        return why_say(why, ERR_INVALID,
                       "token_end: %" PRId64
                       " must be after token_start %" PRId64,
                       rule.end_token, rule.first_token);
    }
    *rule_out = rule;
    return OK;
}

static bool ends_before(const struct openai_retention_rule *a,
                        const struct openai_retention_rule *b)
{
    return a->end_token >= 0 && a->end_token <= b->first_token;
}

/* Which of two would hold for a token both name? Nobody can say. */
static enum err add_rule(struct openai_retention *retention,
                         const struct openai_retention_rule *rule,
                         struct why *why)
{
    for (uint32_t i = 0; i < retention->rule_count; i++) {
        const struct openai_retention_rule *other = &retention->rules[i];
        if (!ends_before(rule, other) && !ends_before(other, rule)) {
            return why_say(why, ERR_INVALID, "overlaps [%u]", i);
        }
    }
    retention->rules[retention->rule_count++] = *rule;
    return OK;
}

static enum err read_rules(struct api_json list, struct why *why,
                           struct openai_retention *retention)
{
    size_t cursor = 0;
    struct api_json element;
    struct openai_retention_rule rule;
    if (list.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_INVALID, "must be a list");
    }
    if (api_array_count(list) > OPENAI_RETENTION_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "has more than %d ranges",
                       OPENAI_RETENTION_COUNT_MAX);
    }
    while (api_array_next(list, &cursor, &element)) {
        uint32_t index = retention->rule_count;
        enum err err = read_rule(element, why, &rule);
        if (err == OK) {
            err = add_rule(retention, &rule, why);
        }
        if (err != OK) {
            return why_prefix(why, err, "[%u]", index);
        }
    }
    return OK;
}

static enum err read_decode(const struct api_object *object, struct why *why,
                            struct openai_retention *retention)
{
    struct openai_retention_rule rule = {0, -1, -1, -1};
    enum err err = read_member(object, "decode_retention_priority", 0, 100, why,
                               &rule.priority);
    if (err == OK) {
        err = read_member(object, "decode_duration_ms", 0, INT64_MAX, why,
                          &rule.duration_ms);
    }
    if (err != OK) {
        return err;
    }
    /* Without a priority there is nothing to be over after a while. */
    if (rule.priority >= 0) {
        retention->has_decode = true;
        retention->decode = rule;
    }
    return OK;
}

enum err openai_read_retention(const struct openai_limits *limits,
                               struct api_json value, struct why *why,
                               struct openai_request *request)
{
    (void)limits;
    static const char *const names[] = {"token_range_retention_configs",
                                        "decode_retention_priority",
                                        "decode_duration_ms"};
    struct openai_retention retention = {0};
    struct api_object object;
    enum err err = api_scan_object(value, why, &object);
    if (err == OK) {
        err = openai_only_members(&object, names, 3, why);
    }
    if (err == OK) {
        err = read_decode(&object, why, &retention);
    }
    const struct api_member *rules =
        err == OK ? api_find(&object, names[0]) : NULL;
    if (rules != NULL && rules->value.kind != API_JSON_NULL) {
        err = read_rules(rules->value, why, &retention);
        err = err == OK ? OK : why_prefix(why, err, "%s", names[0]);
    }
    if (err == OK) {
        request->retention = retention;
    }
    return err;
}
