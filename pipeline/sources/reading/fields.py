"""What the normalizers of all tools share: read fields of any type, levels, identifiers and times.

No body of a tool is trusted to have the documented types. A field of another type counts as missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from models.domain.enums import AlertType
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources.reading import generic, levels, unknown_form
from pipeline.sources.reading.body import BadBody, RequestBody, check_payload, parse_time
from pipeline.sources.reading.cleaning import (
    PAYLOAD_DEPTH,
    clean_entity_id,
    clean_line,
    clean_text,
    clean_url,
    trim_payload,
)

# The level of an alert whose source sends none that Tocsin knows: such an alert should not be missed.
DEFAULT_LEVEL = AlertType.CRITICAL

# The most alerts of one body, and the most bytes that the fields of a group may need with all its alerts.
MAX_ALERTS = 10_000
MAX_SHARED_BYTES = 16 * 1024 * 1024
# What is left of an item of a group that is nested too deeply. The item is within other objects.
ITEM_DEPTH = PAYLOAD_DEPTH - 5

# Words that tools use for levels. A tool with other meanings has a table of its own.
LEVELS: Mapping[str, AlertType] = levels.WORDS

Value = Mapping[str, object]


class Fields:
    """An object of JSON. A path such as `data.issue.id` names a field of an object inside it."""

    def __init__(self, value: object) -> None:
        self.value: Value = value if isinstance(value, dict) else {}

    def get(self, path: str) -> object:
        """Return the value at a path; None if there is none. A number is a place in a list."""
        return find(self.value, path)

    def has(self, *paths: str) -> bool:
        """Return whether one of these paths has a value."""
        return any(self.get(path) is not None for path in paths)

    def text(self, *paths: str) -> str:
        """Return the first text that is not blank, also of a number or of the first item of a list; or ""."""
        return next((text for path in paths if (text := to_text(self.get(path)))), "")

    def within(self, path: str) -> "Fields":
        return Fields(self.get(path))


def find(value: object, path: str) -> object:
    """Return the value at a path of names with dots between them; None if there is none."""
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal() and len(name) < 6:
            place = int(name)
            value = value[place] if place < len(value) else None
        else:
            return None
    return value


def to_text(value: object) -> str:
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


@dataclass(frozen=True, slots=True)
class Level:
    """A level, and what the reason says about it.

    `is_default`: the source sent no level that Tocsin knows.
    """

    alert_type: AlertType
    remarks: tuple[Reason, ...] = ()
    is_default: bool = False


def read_level(sent: str, table: Mapping[str, AlertType] = LEVELS) -> Level:
    """Return the level for a word or number of a source; the default level if it is unknown."""
    known = table.get(sent.lower())
    if known is not None:
        return Level(known)
    if not sent:
        return Level(DEFAULT_LEVEL, (make_reason("level_missing"),), is_default=True)
    return Level(DEFAULT_LEVEL, (make_reason("level_unknown", level=clean_line(sent, 100)),), is_default=True)


def read_optional_level(sent: str, table: Mapping[str, AlertType] = LEVELS) -> Level:
    """Return the level as read_level() does. That the source sends none is usual, and no reason says it."""
    return read_level(sent, table) if sent else Level(DEFAULT_LEVEL, is_default=True)


def join_entity(*parts: str) -> str:
    """Return one identifier of several parts. Different parts never give the same identifier.

    "" if all parts are empty: the alert is then about nothing known, and alone.
    """
    if not any(parts):
        return ""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def read_time(value: object) -> datetime | None:
    """Return an RFC 3339 time, or seconds, ms or µs since 1970, as aware UTC; else None."""
    if isinstance(value, str) and not value.strip().isdecimal():
        return parse_time(value.strip())
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
        # Seconds of the year 5138 and later are milliseconds, and those of later years microseconds.
        seconds = number / (1e6 if number >= 1e14 else 1e3 if number >= 1e11 else 1)
        at = datetime.fromtimestamp(seconds, UTC) if number > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
    return parse_time(at.isoformat()) if at else None


def build_links(*links: tuple[str, str]) -> tuple[Mapping[str, str], ...]:
    """Return the links of an alert from pairs of text and address. Only http and https are kept."""
    known = ((text, clean_url(url)) for text, url in links)
    return tuple({"link_url": url, "link_text": text} for text, url in known if url)


def build_alert(
    payload: Value,
    level: Level,
    *,
    message: str,
    entity: str,
    summary: str = "",
    links: Sequence[tuple[str, str]] = (),
    at: object = None,
    suppressed: bool = False,
) -> ParsedAlert:
    """Return an alert of a tool. `payload` is checked already; "" as entity: the source gave none."""
    return ParsedAlert(
        message=clean_line(message) or generic.NO_MESSAGE,
        summary=clean_text(summary),
        alert_type=level.alert_type,
        entity_id=clean_entity_id(entity) or None,
        payload=payload,
        urls=build_links(*links),
        suppressed=suppressed,
        source_at=read_time(at),
        remarks=level.remarks,
        has_default_level=level.is_default,
    )


def build_note(payload: Value, *, message: str, entity: str = "") -> ParsedAlert:
    """Return an alert that opens, changes and resolves nothing, such as the start of a downtime."""
    return build_alert(payload, Level(AlertType.INFO), message=message, entity=entity, suppressed=True)


def build_broken(kind: str, item: object) -> ParsedAlert:
    """Return an alert for an item of a group that is not in the form of its tool."""
    level = Level(DEFAULT_LEVEL, (make_reason("alert_unreadable", kind=kind),), is_default=True)
    payload = check_payload({"item": trim_payload(item, ITEM_DEPTH)})
    return build_alert(payload, level, message=f"{kind}: alert that cannot be read", entity="")


def clean_items(items: Iterable[object]) -> list[object]:
    """Return the items of a group, ready to store. One that is nested too deeply becomes a list with it.

    It is then no object, and so read_items() reads it as an alert that cannot be read.
    """
    return [_clean_item(item) for item in items]


def _clean_item(item: object) -> object:
    try:
        return check_payload({"item": item})["item"]
    except BadBody:
        return [trim_payload(item, ITEM_DEPTH)]


def read_items(kind: str, items: object, read: Callable[[Fields], ParsedAlert]) -> list[ParsedAlert]:
    """Return an alert for each item of a group, so that one bad item does not lose the others.

    Raises BadBody for a group without an object, and for more than MAX_ALERTS items.
    """
    known = items if isinstance(items, list) else []
    if not known:
        raise BadBody("alerts", "may not be empty")
    if not any(isinstance(one, dict) for one in known):
        raise BadBody("alerts", "has no object")
    if len(known) > MAX_ALERTS:
        raise BadBody("alerts", f"may have at most {MAX_ALERTS:,} items")
    return [read(Fields(one)) if isinstance(one, dict) else build_broken(kind, one) for one in known]


def pick_shared(data: Value, left_out: Iterable[str], count: int) -> Value:
    """Return the fields of a group for the payload of each of `count` alerts; {} if they need too much."""
    hidden = frozenset(left_out)
    shared = {name: value for name, value in data.items() if name not in hidden}
    return shared if len(msgspec.json.encode(shared)) * count <= MAX_SHARED_BYTES else {}


def read_group(body: RequestBody, name: str) -> Value:
    """Return a JSON object as read_object() does, also if items of its list `name` are nested too deeply.

    Raises the same error if no item can be read.
    """
    try:
        return read_object(body)
    except BadBody as error:
        data = body.decode_json()
        items = data.get(name) if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(items, list):
            raise
        cleaned = clean_items(items)
        if not any(isinstance(item, dict) for item in cleaned):
            raise error from None
        return check_payload({**data, name: cleaned}, "body")


def read_object(body: RequestBody) -> Value:
    """Return a JSON object or the fields of a form, ready to store. Raises BadBody for anything else.

    Many clients name the type of a form if nobody tells them another one.
    """
    is_json = body.raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    if body.is_form() and not is_json:
        return check_payload(body.decode_form(), "body")
    return generic.decode_object(body)


def as_parser(
    kind: str,
    is_known: Callable[[Fields], bool],
    read: Callable[[Fields], Iterable[ParsedAlert]],
    decode: Callable[[RequestBody], Value] = read_object,
) -> Callable[[RequestBody], list[ParsedAlert]]:
    """Return the `parse` of a tool. An object in another form is read as read_other() does.

    `decode` returns the object of a body, or raises BadBody.
    """

    def parse(body: RequestBody) -> list[ParsedAlert]:
        fields = Fields(decode(body))
        if is_known(fields):
            return list(read(fields))
        return [read_other(kind, fields.value)]

    return parse


def read_other(kind: str, data: Value) -> ParsedAlert:
    """Return an object that is not in the form of this tool, as read_unnamed() does; its remarks say so."""
    alert = read_unnamed(data)
    return replace(alert, remarks=(make_reason("other_form", kind=kind), *alert.remarks))


def read_unnamed(data: Value) -> ParsedAlert:
    """Return an object in an unknown form as an alert that should not be missed: critical.

    Only the field `alert_type` of the generic form says another level. In any other form, no word is sure to
    mean that nobody needs to know. Without a title and an entity_id, both are guessed.
    """
    alert = generic.read(data)
    title = alert.message if alert is not None else ""
    found = unknown_form.guess(data, title)
    if alert is None:
        remark = make_reason("title_guessed", field=found.title_field) if found.title_field else None
        alert = generic.build_other(data, found.title or unknown_form.WITHOUT_TITLE, remark)
    if alert.has_default_level:
        remarks = (make_reason("level_missing"), *alert.remarks)
        alert = replace(alert, alert_type=DEFAULT_LEVEL, remarks=remarks)
    return _name_problem(alert, found)


def complete(kind: str, alert: ParsedAlert) -> ParsedAlert:
    """Return an alert of a tool with a title and an entity_id, if its body had none where the tool has them.

    Such a body was not in the form of the tool, although it looked like one. A note and a comment stay.
    """
    if alert.message != generic.NO_MESSAGE or alert.suppressed or alert.is_comment:
        return alert
    found = unknown_form.guess(alert.payload)
    remarks = [make_reason("other_form", kind=kind)]
    if found.title_field:
        remarks.append(make_reason("title_guessed", field=found.title_field))
    title = found.title or unknown_form.WITHOUT_TITLE
    return _name_problem(replace(alert, message=title, remarks=(*remarks, *alert.remarks)), found)


def _name_problem(alert: ParsedAlert, found: unknown_form.Guess) -> ParsedAlert:
    """Return an alert with an entity_id: that of the sender, or else what was found to name the problem."""
    if alert.entity_id is not None:
        return alert
    entity_id = clean_entity_id(join_entity(*found.names)) or None
    return replace(alert, entity_id=entity_id, entity_from=", ".join(found.named_by))
