"""Lock the rows that count the requests of an account."""

from models.store.store import store
from models.tables.accounts import Account, RateLimit


def lock_rate(account: Account | int, operation: str) -> RateLimit:
    """Lock the row of an account and an operation, and create it if needed. Needs a write transaction."""
    own = RateLimit.select().where(RateLimit.account == account, RateLimit.operation == operation)
    while True:
        RateLimit.insert(account=account, operation=operation, recent=[]).on_conflict_ignore().execute()
        locked = list(store().for_update(own.clone()))
        # Retention may have deleted the row after the insert found it.
        if locked:
            row: RateLimit = locked[0]
            return row
