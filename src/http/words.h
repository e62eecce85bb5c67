#pragma once
/* http/words: the head of an answer, written. Private to http. Pure. */
#include "base/buf.h"
#include "http/server.h"

/* "OK", "Not Found", ...; "Status" for a number without a name. */
const char *http_status_words(int status);
/* False for 1xx, 204 and 304. */
bool http_status_has_body(int status);
/* "Date: ...\r\n" for a time in ms since 1970. */
void http_add_date(struct buf *out, uint64_t wall_ms);
/* "name: value\r\n"; control characters become blanks, so that a value that
 * came from a request cannot begin a line of its own. */
void http_add_field(struct buf *out, const char *name, const char *value);
