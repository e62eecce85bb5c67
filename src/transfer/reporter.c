#include "transfer/reporter.h"

bool reporter_flush(struct reporter *reporter, struct io_mailbox *mailbox)
{
    if (reporter->is_due && !io_mailbox_post(mailbox, &reporter->report)) {
        reporter->is_due = false;
    }
    return !reporter->is_due;
}
