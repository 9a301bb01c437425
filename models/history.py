"""All that happened to an incident, in order: what moved it, what rules noted, and who was told.

The recorder tells the same of an alert's incidents; what each row says is said there.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import peewee

from models.accounts import User, display_name
from models.incidents import Incident, IncidentLog, IncidentNote
from models.notices import Message, Notice
from models.recorder import Told, log_told, notices_told

# (kind, row): what a page of the history is made of.
Key = tuple[int, int]

LOG, NOTE, NOTICE = range(3)


def ordered(incident: Incident) -> Any:
    """A query over the incident's history, oldest first; the first two columns of its tuples are a Key."""
    logs = IncidentLog.select(peewee.SQL(str(LOG)), IncidentLog.id, IncidentLog.at)
    notes = IncidentNote.select(peewee.SQL(str(NOTE)), IncidentNote.id, IncidentNote.creation_date)
    notices = Notice.select(peewee.SQL(str(NOTICE)), Notice.id, _FIRST_WORD).join(Message)
    every = (
        logs.where(IncidentLog.incident == incident)
        # What a person writes is in the log.
        .union_all(notes.where(IncidentNote.incident == incident, IncidentNote.user.is_null()))
        .union_all(notices.where(Notice.incident == incident, _FIRST_WORD.is_null(False)))
    )
    return every.order_by(peewee.SQL("3, 1, 2")).tuples()


# A notice is history from when it is first tried to be sent, or given up before; then it keeps its place.
_TRIED = Notice.done_at.is_null() | (Message.first_tried_at <= Notice.done_at)
_FIRST_WORD = peewee.Case(None, [(_TRIED, Message.first_tried_at)], Notice.done_at)


def entries(keys: Iterable[Key]) -> list[Told]:
    """What these keys stand for, in their order; a constant number of statements."""
    wanted = list(keys)
    found: dict[Key, Told] = {}
    for kind, tell in _KINDS.items():
        rows = [row for of_kind, row in wanted if of_kind == kind]
        if rows:
            found.update({(kind, row): entry for row, entry in tell(rows).items()})
    return [found[key] for key in wanted if key in found]


def _logs(rows: Collection[int]) -> dict[int, Told]:
    query = IncidentLog.select(IncidentLog, User).join(User, peewee.JOIN.LEFT_OUTER)
    return {
        row.id: _entry("log", log_told(row), actor=_actor(row))
        for row in query.where(IncidentLog.id.in_(rows))
    }


def _actor(row: IncidentLog) -> Told:
    name, username = (display_name(row.user), row.user.username) if row.user else (None, None)
    return {"kind": row.actor_kind, "name": name, "username": username}


def _notes(rows: Collection[int]) -> dict[int, Told]:
    return {
        row.id: _entry("note", {"at": row.creation_date, "what": "noted", "reason": row.note})
        for row in IncidentNote.select().where(IncidentNote.id.in_(rows))
    }


def _notices(rows: Collection[int]) -> dict[int, Told]:
    found = {}
    for notice, told in notices_told(Notice.id.in_(rows)):
        moments = (notice.done_at, notice.message.first_tried_at)
        at = min(moment for moment in moments if moment is not None)
        said = {"at": at, "what": told["state"], "reason": told["why"]}
        found[notice.id] = _entry("notice", said, notice=told)
    return found


def _entry(kind: str, said: Told, **more: Told) -> Told:
    return {"kind": kind, "actor": None, "alert": None, "notice": None, **said, **more}


_KINDS: dict[int, Callable[[Collection[int]], dict[int, Told]]] = {
    LOG: _logs,
    NOTE: _notes,
    NOTICE: _notices,
}
