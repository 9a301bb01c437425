"""A finding of `tocsin check`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

# The kind of a finding that says that not all findings are listed, or that the check is incomplete.
TRUNCATED = "truncated"


# What to change and where, by the kind of finding.
ADVICE: Mapping[str, str] = {
    "gap": "Add an override on the page of the schedule, people to its layers, or a person to a step of the"
    " policy.",
    "reaches_nobody": "Add a person, or a schedule with people, to a step of the policy.",
    "no_target": "Add a person or a schedule to the step, or remove the step from the policy.",
    "same_people": "Name another person or schedule in the later step of the policy, or end the forwarding"
    " rule.",
    "twice": "Change the turns of one schedule, or add an override on its page. If that is intended, set"
    " double_shifts of the schedule.",
    "not_in_team": "Add the person to the team, or replace the person in the schedule.",
    "handoffs_moved": "Let the schedule count turns in local time, or accept that its handoffs move.",
    "no_rule": "The person adds a contact on the page /mine/, verifies it, and adds a notification rule.",
    "not_joined": "Send the invitation again: POST /api/tocsin/users/USERNAME/invitation/. It is valid for 7"
    " days.",
    "forwarded_again": "Let the first forwarding rule name the last person, or end one of the two.",
    "maintenance": "Set under_maintenance of the service to false, or end the maintenance of the team.",
    "no_policy": "Set an escalation policy of the service.",
    "no_name": "Set a name of the service.",
    "unknown_zone": "Set a time zone that this host knows, or install the time zone database (tzdata).",
    "no_catch_all": "Add a last rule without a condition to the router.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a check.

    `team` is "" for a finding about the whole installation. A `minor` finding needs no action now.
    `start` and `end` are None for a finding that is not about a time. `times` is the number of occurrences.
    `hidden` are the numbers of findings that are not listed, by kind, for a finding that counts them.
    """

    kind: str
    team: str
    about: str
    what: str
    minor: bool = False
    start: datetime | None = None
    end: datetime | None = None
    times: int = 1
    hidden: Mapping[str, int] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """What to change, and where; empty if the finding says it already."""
        return ADVICE.get(self.kind, "")

    @property
    def total(self) -> int:
        """Return the number of findings that this one stands for."""
        return sum(self.hidden.values()) or 1
