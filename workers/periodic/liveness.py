"""Write the sign of life of the clock process, and correct due times after the clock was set back."""

from datetime import timedelta

import structlog

from models.store.store import connection, store
from models.tables.accounts import Liveness
from workers.delivery import outbox

log = structlog.get_logger()

# Seconds between two signs of life. A sign of life further in the future means that the clock was set back.
LIVENESS_PERIOD_S = 5


def record_liveness() -> None:
    """Write the sign of life of the clock process for /readyz.

    If the last sign of life is in the future, the clock was set back. Messages that were due before that time
    are made due now, so that nobody waits until the clock shows that time again.
    """
    period = timedelta(seconds=LIVENESS_PERIOD_S)
    with connection(), store().write_transaction():
        now = store().now()
        last = Liveness.get_or_none(Liveness.process == "clock")
        if last is not None and last.at > now + period:
            outbox.handle_clock_set_back(last.at + period, now)
            log.warning("the clock was set back", seconds=round((last.at - now).total_seconds()))
        query = Liveness.insert(process="clock", at=now, detail={})
        query.on_conflict(conflict_target=[Liveness.process], update={Liveness.at: now}).execute()
