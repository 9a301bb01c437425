"""The alerts that Prometheus pushes to the API of Alertmanager, version 2; also Loki, Thanos and vmalert.

The sender has no state: it sends each alert again about once per minute while the alert fires. `endsAt` is
the time at which the alert ends if it is not sent again. So all alerts of this source are resent.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec

from models.domain.values import replace
from pipeline.alert import ParsedAlert
from pipeline.sources import prometheus
from pipeline.sources.reading.body import BadBody, RequestBody, parse_time

EXTENSION = "alertmanager"

_ITEMS = msgspec.json.Decoder(
    Annotated[list[Any], msgspec.Meta(max_length=prometheus.MAX_ALERTS)], strict=False
)
_FLAT = msgspec.json.Decoder(
    Annotated[list[prometheus.FlatItem], msgspec.Meta(min_length=1, max_length=prometheus.MAX_ALERTS)]
)
_GROUP = prometheus.Group(alerts=[])
# Between the texts of labels. They contain neither character, unless somebody wants to cause a confusion.
SEPARATOR, ESCAPE = "\x1f", "\x1e"


def count(body: RequestBody) -> int:
    """Return the number of alerts, or raise the error of `parse`. Set how many items the body has besides."""
    try:
        items = _FLAT.decode(body.raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return len(parse(body))
    found = sum(bool(_clean_labels(item.labels)) for item in items)
    body.left_out = len(items) - found
    return found or len(parse(body))


def parse(body: RequestBody) -> list[ParsedAlert]:
    """Return the alerts of a list in order, without those that have no labels. BadBody if none is left."""
    items = body.decode(_ITEMS)
    found = list(_read_alerts(items))
    body.left_out = len(items) - len(found)
    if not found:
        raise BadBody("", "has no alert with labels")
    return found


def _read_alerts(items: Iterable[object]) -> Iterator[ParsedAlert]:
    for value in items:
        try:
            item = msgspec.convert(value, prometheus.Item, strict=False)
        except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):
            continue
        labels = _clean_labels(item.labels)
        if labels:
            with suppress(BadBody):
                yield _parse_alert(item, labels)


def _parse_alert(item: prometheus.Item, labels: dict[str, object]) -> ParsedAlert:
    item.labels, item.fingerprint, item.status = labels, _hash(labels), None
    parsed = prometheus.parse_alert(item, _GROUP, {})
    return replace(parsed, is_resent=True, ends_at=parse_time(item.endsAt))


def _clean_labels(labels: Mapping[str, object] | None) -> dict[str, object]:
    """Return the labels that have a value: an empty one counts as missing, as in Prometheus."""
    return {name: value for name, value in (labels or {}).items() if value not in ("", None)}


def _hash(labels: Mapping[str, object]) -> str:
    """Return the entity_id of an alert: its labels identify it. Other labels give another entity_id."""
    named = sorted((name, str(value)) for name, value in labels.items())
    encoded = SEPARATOR.join(_escape(text) for pair in named for text in pair).encode(
        "utf-8", "surrogatepass"
    )
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def _escape(text: str) -> str:
    return text.replace(ESCAPE, ESCAPE * 2).replace(SEPARATOR, f"{ESCAPE}s")
