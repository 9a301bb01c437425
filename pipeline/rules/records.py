"""The records of rules for the alert trace: what each evaluated rule read, and what its actions changed."""

from collections.abc import Mapping
from typing import Any

import msgspec

from models.domain.reasons import Reason
from models.domain.values import replace
from pipeline.rules.actions import Change
from pipeline.rules.conditions import NEVER, SECONDS_SINCE_LAST, Verdict

# Limits of the alert trace for each alert: the number of rules, and the characters of each value.
MAX_RECORDS = 50
MAX_SHOWN_LENGTH = 200

Record = Mapping[str, Any]


class Records:
    """The records of the rules of one alert, in the order of evaluation.

    At most MAX_RECORDS are kept, matches before others. Only these are built, since a record takes longer
    than the evaluation of a rule.
    """

    __slots__ = ("_count", "_matches", "_others")

    def __init__(self) -> None:
        self._count = 0
        # With the position in the order of evaluation.
        self._matches: list[tuple[int, dict[str, object]]] = []
        self._others: list[tuple[int, tuple[str, str, Verdict]]] = []

    def add(self, rule: str, description: str, verdict: Verdict) -> dict[str, object] | None:
        """Add an evaluated rule (its unique_id). Return the record of a match; None if it is not kept."""
        position, record = self._count, None
        self._count += 1
        if not verdict.matches:
            if len(self._others) < MAX_RECORDS:
                self._others.append((position, (rule, description, verdict)))
        elif len(self._matches) < MAX_RECORDS:
            record = _build_record(rule, description, verdict)
            self._matches.append((position, record))
        return record

    def build(self) -> tuple[Record, ...]:
        """Return the kept records. If others were left out, one more entry has their number."""
        others = self._others[: MAX_RECORDS - len(self._matches)]
        built = ((position, _build_record(*evaluated)) for position, evaluated in others)
        kept = [*self._matches, *built]
        kept.sort(key=lambda each: each[0])
        records = tuple(record for _, record in kept)
        more = self._count - len(records)
        return (*records, {"more": more}) if more else records


def _build_record(rule: str, description: str, verdict: Verdict) -> dict[str, object]:
    return {
        "rule": rule,
        "description": shorten(description),
        "matches": verdict.matches,
        "read": {name: format_value(name, value) for name, value in verdict.read.items()},
        **_build_note(verdict.note),
    }


def build_action_record(name: str, change: Change) -> Record:
    """Return the record of an action of a matching rule."""
    values = {"from": change.before, "to": change.after}
    texts = {key: shorten(text) for key, text in values.items() if text is not None}
    return {"action": name, **texts, **_build_note(change.note)}


def _build_note(note: Reason | None) -> dict[str, Reason]:
    """Return the part of a record that has the note, with truncated texts. Without a note, return {}."""
    if note is None:
        return {}
    parameters = {
        name: shorten(value) if isinstance(value, str) else value for name, value in note.parameters.items()
    }
    return {"note": replace(note, parameters=parameters)}


def format_value(name: str, value: object) -> object:
    """Return a value that a condition read, short enough to store and to show."""
    if name == SECONDS_SINCE_LAST and value == NEVER:
        return "never"
    if isinstance(value, dict) and value.get(SECONDS_SINCE_LAST) == NEVER:
        value = {**value, SECONDS_SINCE_LAST: "never"}
    if value is None or isinstance(value, bool | int | float):
        return value
    return shorten(value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace"))


def shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "..."
