"""Apply what a sender requests with an alert of the current event operation: contract section 3.9.

A request that names an object of the team is applied. Other requests are ignored without an error, and the
alert trace shows them.
"""

from models.domain.facts import Reference, ReferenceMap, References
from models.domain.reasons import Reason, make_reason
from pipeline.alert import Alert
from pipeline.rules.actions import MAX_TAGS


def apply_requested(alert: Alert, references: References) -> tuple[Alert, tuple[Reason, ...]]:
    """Return the alert with its requested options applied, and the notes on them for the alert trace."""
    requested_options = alert.parsed.requested_options
    found = {
        "escalation_policy": _look_up(references.policies, requested_options.get("escalation_policy")),
        "sla": _look_up(references.slas, requested_options.get("sla")),
        "team_priority": _look_up(references.priorities, requested_options.get("priority")),
    }
    tags, unknown_tags = _find_tags(references.tags, requested_options.get("tags"))
    options: dict[str, object] = {
        name: reference.row for name, reference in found.items() if reference is not None
    }
    if tags:
        options["tags"] = tuple(tag.row for tag in tags)
    requested = {"team_priority" if name == "priority" else name for name in requested_options} & {
        *found,
        "tags",
    }
    ignored: list[str | Reason] = [*sorted(requested - options.keys())]
    if tags and unknown_tags:
        ignored.append(make_reason("tags_unknown", count=unknown_tags))
    notes: tuple[Reason, ...] = ()
    if options:
        notes += (make_reason("options_requested", options=tuple(sorted(options))),)
    if ignored:
        notes += (make_reason("options_unknown", options=tuple(ignored)),)
    return (alert.with_options(**options) if options else alert), notes


def _look_up(references: ReferenceMap, value: object) -> Reference | None:
    return references.find(value.strip()) if isinstance(value, str) and value.strip() else None


def _find_tags(references: ReferenceMap, value: object) -> tuple[list[Reference], int]:
    """Return the tags of the team that the value names, each once, and the number of unknown tags."""
    items = value if isinstance(value, list) else [value]
    found = [_look_up(references, item) for item in items[:MAX_TAGS]]
    return list({tag.row: tag for tag in found if tag is not None}.values()), found.count(None)
