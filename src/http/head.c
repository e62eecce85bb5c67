#include "http/head.h"

static bool refuse(struct http_refusal *refusal, int status,
                   const char *message)
{
    *refusal = (struct http_refusal){.status = status, .message = message};
    return false;
}

static bool is_letter_or_digit(uint8_t byte)
{
    uint8_t lower = byte | 0x20;
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9');
}

static bool is_token_byte(uint8_t byte)
{
    return is_letter_or_digit(byte) ||
           (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

bool http_head_is_token(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (!is_token_byte(text.data[i])) {
            return false;
        }
    }
    return text.size > 0;
}

bool http_head_is_value(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

static uint8_t lower_of(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? byte + 32 : byte;
}

bool http_head_is(struct span text, const char *word)
{
    for (size_t i = 0; i < text.size; i++) {
        if (word[i] == 0 ||
            lower_of(text.data[i]) != lower_of((uint8_t)word[i])) {
            return false;
        }
    }
    return word[text.size] == 0;
}

bool http_head_find(const struct http_head *head, const char *name,
                    struct span *value_out)
{
    for (uint32_t i = 0; i < head->count; i++) {
        if (http_head_is(head->fields[i].name, name)) {
            *value_out = head->fields[i].value;
            return true;
        }
    }
    return false;
}

static size_t find_byte(struct span text, uint8_t byte)
{
    const uint8_t *at =
        text.size == 0 ? NULL : memchr(text.data, byte, text.size);
    return at == NULL ? text.size : (size_t)(at - text.data);
}

/* Cuts one line off the front; false when CR and LF do not stand together. */
static bool take_line(struct span *rest, struct span *line_out)
{
    size_t end = find_byte(*rest, '\n');
    if (end == rest->size || end == 0 || rest->data[end - 1] != '\r') {
        return false;
    }
    *line_out = span_slice(*rest, 0, end - 1);
    *rest = span_slice(*rest, end + 1, rest->size);
    return find_byte(*line_out, '\r') == line_out->size;
}

static struct span trim(struct span text)
{
    size_t begin = 0;
    size_t end = text.size;
    while (begin < end &&
           (text.data[begin] == ' ' || text.data[begin] == '\t')) {
        begin++;
    }
    while (end > begin &&
           (text.data[end - 1] == ' ' || text.data[end - 1] == '\t')) {
        end--;
    }
    return span_slice(text, begin, end);
}

static bool read_fields(struct span rest, struct http_head *head,
                        struct http_refusal *refusal)
{
    for (;;) {
        struct span line;
        if (!take_line(&rest, &line)) {
            return refuse(refusal, 400, "header line does not end in CR LF");
        }
        if (line.size == 0) {
            return rest.size == 0 ||
                   refuse(refusal, 400, "bytes behind the empty line");
        }
        size_t colon = find_byte(line, ':');
        struct span name = span_slice(line, 0, colon);
        struct span value = trim(span_slice(line, colon + 1, line.size));
        if (colon == line.size || !http_head_is_token(name)) {
            return refuse(refusal, 400, "malformed header name");
        }
        if (!http_head_is_value(value)) {
            return refuse(refusal, 400, "control character in a header");
        }
        if (head->count == HTTP_HEADER_COUNT_MAX) {
            return refuse(refusal, 431, "too many header fields");
        }
        head->fields[head->count++] =
            (struct http_head_field){.name = name, .value = value};
    }
}

static bool read_length(struct span text, uint64_t *length_out)
{
    uint64_t length = 0;
    /* 18 digits hold any body there can be and cannot overflow. */
    if (text.size == 0 || text.size > 18) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        length = length * 10 + (text.data[i] - '0');
    }
    *length_out = length;
    return true;
}

static bool check_field(const struct http_head_field *field,
                        struct http_head *head, struct http_refusal *refusal)
{
    if (http_head_is(field->name, "content-length")) {
        if (head->has_length) {
            return refuse(refusal, 400, "two Content-Length fields");
        }
        head->has_length = true;
        if (!read_length(field->value, &head->length)) {
            return refuse(refusal, 400, "malformed Content-Length");
        }
    } else if (http_head_is(field->name, "transfer-encoding")) {
        if (head->is_chunked || !http_head_is(field->value, "chunked")) {
            return refuse(refusal, 400,
                          "Transfer-Encoding other than one \"chunked\"");
        }
        head->is_chunked = true;
    }
    return true;
}

/* How the end of the body is known, in one way only. */
static bool check_framing(struct http_head *head, struct http_refusal *refusal)
{
    for (uint32_t i = 0; i < head->count; i++) {
        if (!check_field(&head->fields[i], head, refusal)) {
            return false;
        }
    }
    if (head->is_chunked && head->has_length) {
        return refuse(refusal, 400,
                      "both Content-Length and Transfer-Encoding");
    }
    if (head->is_chunked && head->minor == 0) {
        return refuse(refusal, 400, "Transfer-Encoding in HTTP/1.0");
    }
    return true;
}

static bool is_host(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (!is_letter_or_digit(byte) &&
            (byte == 0 || strchr(".-_~:[]%!$&'()*+;=", byte) == NULL)) {
            return false;
        }
    }
    return true;
}

