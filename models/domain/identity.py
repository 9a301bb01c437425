"""The forms of IDs (contract section 1.5), and IDs that follow from other IDs.

Objects that a request creates get random IDs (models/store/ids.py). The ID of an object that an alert creates
is a hash of the alert's ID, so that repeated work creates the same IDs again.
"""

import hashlib
import re
from collections.abc import Iterable

# Short ids have 22 characters; characters that look alike are left out (contract 1.5).
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SHORT_LENGTH = 22
# Encode two characters per division: an alert needs several ids, and the divisions cost the most.
_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT_ID = re.compile(f"[{ALPHABET}]{{{SHORT_LENGTH}}}")


def is_uuid(text: str) -> bool:
    """Return whether this text has the form of a UUID, in small letters. Other texts need no query."""
    return _UUID.fullmatch(text) is not None


def is_short_id(text: str) -> bool:
    return _SHORT_ID.fullmatch(text) is not None


def encode_short_id(number: int) -> str:
    """Encode a 128-bit number as 22 characters of ALPHABET."""
    pairs = []
    for _ in range(SHORT_LENGTH // 2):
        number, rest = divmod(number, len(_PAIRS))
        pairs.append(_PAIRS[rest])
    return "".join(reversed(pairs))


def format_uuid(data: bytes) -> str:
    """Return 16 bytes as a UUID of version 4. Python's class for UUIDs takes twice as long."""
    digits = data.hex()
    # The version, and the variant in the two highest bits of its digit.
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _digest(parts: Iterable[object]) -> bytes:
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).digest()


def _hash_parts(*parts: object) -> int:
    return int.from_bytes(_digest(parts), "big")


def derive_uuid(*names: object) -> str:
    """Return an id that depends only on these names. It has the form of a version 4 UUID."""
    return format_uuid(_digest(names))


def hash_message_id(keys: list[str]) -> str:
    """Return the id of the message with these notifications: the hash of their sorted keys."""
    return hashlib.blake2b("\n".join(sorted(keys)).encode(), digest_size=20).hexdigest()


def make_event_id(trace_id: str, position: int, integration: int) -> str:
    """Return the unique_id of one alert of a receipt in one integration."""
    return encode_short_id(_hash_parts("event", trace_id, position, integration))


def make_entity_id(trace_id: str, position: int) -> str:
    """Return the entity_id of an alert whose source gave none: 32 characters of a UUID (contract 1.5)."""
    return derive_uuid("entity", trace_id, position)[:32]


def make_unique_entity_id(event_id: str) -> str:
    """Return an entity_id that no other alert has."""
    return derive_uuid("fresh entity", event_id)[:32]


def make_note_id(event_id: str, index: int) -> str:
    """Return the unique_id of a note that an alert's rules add to its incident."""
    return encode_short_id(_hash_parts("note", event_id, index))


def make_incident_tag_id(incident: str, tag: int) -> str:
    """Return the unique_id of a team's tag on an incident: a UUID, since a published client parses it."""
    return derive_uuid("incident tag", incident, tag)


def make_assignment_id(incident: str, role: int) -> str:
    """Return the unique_id of a team's role in an incident.

    It does not depend on the person who has the role.
    """
    return derive_uuid("assignment", incident, role)


def make_task_id(event_id: str, index: int) -> str:
    """Return the unique_id of a task that an alert's rules add to its incident."""
    return derive_uuid("task", event_id, index)


def make_responder_id(incident: str, kind: str, row: int) -> str:
    """Return the unique_id of a responder: a person or a policy that rules ask to help with an incident."""
    return encode_short_id(_hash_parts("responder", incident, kind, row))


def make_attachment_id(event_id: str, kind: str, index: int) -> str:
    """Return the unique_id of a URL, image or note of an alert: a UUID with the version number 4."""
    return derive_uuid("part", event_id, kind, index)


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
