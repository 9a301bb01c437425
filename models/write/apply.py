"""Write effects as rows, in bulk, inside the caller's transaction.

The number of statements does not depend on the number of alerts: each kind of row is read at most once and
written at most twice. Effects are first applied in memory, in their order. Therefore the result does not
depend on how the alerts were divided into batches.

Two tables name the function of each kind of effect: FOLDS in memory, WRITERS in the database.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from models.domain.channels import OUTBOUND_CHANNEL, STAKEHOLDER_CHANNEL
from models.domain.effects import (
    AddNote,
    AddResponder,
    AddTag,
    AddTask,
    AdvanceRoundRobin,
    ApplyTaskTemplate,
    AssignRole,
    CancelNotifications,
    ChangeSet,
    CreateNotification,
    Effect,
    EntityState,
    EventState,
    ExpectPing,
    MailStakeholders,
    NotifyRecovery,
    ReclaimEntities,
    ReconcileTimers,
    RecordLog,
    ReleaseEntities,
    SaveEntity,
    SaveGroups,
    SaveIncident,
    SendOutbound,
)
from models.store.store import store
from models.tables.teams import EscalationPolicy
from models.write.entities import insert_events, reclaim_entities, release_entities, write_entities
from models.write.heartbeats import write_pings
from models.write.incident_details import (
    expand_templates,
    write_notes,
    write_responders,
    write_roles,
    write_tags,
    write_tasks,
)
from models.write.incidents import insert_groups, insert_logs, write_incidents
from models.write.message_updates import mark_messages
from models.write.notifications import NewNotification, cancel_pending, write_notifications
from models.write.outbound import write_outbound
from models.write.recoveries import write_recoveries
from models.write.stakeholder_messages import write_stakeholder_mails
from models.write.timers import write_timers

Kind = type[Effect] | type[EventState]


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of apply(). `channels` have new messages, which may be due and are not held, or changes."""

    channels: frozenset[int] = frozenset()


class Conflict(Exception):
    """Another transaction changed the facts of a decision: decide again in a new transaction."""


def apply(
    changes: ChangeSet, rows: Mapping[str, int] | None = None, pieces: Mapping[int, str] | None = None
) -> ApplyResult:
    """Write a change set. `rows`: row numbers by unique_id of incidents that effects only refer to.

    `pieces`: the names of receipts in pieces, by row number. Their notifications share messages with those of
    other pieces (models/write/shared_messages.py).

    Raises Conflict, before it writes other rows, if another transaction advanced the same round robin.
    """
    with store().sending_ahead():
        return Writer(rows).finish(changes, pieces)


class Writer:
    """Writes one or several change sets of a transaction, in the order of their effects.

    The result is that of one change set with all their effects and events. Use it in
    `store().sending_ahead()`: the caller decides on the next alerts while the database writes the first ones.
    """

    def __init__(self, rows: Mapping[str, int] | None = None) -> None:
        """`rows` is as in apply()."""
        self._folded = _Folded()
        self._rows = dict(rows or {})
        self._logs: list[RecordLog] = []

    def add(self, changes: ChangeSet) -> None:
        """Write what must be stored of a change set before the next one. Raises Conflict as apply()."""
        self._fold(changes)
        self._write(FIRST)

    def finish(self, changes: ChangeSet, pieces: Mapping[int, str] | None = None) -> ApplyResult:
        """Write the last change set and all that is left. Raises Conflict as apply()."""
        self._fold(changes)
        self._folded.pieces = pieces or {}
        self._write(WRITERS)
        notifications = self._folded.notifications.values()
        written = [each for each in notifications if each.message and not each.pieces_of]
        channels = (each.notification.channel for each in written)
        others = {number for kind, number in _OTHER_CHANNELS.items() if self._folded.get(kind)}
        others |= mark_messages(self._logs, self._rows, {each.message for each in notifications})
        return ApplyResult(frozenset(channels) | others)

    def _fold(self, changes: ChangeSet) -> None:
        self._folded.lists.setdefault(EventState, []).extend(changes.events)
        self._folded.add(changes.effects)

    def _write(self, kinds: Iterable[Kind]) -> None:
        for kind in kinds:
            if items := self._folded.get(kind):
                if kind is CreateNotification:
                    self._folded.name_pieces()
                self._folded.add(WRITERS[kind](items, self._rows) or ())
                if kind is RecordLog:
                    self._logs += self._folded.logs
                if kind in FIRST:
                    self._folded.clear(kind)


# The channels of effects that write messages of their own.
_OTHER_CHANNELS: dict[Kind, int] = {MailStakeholders: STAKEHOLDER_CHANNEL, SendOutbound: OUTBOUND_CHANNEL}


