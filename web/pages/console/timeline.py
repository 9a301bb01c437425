"""Write the entries of an incident's timeline as sentences."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from models.domain.enums import AuthorKind
from models.reports.pages.incident_rows import load_note_texts
from models.tables.incidents import Incident

# What a person did, where the stored reason says only who.
_DONE = {
    "acknowledged": "acknowledged the incident",
    "resolved": "resolved the incident",
    "triggered": "triggered the incident again",
}
# Entries whose reason says what happened.
_COMPLETE = frozenset({"opened", "escalated"})
Entry = dict[str, object]
# The notes of people by author (username) and time.
Notes = Mapping[tuple[str, datetime], str]


def add_sentences(incident: Incident, entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with `sentence`, and with `text` for notes of people."""
    notes = load_note_texts(incident, [entry["at"] for entry in entries if entry["what"] == "noted"])
    return [_add_sentence(entry, notes) for entry in entries]


def group_by_second(entries: Sequence[Entry]) -> list[tuple[object, list[Entry]]]:
    """Return the entries by their second: what one decision did stands together, in its order."""
    groups = groupby(entries, lambda entry: _round_down(entry["at"]))
    return [(at, list(group)[::-1]) for at, group in groups]


def _round_down(at: object) -> object:
    return at.replace(microsecond=0) if isinstance(at, datetime) else at


def _add_sentence(entry: Entry, notes: Notes) -> Entry:
    actor = entry["actor"] if isinstance(entry["actor"], dict) else {}
    name, what, reason = str(actor.get("name") or ""), str(entry["what"]), str(entry["reason"])
    at, username = entry["at"], str(actor.get("username") or "")
    text = notes.get((username, at), "") if isinstance(at, datetime) and what == "noted" else ""
    if text:
        return {**entry, "sentence": f"{name} noted:", "text": text}
    if name and what in _DONE and actor.get("kind") == AuthorKind.USER and reason == f"Requested by {name}.":
        return {**entry, "sentence": f"{name} {_DONE[what]}.", "text": ""}
    if what in _COMPLETE or (what in _DONE and name and name in reason):
        return {**entry, "sentence": reason, "text": ""}
    return {**entry, "sentence": f"{what.replace('_', ' ').capitalize()}: {reason}", "text": ""}
