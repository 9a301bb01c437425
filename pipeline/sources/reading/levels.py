"""The words that tools use for levels and states. A tool with other meanings has a table of its own."""

from collections.abc import Mapping

from models.domain.enums import AlertType

WORDS: Mapping[str, AlertType] = {
    **dict.fromkeys(("critical", "fatal", "emergency", "disaster", "page", "down", "p1"), AlertType.CRITICAL),
    **dict.fromkeys(("alerting", "alarm", "alert", "firing", "sev0", "sev1"), AlertType.CRITICAL),
    **dict.fromkeys(("error", "high", "major", "average", "unknown", "p2", "sev2"), AlertType.ERROR),
    **dict.fromkeys(("warning", "warn", "medium", "minor", "p3", "sev3"), AlertType.WARNING),
    **dict.fromkeys(("info", "information", "informational", "notice", "low", "none"), AlertType.INFO),
    **dict.fromkeys(("debug", "p4", "p5", "sev4"), AlertType.INFO),
    **dict.fromkeys(("acknowledged", "acknowledgement", "ack"), AlertType.ACKNOWLEDGED),
    **dict.fromkeys(("resolved", "recovered", "recovery", "ok", "up", "closed"), AlertType.RESOLVED),
}
# Words for states that say no level.
STATES: Mapping[str, AlertType] = {
    **WORDS,
    **dict.fromkeys(("open", "opened", "triggered", "active", "activated", "problem"), AlertType.CRITICAL),
    **dict.fromkeys(("fail", "failed", "failing", "failure", "offline", "unhealthy"), AlertType.CRITICAL),
    **dict.fromkeys(("cleared", "clear", "fixed", "healthy", "normal", "online"), AlertType.RESOLVED),
}
# The fields from which the generic form takes a level that it has not in its own field, in this order.
LEVEL_FIELDS, STATE_FIELDS, PRIORITY = ("severity", "level"), ("status", "state"), "priority"
_NO_LEVELS = frozenset((AlertType.ACKNOWLEDGED, AlertType.RESOLVED))


def assume_level(values: Mapping[str, object], *, with_priority: bool) -> tuple[str, AlertType] | None:
    """Return a field of other forms that says a level, and this level; None: none has a known word.

    The end of a problem counts before its severity. `with_priority`: the field is no reference to an object.
    """
    states = list(_list_known(values, STATE_FIELDS, STATES))
    ends = [found for found in states if found[1] in _NO_LEVELS]
    levels = list(_list_known(values, LEVEL_FIELDS, WORDS))
    priorities = list(_list_known(values, (PRIORITY,), WORDS)) if with_priority else []
    return next(iter((*ends, *levels, *states, *priorities)), None)


def _list_known(
    values: Mapping[str, object], names: tuple[str, ...], words: Mapping[str, AlertType]
) -> list[tuple[str, AlertType]]:
    texts = ((name, values.get(name)) for name in names)
    return [
        (name, words[text.strip().lower()])
        for name, text in texts
        if isinstance(text, str) and text.strip().lower() in words
    ]
