"""What a sender asks for with an alert of the current event operation: contract section 3.9.

Used where it names something that the team has, ignored without an error otherwise; the recorder says so.
"""

from collections.abc import Mapping
from typing import Any

from models.facts import Nameable, Named
from pipeline.actions import MOST_TAGS, named_by
from pipeline.alert import Alert


def planned(alert: Alert, nameable: Nameable) -> tuple[Alert, str]:
    """The alert with its sender's wishes in its plan, and what became of them ("" when it has none)."""
    wishes = alert.parsed.wishes
    found = {
        "escalation_policy": _known(nameable.policies, wishes.get("escalation_policy")),
        "sla": _known(nameable.slas, wishes.get("sla")),
        "team_priority": _known(nameable.priorities, wishes.get("priority")),
    }
    tags, unknown_tags = _tags(nameable.tags, wishes.get("tags"))
    granted: dict[str, Any] = {name: named.row for name, named in found.items() if named is not None}
    if tags:
        granted["tags"] = tuple(tag.row for tag in tags)
    asked = {"team_priority" if name == "priority" else name for name in wishes} & {*found, "tags"}
    ignored = sorted(asked - granted.keys())
    if tags and unknown_tags:
        ignored.append(f"{unknown_tags} of the tags")
    told = ""
    if granted:
        told += f"its sender asked for {', '.join(sorted(granted))}; "
    if ignored:
        told += f"ignored as unknown: {', '.join(ignored)}; "
    return (alert.wanting(**granted) if granted else alert), told


def _known(of: Mapping[str, Named], said: Any) -> Named | None:
    return named_by(of, said.strip()) if isinstance(said, str) and said.strip() else None


def _tags(of: Mapping[str, Named], said: Any) -> tuple[list[Named], int]:
    """The team's tags among those said, each once, and how many are none."""
    items = said if isinstance(said, list) else [said]
    found = [_known(of, item) for item in items[:MOST_TAGS]]
    return list({tag.row: tag for tag in found if tag is not None}.values()), found.count(None)
