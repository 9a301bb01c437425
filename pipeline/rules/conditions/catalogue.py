"""The table of the fields that conditions know, with the operators of each in the query builder.

An operator builds JSON Logic from a read and its values. Comparisons of text are case-sensitive, except
`like` and `contains`. Each negative operator is true exactly when its positive one is false. A range includes
its first and its last value. Times and dates are in UTC.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.rules.conditions import literals

# JSON Logic: any JSON value.
Logic = object
# Builds logic from a read and values, which have the form that the reader of the field gives them.
Build = Callable[[Logic, Sequence[Any]], Logic]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator. `value_count` is the number of values that it needs; None means one or more."""

    build: Build
    value_count: int | None = 1
    negated: bool = False

    def build_logic(self, read: Logic, values: Sequence[object]) -> Logic:
        logic = self.build(read, values)
        return {"!": [logic]} if self.negated else logic

    def negate(self) -> "Operator":
        return Operator(self.build, self.value_count, not self.negated)


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `read` converts the values of a condition to the form of the subject.

    For `coded` fields, values in JSON Logic are converted too.
    """

    operators: Mapping[str, Operator]
    read: literals.Reader = literals.read_text
    coded: bool = False


def _build_comparison(sign: str) -> Operator:
    return Operator(lambda read, values: {sign: [read, values[0]]})


def _build_between(read: Logic, values: Sequence[object]) -> Logic:
    return {"<=": [values[0], read, values[1]]}


def _build_time_between(read: Logic, values: Sequence[str]) -> Logic:
    """Return the logic of a time range. A range from 22:00 to 06:00 is the night."""
    first, last = values
    if first <= last:
        return _build_between(read, values)
    return {"or": [{">=": [read, first]}, {"<=": [read, last]}]}


EQUAL = _build_comparison("===")
ANY_IN = Operator(lambda read, values: {"in": [read, list(values)]}, value_count=None)
LIKE = Operator(lambda read, values: {"in": [{"lower": [values[0]]}, {"lower": [read]}]})
STARTS = Operator(lambda read, values: {"starts_with": [read, values[0]]})
ENDS = Operator(lambda read, values: {"ends_with": [read, values[0]]})
MATCHES = Operator(lambda read, values: {"matches": [read, values[0]]})
NOT_EMPTY = Operator(lambda read, values: {"!==": [read, ""]}, value_count=0)
BETWEEN = Operator(_build_between, value_count=2)
TIME_BETWEEN = Operator(_build_time_between, value_count=2)

EQUALITY = {
    "equal": EQUAL,
    "select_equals": EQUAL,
    "not_equal": EQUAL.negate(),
    "select_not_equals": EQUAL.negate(),
}
CHOICE = EQUALITY | {"select_any_in": ANY_IN, "select_not_any_in": ANY_IN.negate()}
ORDER = EQUALITY | {
    "less": _build_comparison("<"),
    "less_or_equal": _build_comparison("<="),
    "greater": _build_comparison(">"),
    "greater_or_equal": _build_comparison(">="),
    "between": BETWEEN,
    "not_between": BETWEEN.negate(),
}
TIME = ORDER | {"between": TIME_BETWEEN, "not_between": TIME_BETWEEN.negate()}
TEXT = EQUALITY | {
    "like": LIKE,
    "contains": LIKE,
    "not_like": LIKE.negate(),
    "not_contains": LIKE.negate(),
    "starts_with": STARTS,
    "not_starts_with": STARTS.negate(),
    "ends_with": ENDS,
    "not_ends_with": ENDS.negate(),
    "regex": MATCHES,
    "regex_match": MATCHES,
    "regexp": MATCHES,
    "matches": MATCHES,
    "not_regex": MATCHES.negate(),
    "not_regex_match": MATCHES.negate(),
    "regex_not_match": MATCHES.negate(),
    "not_regexp": MATCHES.negate(),
    "not_matches": MATCHES.negate(),
    "is_not_empty": NOT_EMPTY,
    "is_not_null": NOT_EMPTY,
    "is_empty": NOT_EMPTY.negate(),
    "is_null": NOT_EMPTY.negate(),
}

# Names as in a subject; the query builder writes `alert.` before each.
FIELDS: dict[str, Field] = {
    "alert_type": Field(CHOICE, literals.build_code_reader(literals.ALERT_TYPES), coded=True),
    "urgency": Field(CHOICE, literals.build_code_reader(literals.URGENCIES), coded=True),
    "day_of_week": Field(CHOICE, literals.build_code_reader(literals.WEEKDAYS), coded=True),
    "alert_time": Field(TIME, literals.read_time, coded=True),
    "alert_date": Field(ORDER, literals.read_date, coded=True),
    "message": Field(TEXT),
    "summary": Field(TEXT),
    "entity_id": Field(TEXT),
    "seconds_since_last": Field(ORDER, literals.read_number),
}

# The payload has its own operators. PAYLOAD_SEARCH compares the values at a path; operatorOptions.ploperator
# names the comparison. An operator whose name contains "key" tests whether the path has any value.
PAYLOAD = "payload"
PAYLOAD_SEARCH = "payloadsearch"
PAYLOAD_OPERATORS = TEXT | CHOICE


def normalize_field(field: str) -> str:
    """Return a field's name as in FIELDS. Unknown names are returned unchanged."""
    name = field.strip().removeprefix("alert.")
    # The full name differs between clients, for example seconds_since_last_similar_incident.
    return "seconds_since_last" if name.startswith("seconds_since") else name
