"""Timers of incidents. A due timer causes a new decision; it contains no instruction."""

import peewee

from models.store.fields import ReasonField, Table, UtcField
from models.tables.incidents import Incident


class Timer(Table):
    """A timer. `key` identifies it within its incident: there is at most one pending row per key.

    `done_at` and `outcome` are written in the transaction of the timer's effects. A timer that a change of
    the incident made unnecessary also gets `done_at` and an outcome with the reason.
    """

    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE", index=False)
    kind = peewee.CharField(max_length=32)
    key = peewee.CharField(max_length=64)
    due_at = UtcField()
    done_at = UtcField(null=True)
    outcome = ReasonField(null=True)
    # Whether a timer that fires only once has fired.
    fired = peewee.BooleanField(default=False)

    class Meta:
        indexes = ((("incident", "key"), False),)


Timer.declare_index("timer_due", "due_at", where="done_at IS NULL")
Timer.declare_index("timer_pending", "incident", "key", where="done_at IS NULL", unique=True)
