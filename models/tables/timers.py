"""Things to look at again, not before a moment. A timer is a wake-up, never an order."""

import peewee

from models.store.base import Table, UtcField
from models.tables.incidents import Incident


class Timer(Table):
    """`key` names what is waited for (kind, chain, step), so that the same wait is one row.

    `done_at` and `outcome` are written in the transaction of the timer's effects; a timer that a
    move made needless is ended the same way and says so.
    """

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    kind = peewee.CharField(max_length=32)
    key = peewee.CharField(max_length=64)
    due_at = UtcField()
    done_at = UtcField(null=True)
    outcome = peewee.TextField(null=True)

    class Meta:
        indexes = ((("incident", "key"), False),)


Timer.add_index(Timer.index(Timer.due_at, where=peewee.SQL("done_at IS NULL"), name="timer_due"))
Timer.add_index(
    Timer.index(
        Timer.incident, Timer.key, unique=True, where=peewee.SQL("done_at IS NULL"), name="timer_pending"
    )
)
