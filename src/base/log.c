#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

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

void log_line(enum log_level level, const char *part, const char *format, ...)
{
    if (!log_is_on(level)) {
        return;
    }
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    struct buf line;
    buf_init(&line, 16384);
    if (settings.format == LOG_JSON) {
        add_json_line(&line, level, part, message);
    } else {
        add_text_line(&line, level, part, message);
    }
    buf_add_byte(&line, '\n');
    /* One write a line: lines of several processes on one terminal stay whole.
     * A log that cannot be written is no reason to stop. */
    ssize_t written = write(STDERR_FILENO, line.data, line.size);
    (void)written;
    buf_finish(&line);
}
