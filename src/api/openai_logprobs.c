#include "api/openai_logprobs.h"

#include <math.h>

enum { TOKENS, LOGPROBS, TOPS, OFFSETS };

void openai_logprobs_init(struct openai_logprobs *logprobs, bool is_chat,
                          size_t cap)
{
    *logprobs = (struct openai_logprobs){.is_chat = is_chat};
    for (int i = 0; i < 4; i++) {
        buf_init(&logprobs->parts[i], cap);
    }
}

void openai_logprobs_finish(struct openai_logprobs *logprobs)
{
    for (int i = 0; i < 4; i++) {
        buf_finish(&logprobs->parts[i]);
    }
}

uint32_t openai_logprobs_count(const struct openai_logprobs *logprobs)
{
    return logprobs->count;
}

enum err openai_logprobs_error(const struct openai_logprobs *logprobs)
{
    for (int i = 0; i < 4; i++) {
        if (buf_error(&logprobs->parts[i]) != OK) {
            return buf_error(&logprobs->parts[i]);
        }
    }
    return OK;
}

static void add_number(struct buf *out, double value)
{
    if (isnan(value) || value < -9999) {
        value = -9999;
    }
    buf_printf(out, "%.9g", value > 0 ? 0.0 : value);
}

static uint64_t count_characters(struct span text)
{
    uint64_t count = 0;
    for (size_t i = 0; i < text.size; i++) {
        count += (text.data[i] & 0xc0) != 0x80;
    }
    return count;
}

/* Two tokens may spell alike; an object takes a key once. */
static bool is_repeated(const struct openai_logprob *top, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        if (span_equals(top[k].token, top[i].token)) {
            return true;
        }
    }
    return false;
}

static void add_top_object(struct buf *out, struct openai_logprob chosen,
                           const struct openai_logprob *top, uint32_t top_count)
{
    bool has_chosen = false;
    const char *comma = "";
    buf_add_byte(out, '{');
    for (uint32_t i = 0; i < top_count; i++) {
        has_chosen |= span_equals(top[i].token, chosen.token);
        if (!is_repeated(top, i)) {
            buf_add_string(out, comma);
            buf_add_json_string(out, top[i].token);
            buf_add_byte(out, ':');
            add_number(out, top[i].logprob);
            comma = ",";
        }
    }
    if (!has_chosen) {
        buf_add_string(out, comma);
        buf_add_json_string(out, chosen.token);
        buf_add_byte(out, ':');
        add_number(out, chosen.logprob);
    }
    buf_add_byte(out, '}');
}

static void add_completion(struct openai_logprobs *logprobs, bool is_known,
                           struct openai_logprob chosen,
                           const struct openai_logprob *top, uint32_t top_count)
{
    buf_add_json_string(&logprobs->parts[TOKENS], chosen.token);
    buf_printf(&logprobs->parts[OFFSETS], "%llu",
               (unsigned long long)logprobs->offset);
    if (is_known) {
        add_number(&logprobs->parts[LOGPROBS], chosen.logprob);
        add_top_object(&logprobs->parts[TOPS], chosen, top, top_count);
    } else {
        buf_add_string(&logprobs->parts[LOGPROBS], "null");
        buf_add_string(&logprobs->parts[TOPS], "null");
    }
}

static void add_entry_head(struct buf *out, struct openai_logprob entry)
{
    buf_add_string(out, "{\"token\":");
    buf_add_json_string(out, entry.token);
    buf_add_string(out, ",\"logprob\":");
    add_number(out, entry.logprob);
    buf_add_string(out, ",\"bytes\":[");
    for (size_t i = 0; i < entry.token.size; i++) {
        buf_printf(out, i == 0 ? "%u" : ",%u", entry.token.data[i]);
    }
    buf_add_byte(out, ']');
}

static void add_chat(struct buf *out, struct openai_logprob chosen,
                     const struct openai_logprob *top, uint32_t top_count)
{
    add_entry_head(out, chosen);
    buf_add_string(out, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < top_count; i++) {
        buf_add_string(out, i == 0 ? "" : ",");
        add_entry_head(out, top[i]);
        buf_add_byte(out, '}');
    }
    buf_add_string(out, "]}");
}

void openai_logprobs_add(struct openai_logprobs *logprobs, bool is_known,
                         struct openai_logprob chosen,
                         const struct openai_logprob *top, uint32_t top_count)
{
    if (logprobs->count > 0) {
        for (int i = 0; i < 4; i++) {
            buf_add_byte(&logprobs->parts[i], ',');
        }
    }
    if (logprobs->is_chat) {
        add_chat(&logprobs->parts[TOKENS], chosen, top, top_count);
    } else {
        add_completion(logprobs, is_known, chosen, top, top_count);
    }
    logprobs->count++;
    logprobs->offset += count_characters(chosen.token);
}

void openai_logprobs_print(struct openai_logprobs *logprobs, struct buf *out)
{
    static const char *const names[] = {
        "{\"tokens\":[", ",\"token_logprobs\":[", ",\"top_logprobs\":[",
        ",\"text_offset\":["};
    int count = logprobs->is_chat ? 1 : 4;
    for (int i = 0; i < count; i++) {
        buf_add_string(out, logprobs->is_chat ? "{\"content\":[" : names[i]);
        buf_add_span(out, buf_span(&logprobs->parts[i]));
        buf_add_byte(out, ']');
    }
    buf_add_byte(out, '}');
    for (int i = 0; i < 4; i++) {
        buf_reset(&logprobs->parts[i]);
    }
    logprobs->count = 0;
}
