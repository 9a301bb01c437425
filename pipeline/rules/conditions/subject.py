"""The values of an alert that conditions and templates can read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from models.domain.enums import Urgency
from pipeline.alert import Alert
from pipeline.rules.conditions import catalogue, paths
from pipeline.rules.conditions.budget import STEPS, Budget, count_items

Subject = Mapping[str, object]

# The only variable that depends on the results of earlier alerts.
SECONDS_SINCE_LAST = "seconds_since_last"
# The value of SECONDS_SINCE_LAST if there was no similar incident: larger than any real time.
NEVER = 10**12


# What a verdict depends on: for each variable its text or the results of TextTests, and the texts that each
# search found.
Texts = tuple[str | tuple[str | bool | None, ...], ...]
# The total length of the texts for which the verdict of a condition is kept.
MAX_TEXTS_LENGTH = 200
# The length of a text up to which it is compared here.
MAX_TESTED_LENGTH = 2_000


class Missing:
    """The value of a variable that the subject does not have."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class TextTests:
    """The comparisons of a variable with constants: texts that it equals, contains, begins or ends with."""

    equal: frozenset[str]
    parts: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    def run(self, text: str) -> tuple[str | bool | None, ...]:
        """Return the constant that the text equals, if any, and the results of the other comparisons."""
        return (
            text if text in self.equal else None,
            *[part in text for part in self.parts],
            *map(text.startswith, self.beginnings),
            *map(text.endswith, self.ends),
        )


def build_subject(alert: Alert, urgency: Urgency, now: datetime, seconds_since_last: float | None) -> Subject:
    """Return the variables of an alert, by their plain names and under `alert.`.

    Alert type ("0" to "5"), urgency ("0", "1") and day of the week ("1" is Monday) are text. Time
    ("HH:MM:SS"), date and day are those of `now` in UTC. `seconds_since_last` is None if there was no similar
    incident.
    """
    moment = now.astimezone(UTC)
    # 2026-03-04T12:00:00. To format date and time separately takes four times as long.
    text = moment.isoformat(timespec="seconds")
    times = {
        "day_of_week": str(moment.isoweekday()),
        "alert_time": text[11:19],
        "alert_date": text[:10],
    }
    since = NEVER if seconds_since_last is None else seconds_since_last
    fields = {**_read_alert(alert, urgency), **times, SECONDS_SINCE_LAST: since}
    return {**fields, "alert": fields}


def update_subject(
    subject: Subject, alert: Alert, urgency: Urgency, seconds_since_last: float | None
) -> Subject:
    """Return the variables of an alert that a rule changed. The times stay the same."""
    since = NEVER if seconds_since_last is None else seconds_since_last
    before = cast("Subject", subject["alert"])
    fields = {**before, **_read_alert(alert, urgency), SECONDS_SINCE_LAST: since}
    return {**fields, "alert": fields}


def _read_alert(alert: Alert, urgency: Urgency) -> dict[str, object]:
    parsed = alert.parsed
    return {
        "alert_type": str(int(parsed.alert_type)),
        "urgency": str(int(urgency)),
        "message": parsed.message,
        "summary": parsed.summary,
        "entity_id": alert.entity_id,
        "payload": parsed.payload,
    }


def find_texts(subject: Subject, path: paths.Path, budget: Budget) -> list[str]:
    """Return the values in the payload at a path, as text. Raises BudgetExceeded."""
    found = paths.find(subject.get("payload"), path, budget)
    return [paths.to_text_within(value, budget) for value in found]


Variable = tuple[str, ...]


def is_search(variable: Variable) -> bool:
    """Return whether the variable is ("found", path): the texts in the payload at that path.

    The trees of the query builder read such variables.
    """
    return len(variable) == 2 and variable[0] == "found"


def get_canonical_name(variable: Variable) -> Variable:
    """Return the variable without `alert.`, and with the name that the catalogue uses."""
    plain = variable[1:] if variable[0] == "alert" and len(variable) > 1 else variable
    return (catalogue.normalize_field(plain[0]), *plain[1:])


def format_variable(variable: Variable) -> str:
    """Return the variable as people write it."""
    return variable[1] if is_search(variable) else ".".join(get_canonical_name(variable))


def read_variable(subject: Subject, variable: Variable, budget: Budget) -> object:
    """Return a variable's value, or MISSING. Raises BudgetExceeded."""
    if is_search(variable):
        return find_texts(subject, paths.parse(variable[1]), budget)
    return _follow(subject, get_canonical_name(variable))[0]


