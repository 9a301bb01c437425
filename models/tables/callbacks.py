"""Callbacks of providers, so that none acts twice; who listens to a provider, and who claims messages."""

import peewee

from models.store.fields import ReasonField, Table, UtcField


class Callback(Table):
    """A callback that was received at `at`. `key`: a digest of its provider and its id there.

    `until`: when it may be forgotten; None: after the time in web/callbacks/received.py (a row of an earlier
    version). Then a later callback deletes it.
    """

    key = peewee.CharField(max_length=64, unique=True)
    at = UtcField(index=True)
    until = UtcField(null=True, index=True)


class EarlyReport(Table):
    """What a provider reported at `at` about a message whose delivery attempt was not recorded yet.

    `key`: a digest of the provider and its id of the message. `state` is a ProviderState, `reason` what the
    provider says about a failure. The record of the attempt applies and deletes the row. A row that no
    attempt claims within some minutes is deleted: the worker was killed before it recorded the attempt.
    """

    key = peewee.CharField(max_length=64, unique=True)
    state = peewee.CharField(max_length=32)
    reason = ReasonField(null=True)
    at = UtcField(index=True)


class Lease(Table):
    """`holder` alone does the job `name` until this time, by the clock of the database."""

    name = peewee.CharField(max_length=64, unique=True)
    holder = peewee.CharField(max_length=64)
    until = UtcField()


class ClaimHolder(Table):
    """A process that claims messages. It holds its `number` in the store as long as it lives."""

    number = peewee.IntegerField(unique=True)


class ListenerPosition(Table):
    """The number of the last update that was handled, for providers that number their updates."""

    name = peewee.CharField(max_length=64, unique=True)
    number = peewee.BigIntegerField()


class WrongReply(Table):
    """A reply with a wrong code at `at`. `number`: a digest of the phone number that sent it."""

    number = peewee.CharField(max_length=64)
    at = UtcField(index=True)

    class Meta:
        indexes = ((("number", "at"), False),)
