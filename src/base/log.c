#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

static const uint64_t MINUTE_NS = 60000000000u;

static struct {
    enum log_level level;
    enum log_format format;
    char process[32];
} settings = {.level = LOG_INFO};

static const char *const LEVEL_NAMES[] = {"debug", "info", "warn", "error"};

void log_setup(const struct log_options *options)
{
    settings.level = options->level;
    settings.format = options->format;
    snprintf(settings.process, sizeof(settings.process), "%s",
             options->process == NULL ? "" : options->process);
}

bool log_is_on(enum log_level level)
{
    return level >= settings.level;
}

static void add_time(struct buf *line)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    gmtime_r(&now.tv_sec, &parts);
    buf_printf(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
               parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
               parts.tm_hour, parts.tm_min, parts.tm_sec,
               (int)(now.tv_nsec / 1000000));
}

static void add_text_line(struct buf *line, enum log_level level,
                          const char *part, const char *message)
{
    add_time(line);
    buf_printf(line, " %-5s ", LEVEL_NAMES[level]);
    if (settings.process[0] != 0) {
        buf_printf(line, "[%s] ", settings.process);
    }
    buf_printf(line, "%s: ", part);
    for (const char *at = message; *at != 0; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < 0x20 || byte == 0x7f) {
            buf_printf(line, "\\x%02x", byte);
        } else {
            buf_add_byte(line, byte);
        }
    }
}

static void add_json_line(struct buf *line, enum log_level level,
                          const char *part, const char *message)
{
    buf_add_string(line, "{\"time\":\"");
    add_time(line);
    buf_printf(line, "\",\"level\":\"%s\",\"process\":", LEVEL_NAMES[level]);
    buf_add_json_string(line, span_of_string(settings.process));
    buf_printf(line, ",\"part\":\"%s\",\"message\":", part);
    buf_add_json_string(line, span_of_string(message));
    buf_add_byte(line, '}');
}

/* A pipe that can be written has room for this much. */
enum { LINE_MAX_SIZE = 4096, PATIENCE_MS = 200 };

/* Lines that nobody took, since one was taken last. */
static atomic_uint lost;

/* Whoever reads our lines may sleep, or be gone: that costs lines, not us. A
 * reader that is only slower than a burst of them is waited for, once. */
static bool can_write(void)
{
    struct pollfd at = {STDERR_FILENO, POLLOUT, 0};
    int wait_ms = atomic_load(&lost) > 0 ? 0 : PATIENCE_MS;
    return poll(&at, 1, wait_ms) == 1 && (at.revents & (POLLOUT | POLLERR));
}

/* One write a line: lines of several processes on one terminal stay whole.
 * A log that cannot be written is no reason to stop. */
static void put(struct buf *line)
{
    if (!can_write()) {
        atomic_fetch_add(&lost, 1);
        return;
    }
    if (line->size > LINE_MAX_SIZE) {
        line->size = LINE_MAX_SIZE;
        line->data[LINE_MAX_SIZE - 1] = '\n';
    }
    ssize_t written = write(STDERR_FILENO, line->data, line->size);
    (void)written;
}

static void write_line(enum log_level level, const char *part,
                       const char *format, va_list args)
{
    char message[1024];
    vsnprintf(message, sizeof(message), format, args);
    struct buf line;
    buf_init(&line, 16384);
    if (settings.format == LOG_JSON) {
        add_json_line(&line, level, part, message);
    } else {
        add_text_line(&line, level, part, message);
    }
    buf_add_byte(&line, '\n');
    put(&line);
    buf_finish(&line);
}

static void say(enum log_level level, const char *part, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, part, format, args);
    va_end(args);
}

static void tell_lost(void)
{
    if (atomic_load(&lost) > 0 && can_write()) {
        say(LOG_WARN, "log", "%u lines were lost: nobody took them",
            atomic_exchange(&lost, 0));
    }
}

void log_line(enum log_level level, const char *part, const char *format, ...)
{
    if (log_is_on(level)) {
        tell_lost();
        va_list args;
        va_start(args, format);
        write_line(level, part, format, args);
        va_end(args);
    }
}

/* Two threads at the same moment may let a line too many pass: no harm. */
bool log_gate_pass(struct log_gate *gate, uint64_t now_ns,
                   uint64_t *left_out_out)
{
    if (gate->count == 0 || now_ns - gate->begun_ns >= MINUTE_NS) {
        gate->begun_ns = now_ns;
        gate->count = 0;
    }
    if (gate->count >= LOG_RARE_MAX) {
        gate->left_out++;
        return false;
    }
    gate->count++;
    *left_out_out = gate->left_out;
    gate->left_out = 0;
    return true;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void log_rare_line(struct log_gate *gate, enum log_level level,
                   const char *part, const char *format, ...)
{
    uint64_t left_out = 0;
    bool is_all = log_is_on(LOG_DEBUG);
    if (!log_is_on(level) ||
        (!is_all && !log_gate_pass(gate, now_ns(), &left_out))) {
        return;
    }
    if (left_out > 0) {
        log_line(level, part, "%llu lines like the next one were left out",
                 (unsigned long long)left_out);
    }
    tell_lost();
    va_list args;
    va_start(args, format);
    write_line(level, part, format, args);
    va_end(args);
}