@dataclass(slots=True)
class _Folded:
    """The rows to write: lists by class, and the last state of each entity and notification."""

    lists: dict[Kind, list[Any]] = field(default_factory=dict)
    pieces: Mapping[int, str] = field(default_factory=dict)
    entities: dict[tuple[int, str], EntityState] = field(default_factory=dict)
    notifications: dict[str, NewNotification] = field(default_factory=dict)

    def add(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            FOLDS[type(effect)](self, effect)

    def get(self, kind: Kind) -> Sized:
        if kind is SaveEntity:
            return self.entities
        return self.notifications if kind is CreateNotification else self.lists.get(kind, ())

    def clear(self, kind: Kind) -> None:
        """Forget what was written."""
        if kind is SaveEntity:
            self.entities = {}
        else:
            del self.lists[kind]

    def name_pieces(self) -> None:
        """Write the names of receipts in pieces into their notifications."""
        for new in self.notifications.values():
            receipt = new.notification.receipt
            new.pieces_of = None if receipt is None else self.pieces.get(receipt)

    @property
    def logs(self) -> list[RecordLog]:
        return self.lists.get(RecordLog, [])


def _keep(folded: _Folded, effect: Effect) -> None:
    folded.lists.setdefault(type(effect), []).append(effect)


def _fold_entity(folded: _Folded, effect: SaveEntity) -> None:
    folded.entities[effect.entity.key] = effect.entity


def _fold_release(folded: _Folded, effect: ReleaseEntities) -> None:
    """Keep a release for the stored entities, and apply it to the entities of the change set so far."""
    _keep(folded, effect)
    for key, entity in folded.entities.items():
        if entity.incident == effect.incident:
            folded.entities[key] = entity.without_incident(by_person=effect.by_person)


def _fold_notification(folded: _Folded, effect: CreateNotification) -> None:
    folded.notifications[effect.notification.key] = NewNotification(effect.notification)


def _fold_cancellation(folded: _Folded, effect: CancelNotifications) -> None:
    """Keep a cancellation for the stored notifications, and apply it to those of the change set so far.

    The first matching cancellation counts; for stored notifications see cancel_pending().
    """
    _keep(folded, effect)
    for new in folded.notifications.values():
        is_matching = new.notification.incident == effect.incident and new.notification.kind in effect.kinds
        if is_matching and new.cancelled_by is None:
            new.cancelled_by = effect


def _advance_round_robins(effects: Sequence[AdvanceRoundRobin], _: Mapping[str, int]) -> None:
    """Advance each policy once, from the target that the first decision read to the last new one."""
    first_read = {effect.policy: effect.current for effect in reversed(effects)}
    last_next = {effect.policy: effect.next for effect in effects}
    for policy in sorted(last_next):
        is_unchanged = (EscalationPolicy.id == policy) & (EscalationPolicy.next_target == first_read[policy])
        advance = EscalationPolicy.update(next_target=last_next[policy]).where(is_unchanged)
        if not list(advance.returning(EscalationPolicy.id).tuples().execute()):
            raise Conflict(f"another transaction advanced the round robin of policy {policy}")


# What an effect changes in memory, in the order of the effects.
FOLDS: dict[type[Effect], Callable[..., None]] = {
    SaveEntity: _fold_entity,
    ReleaseEntities: _fold_release,
    CreateNotification: _fold_notification,
    CancelNotifications: _fold_cancellation,
    **dict.fromkeys((SaveIncident, ReclaimEntities, RecordLog, ReconcileTimers), _keep),
    **dict.fromkeys((AddNote, AddTag, AddTask, AddResponder, AssignRole, ApplyTaskTemplate), _keep),
    **dict.fromkeys((AdvanceRoundRobin, ExpectPing, SaveGroups, MailStakeholders), _keep),
    **dict.fromkeys((NotifyRecovery, SendOutbound), _keep),
}

# The writers, in the order in which they run. A writer gets the folded items of its kind, and the row numbers
# of incidents by unique_id. It runs only if there are such items. It may return effects of later kinds.
WRITERS: dict[Kind, Callable[..., Iterable[Effect] | None]] = {
    AdvanceRoundRobin: _advance_round_robins,
    SaveIncident: write_incidents,
    SaveGroups: insert_groups,
    ReconcileTimers: write_timers,
    CancelNotifications: cancel_pending,
    ExpectPing: write_pings,
    # After the cancellation of what is still pending, which it must not affect.
    NotifyRecovery: write_recoveries,
    # The writers so far read rows. Those after them need not wait for the database.
    CreateNotification: write_notifications,
    ReleaseEntities: release_entities,
    ReclaimEntities: reclaim_entities,
    SaveEntity: write_entities,
    EventState: insert_events,
    ApplyTaskTemplate: expand_templates,
    RecordLog: insert_logs,
    AddNote: write_notes,
    AddTag: write_tags,
    AddResponder: write_responders,
    AssignRole: write_roles,
    AddTask: write_tasks,
    SendOutbound: write_outbound,
    # The last one, because it locks what other lanes of the account may need.
    MailStakeholders: write_stakeholder_mails,
}

# What Writer.add() writes: the rows that later alerts of the transaction change or refer to, and the events.
# The rest is written once for all alerts, so that they share messages.
FIRST: tuple[Kind, ...] = (
    AdvanceRoundRobin, SaveIncident, SaveGroups, ReleaseEntities, ReclaimEntities, SaveEntity, EventState,
    RecordLog,
)  # fmt: skip
