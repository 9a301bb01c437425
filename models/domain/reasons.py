"""Reasons: why something happened, as a code and parameters. The text is made when the reason is shown.

Programs compare codes. The texts are in one table for each language: models/domain/reason_texts.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import Formatter
from typing import Union

from models.domain.reason_texts import ENGLISH

# A parameter: text, a number, a reason that is a part of the sentence, or a list of these. None: an option
# that is not set.
Parameter = Union[str, int, "Reason", None, tuple["Parameter", ...]]
# A reason as it is stored: JSON with the fields of Reason.
StoredReason = Mapping[str, object]

# The code of a text that a person wrote.
TEXT = "text"
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something happened. The texts of the reasons in `more` follow its own text.

    `str(reason)` is the English text.
    """

    code: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    more: tuple["Reason", ...] = ()

    def __str__(self) -> str:
        return render(self)

    def add(self, *more: "Reason | None") -> "Reason":
        """Return this reason with these reasons after it; None is left out."""
        added = [one for one in more if one is not None]
        return Reason(self.code, self.parameters, (*self.more, *added)) if added else self


def make_reason(code: str, /, **parameters: Parameter) -> Reason:
    """Return the reason with this code. A test compares codes and parameters with the table of texts."""
    return Reason(code, parameters)


def describe(text: str) -> Reason | None:
    """Return a text that a person wrote, as a reason; None if the text is empty."""
    return Reason(TEXT, {"text": text}) if text else None


def render(shown: Reason, texts: Mapping[str, str] = ENGLISH) -> str:
    """Return a reason as text in the language of `texts`.

    A code that this version does not know is shown with its parameters.
    """
    template = texts.get(shown.code)
    values = {name: _format(value, texts) for name, value in shown.parameters.items()}
    if template is None:
        listed = ", ".join(f"{name} {value}" for name, value in values.items())
        sentence = f"{shown.code}: {listed}" if listed else shown.code
    else:
        sentence = _FORMATTER.vformat(template, (), values)
    return " ".join([sentence, *(render(one, texts) for one in shown.more)])


def _format(value: Parameter, texts: Mapping[str, str]) -> object:
    if isinstance(value, Reason):
        return render(value, texts)
    if isinstance(value, tuple):
        return ", ".join(str(_format(each, texts)) for each in value)
    return value


def write_clause(shown: Reason) -> str:
    """Return a reason as the end of a sentence: without its capital letter and its full stop.

    A text that begins with a name, and a text of a person, keep their first letter.
    """
    template = ENGLISH.get(shown.code, "{}")
    begins = {**ENGLISH, shown.code: template.replace(":capital}", "}", 1)}
    text = render(shown, begins).removesuffix(".")
    is_word = template[:1] != "{" and template[:2] not in _KEEP_CAPITAL and template[:6] != "Tocsin"
    return text[:1].lower() + text[1:] if is_word else text


# The beginnings of abbreviations, which keep their capital letters.
_KEEP_CAPITAL = ("SL", "TL")


class _ReasonFormatter(Formatter):
    """Format the parameters of texts.

    `{name:duration}` is a number of seconds, `{name:time}` a time in ISO 8601, `{name:ordinal}` a number such
    as 2nd, and `{name:capital}` a text that begins a sentence.
    """

    def format_field(self, value: object, format_spec: str) -> str:
        match format_spec:
            case "duration":
                return format_duration(int(str(value)))
            case "time":
                return f"{datetime.fromisoformat(str(value)).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
            case "ordinal":
                return _format_ordinal(int(str(value)))
            case "capital":
                return str(value)[:1].upper() + str(value)[1:]
        return str(super().format_field(value, format_spec))


_FORMATTER = _ReasonFormatter()


def _format_ordinal(number: int) -> str:
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else _ENDINGS.get(number % 10, 'th')}"


_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def format_duration(seconds: int) -> str:
    """Format a length of time in its two largest units: 2 h 5 min."""
    parts = []
    for unit, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def from_json(stored: StoredReason) -> Reason:
    """Return a stored reason."""
    code, parameters, more = stored["code"], stored.get("parameters"), stored.get("more")
    return Reason(
        str(code),
        {name: _from_json(value) for name, value in parameters.items()}
        if isinstance(parameters, dict)
        else {},
        tuple(from_json(one) for one in more) if isinstance(more, list) else (),
    )


def _from_json(value: object) -> Parameter:
    if isinstance(value, dict):
        return from_json(value)
    if isinstance(value, list):
        return tuple(_from_json(each) for each in value)
    return value if isinstance(value, str | int) else None
