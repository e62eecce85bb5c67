#pragma once
/* transfer/reporter: the way of reports to the engine. A report whose place is
 * not there yet waits in its session's slot, so nothing is lost and nothing
 * grows. Private to transfer. */
#include <stdbool.h>

#include "transfer/port.h"

/* One a session: the latest report not yet posted; words only grow, so the
 * latest says all. */
struct reporter {
    struct transfer_report report;
    bool is_due;
};

/* True when it is in the mailbox. */
bool reporter_flush(struct reporter *reporter, struct io_mailbox *mailbox);
