"""Names that follow from other names, so that doing a thing twice names it alike.

Random ids are made where something enters (models/ids.py); what an alert leads to is named by hashing
what led to it.
"""

import hashlib
import uuid

from models.shortid import short


def _derived(*parts: object) -> int:
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def event_id(trace_id: str, position: int, integration: int) -> str:
    """The unique_id of one alert of a receipt in one integration."""
    return short(_derived("event", trace_id, position, integration))


def generated_entity_id(trace_id: str, position: int) -> str:
    """The entity_id of an alert whose source gave none: 32 characters of a UUID (contract 1.5)."""
    return str(uuid.UUID(int=_derived("entity", trace_id, position), version=4))[:32]


def fresh_entity_id(event_id: str) -> str:
    """An entity_id that no other alert has."""
    return str(uuid.UUID(int=_derived("fresh entity", event_id), version=4))[:32]


def note_id(event_id: str, place: int) -> str:
    """The unique_id of a note that an alert's rules put on its incident."""
    return short(_derived("note", event_id, place))


def incident_tag_id(incident: str, tag: int) -> str:
    """The unique_id of a team's tag on an incident: a UUID, since a published client parses it."""
    return str(uuid.UUID(int=_derived("incident tag", incident, tag), version=4))


def assignment_id(incident: str, role: int) -> str:
    """The unique_id of a role of the team's in an incident, whoever a rule gives it to."""
    return str(uuid.UUID(int=_derived("assignment", incident, role), version=4))


def task_id(event_id: str, place: int) -> str:
    """The unique_id of a task that an alert's rules put on its incident."""
    return str(uuid.UUID(int=_derived("task", event_id, place), version=4))


def responder_id(incident: str, kind: str, row: int) -> str:
    """The unique_id of a person, or of a policy, whom rules ask to help with an incident."""
    return short(_derived("responder", incident, kind, row))


def part_id(event_id: str, kind: str, place: int) -> str:
    """The unique_id of a url, image or note of an alert: a UUID, version 4 in form."""
    return str(uuid.UUID(int=_derived("part", event_id, kind, place), version=4))


def incident_id(event_id: str) -> str:
    """The unique_id of the incident that an alert opens."""
    return short(_derived("incident", event_id))


def incident_key(event_id: str) -> str:
    return short(_derived("incident key", event_id))


def fitting_entity_id(entity_id: str) -> str:
    """An entity_id over 255 characters becomes its hash: cut, two of them might become one."""
    if len(entity_id) <= 255:
        return entity_id
    return "sha256:" + hashlib.sha256(entity_id.encode("utf-8", "replace")).hexdigest()