def _follow(subject: Subject, steps: Variable) -> tuple[object, int, object]:
    """Return the value after these steps, the number of steps to use for the engine, and the value for the
    engine.

    The two values differ if there is a list on the path: the engine gets the whole list.
    """
    value: object = subject
    used: int = len(steps)
    outer: object = MISSING
    for position, step in enumerate(steps):
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list):
            if outer is MISSING:
                used, outer = position, value
            index = int(step) if step.isascii() and step.isdigit() and len(step) < 10 else len(value)
            value = value[index] if index < len(value) else MISSING
        else:
            return MISSING, used, outer
    return value, used, value if outer is MISSING else outer


class Picker:
    """Give the engine only the variables that a condition reads, so that a large payload costs nothing.

    `variables` None: the variables are known only while the condition runs, so the engine gets everything.
    `tests` has the variables that the condition only compares with constant texts. Raises BadPath for a
    search whose text is not a path.
    """

    __slots__ = ("_everything", "_searches", "_variables")

    def __init__(self, variables: tuple[Variable, ...] | None, tests: Mapping[Variable, TextTests]) -> None:
        self._everything = variables is None
        outermost = _find_outermost(variables or ())
        self._searches = [(each[1], paths.parse(each[1])) for each in outermost if is_search(each)]
        self._variables = [
            (each, canonical, format_variable(each), tests.get(canonical))
            for each in outermost
            if not is_search(each) and (canonical := get_canonical_name(each))
        ]

    @property
    def searches(self) -> int:
        """Return how many paths of the payload are searched for each alert."""
        return len(self._searches)

    def pick(self, subject: Subject, budget: Budget) -> tuple[Subject, dict[str, object], Texts | None]:
        """Return the data for the engine, and the values read, by name, for people. A missing value is None.

        The third value is what the verdict depends on, if the data are short texts and nothing else;
        otherwise it is None. Raises BudgetExceeded.
        """
        if self._everything:
            # The payload stands in the subject twice.
            for _ in range(2):
                _spend_on_value(subject.get("payload"), budget)
            return subject, {name: value for name, value in subject.items() if name != "alert"}, None
        data: dict[str, object] = {}
        read: dict[str, object] = {}
        texts: list[str | tuple[str | bool | None, ...]] | None = []
        length = 0
        for variable, steps, name, tests in self._variables:
            if len(steps) == 1:
                value = passed = subject.get(steps[0], MISSING)
                used = 1
            else:
                value, used, passed = _follow(subject, steps)
            if value is MISSING:
                read[name] = texts = None
                continue
            read[name] = value
            if texts is not None and type(passed) is str and used == len(steps):
                if tests is not None and len(passed) <= MAX_TESTED_LENGTH:
                    texts.append(tests.run(passed))
                else:
                    texts.append(passed)
                    length += len(passed)
            else:
                texts = None
            _spend_on_value(passed, budget)
            _set_value(data, variable if used == len(steps) else variable[: used - len(steps)], passed)
        if self._searches:
            found = {text: find_texts(subject, path, budget) for text, path in self._searches}
            # As `count_items` counts: the object, its members, and their items.
            budget.spend(STEPS, 1 + len(found) + sum(map(len, found.values())))
            data["found"] = found
            read.update(found)
            if texts is not None:
                texts += map(tuple, found.values())
                length += sum(len(text) + 1 for one in found.values() for text in one)
        is_short = texts is not None and length <= MAX_TEXTS_LENGTH
        return data, read, tuple(texts or ()) if is_short else None


def _spend_on_value(value: object, budget: Budget) -> None:
    """Spend the work to pass a value to the engine, and to write it down for people."""
    if type(value) is str:
        # Most values are texts; `count_items` counts the same.
        budget.spend(STEPS, 1 + len(value) // 500)
    elif isinstance(value, dict | list):
        budget.spend(STEPS, count_items(value, budget.get_left(STEPS)))


def _find_outermost(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Return the variables that are not inside another one."""
    all_variables = set(variables)
    return tuple(
        each
        for each in sorted(all_variables)
        if not any(each[:n] in all_variables for n in range(1, len(each)))
    )


def _set_value(data: dict[str, Any], variable: Variable, value: object) -> None:
    for step in variable[:-1]:
        data = data.setdefault(step, {})
    data[variable[-1]] = value
