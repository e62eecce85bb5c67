#include "http/words.h"

#include <time.h>

struct status_name {
    int status;
    const char *words;
};

static const struct status_name NAMES[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_words(int status)
{
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (NAMES[i].status == status) {
            return NAMES[i].words;
        }
    }
    return "Status";
}

bool http_status_has_body(int status)
{
    return status >= 200 && status != 204 && status != 304;
}

/* Names by hand: strftime would speak the user's language. */
void http_add_date(struct buf *out, uint64_t wall_ms)
{
    static const char DAYS[] = "SunMonTueWedThuFriSat";
    static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm at;
    gmtime_r(&seconds, &at);
    buf_printf(out, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n",
               DAYS + 3 * at.tm_wday, at.tm_mday, MONTHS + 3 * at.tm_mon,
               at.tm_year + 1900, at.tm_hour, at.tm_min, at.tm_sec);
}

void http_add_field(struct buf *out, const char *name, const char *value)
{
    buf_add_string(out, name);
    buf_add_string(out, ": ");
    for (const char *at = value; *at != 0; at++) {
        uint8_t byte = (uint8_t)*at;
        bool is_control = (byte < 0x20 && byte != '\t') || byte == 0x7f;
        buf_add_byte(out, is_control ? ' ' : byte);
    }
    buf_add_string(out, "\r\n");
}
