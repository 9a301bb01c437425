"""IDs that follow from other IDs, so that repeated work creates the same IDs again.

Random IDs are created where something enters Tocsin (models/store/ids.py). The ID of what an alert creates is
a hash of the alert's ID.
"""

import hashlib
import uuid

from models.domain.shortid import encode_short_id


def _hash_parts(*parts: object) -> int:
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "big")


def make_event_id(trace_id: str, position: int, integration: int) -> str:
    """Return the unique_id of one alert of a receipt in one integration."""
    return encode_short_id(_hash_parts("event", trace_id, position, integration))


def make_entity_id(trace_id: str, position: int) -> str:
    """Return the entity_id of an alert whose source gave none: 32 characters of a UUID (contract 1.5)."""
    return str(uuid.UUID(int=_hash_parts("entity", trace_id, position), version=4))[:32]


def make_unique_entity_id(event_id: str) -> str:
    """Return an entity_id that no other alert has."""
    return str(uuid.UUID(int=_hash_parts("fresh entity", event_id), version=4))[:32]


def make_note_id(event_id: str, index: int) -> str:
    """Return the unique_id of a note that an alert's rules add to its incident."""
    return encode_short_id(_hash_parts("note", event_id, index))


def make_incident_tag_id(incident: str, tag: int) -> str:
    """Return the unique_id of a team's tag on an incident: a UUID, since a published client parses it."""
    return str(uuid.UUID(int=_hash_parts("incident tag", incident, tag), version=4))


def make_assignment_id(incident: str, role: int) -> str:
    """Return the unique_id of a team's role in an incident.

    It does not depend on the person who has the role.
    """
    return str(uuid.UUID(int=_hash_parts("assignment", incident, role), version=4))


def make_task_id(event_id: str, index: int) -> str:
    """Return the unique_id of a task that an alert's rules add to its incident."""
    return str(uuid.UUID(int=_hash_parts("task", event_id, index), version=4))


def make_responder_id(incident: str, kind: str, row: int) -> str:
    """Return the unique_id of a responder: a person or a policy that rules ask to help with an incident."""
    return encode_short_id(_hash_parts("responder", incident, kind, row))


def make_attachment_id(event_id: str, kind: str, index: int) -> str:
    """Return the unique_id of a URL, image or note of an alert: a UUID with the version number 4."""
    return str(uuid.UUID(int=_hash_parts("part", event_id, kind, index), version=4))


def make_incident_id(event_id: str) -> str:
    """Return the unique_id of the incident that an alert opens."""
    return encode_short_id(_hash_parts("incident", event_id))


def make_incident_key(event_id: str) -> str:
    return encode_short_id(_hash_parts("incident key", event_id))


def limit_entity_id(entity_id: str) -> str:
    """Return the entity_id, or its hash if it has more than 255 characters.

    Truncated, two different entity_ids could become equal.
    """
    if len(entity_id) <= 255:
        return entity_id
    return "sha256:" + hashlib.sha256(entity_id.encode("utf-8", "replace")).hexdigest()