static bool check_request_fields(struct http_head *head,
                                 struct http_refusal *refusal)
{
    uint32_t host_count = 0;
    for (uint32_t i = 0; i < head->count; i++) {
        const struct http_head_field *field = &head->fields[i];
        if (http_head_is(field->name, "host")) {
            host_count++;
            if (!is_host(field->value)) {
                return refuse(refusal, 400, "malformed Host");
            }
        } else if (http_head_is(field->name, "expect")) {
            head->expects_continue = http_head_is(field->value, "100-continue");
            if (!head->expects_continue) {
                return refuse(refusal, 417, "only 100-continue is known");
            }
        }
    }
    if (host_count > 1 || (host_count == 0 && head->minor > 0)) {
        return refuse(refusal, 400,
                      host_count > 1 ? "two Host fields" : "no Host field");
    }
    return true;
}

static bool read_version(struct span text, int *minor_out,
                         struct http_refusal *refusal)
{
    if (text.size != 8 || !span_starts_with(text, "HTTP/") ||
        text.data[6] != '.') {
        return refuse(refusal, 400, "malformed HTTP version");
    }
    if (text.data[5] != '1' || (text.data[7] != '0' && text.data[7] != '1')) {
        return refuse(refusal, 505, "only HTTP/1.0 and HTTP/1.1 are spoken");
    }
    *minor_out = text.data[7] - '0';
    return true;
}

static bool is_known_method(struct span method)
{
    static const char *const KNOWN[] = {"GET",    "HEAD",    "POST", "PUT",
                                        "DELETE", "OPTIONS", "PATCH"};
    for (size_t i = 0; i < sizeof(KNOWN) / sizeof(KNOWN[0]); i++) {
        if (span_equals_string(method, KNOWN[i])) {
            return true;
        }
    }
    return false;
}

static void split_target(struct span target, struct http_head *head)
{
    size_t mark = find_byte(target, '?');
    head->path = mark == 0 ? span_of_string("/") : span_slice(target, 0, mark);
    head->query = span_slice(target, mark + 1, target.size);
}

/* "/path?query", "*" for OPTIONS, or a whole "http://host/path?query", whose
 * empty path is "/". */
static bool read_target(struct span target, struct http_head *head,
                        struct http_refusal *refusal)
{
    for (size_t i = 0; i < target.size; i++) {
        if (target.data[i] <= 0x20 || target.data[i] >= 0x7f ||
            target.data[i] == '#') {
            return refuse(refusal, 400, "malformed request target");
        }
    }
    if (http_head_is(span_slice(target, 0, 7), "http://")) {
        size_t end = 7;
        while (end < target.size && target.data[end] != '/' &&
               target.data[end] != '?') {
            end++;
        }
        if (end == 7) {
            return refuse(refusal, 400, "malformed request target");
        }
        target = span_slice(target, end, target.size);
        split_target(target, head);
        return true;
    }
    bool is_star = span_equals_string(target, "*") &&
                   span_equals_string(head->method, "OPTIONS");
    if (!is_star && !span_starts_with(target, "/")) {
        return refuse(refusal, 400, "malformed request target");
    }
    split_target(target, head);
    return true;
}

static bool read_request_line(struct span line, struct http_head *head,
                              struct http_refusal *refusal)
{
    size_t first = find_byte(line, ' ');
    struct span rest = span_slice(line, first + 1, line.size);
    size_t second = find_byte(rest, ' ');
    head->method = span_slice(line, 0, first);
    if (first == line.size || second == rest.size ||
        !http_head_is_token(head->method)) {
        return refuse(refusal, 400, "malformed request line");
    }
    if (second > HTTP_TARGET_SIZE_MAX) {
        return refuse(refusal, 414, "request target too long");
    }
    struct span version = span_slice(rest, second + 1, rest.size);
    if (!read_version(version, &head->minor, refusal)) {
        return false;
    }
    if (!is_known_method(head->method)) {
        return refuse(refusal, 501, "unknown method");
    }
    return read_target(span_slice(rest, 0, second), head, refusal);
}

bool http_head_read_request(struct span bytes, struct http_head *head,
                            struct http_refusal *refusal_out)
{
    *head = (struct http_head){.is_request = true};
    struct span line;
    if (!take_line(&bytes, &line)) {
        return refuse(refusal_out, 400, "request line does not end in CR LF");
    }
    return read_request_line(line, head, refusal_out) &&
           read_fields(bytes, head, refusal_out) &&
           check_framing(head, refusal_out) &&
           check_request_fields(head, refusal_out);
}

/* "HTTP/1.1 200 OK"; the words behind the number may be missing. */
static bool read_status_line(struct span line, struct http_head *head,
                             struct http_refusal *refusal)
{
    if (!read_version(span_slice(line, 0, 8), &head->minor, refusal)) {
        return false;
    }
    struct span rest = span_slice(line, 8, line.size);
    if (rest.size < 4 || rest.data[0] != ' ' ||
        (rest.size > 4 && rest.data[4] != ' ') || !http_head_is_value(rest)) {
        return refuse(refusal, 502, "malformed status line");
    }
    uint64_t status;
    if (!read_length(span_slice(rest, 1, 4), &status) || status < 100 ||
        status > 599) {
        return refuse(refusal, 502, "malformed status");
    }
    head->status = (int)status;
    return true;
}

bool http_head_read_answer(struct span bytes, struct http_head *head,
                           struct http_refusal *refusal_out)
{
    *head = (struct http_head){.is_request = false};
    struct span line;
    if (!take_line(&bytes, &line)) {
        return refuse(refusal_out, 502, "status line does not end in CR LF");
    }
    return read_status_line(line, head, refusal_out) &&
           read_fields(bytes, head, refusal_out) &&
           check_framing(head, refusal_out);
}
