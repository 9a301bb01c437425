"""What a global router makes of a body: an alert for each integration that its rules name.

The first rule that matches acts, with all its actions; if none does, the alert is kept, marked suppressed,
and reaches nobody (contract section 4.7). Pure: the shell is workers/routing.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from models.effects import EventState
from models.enums import RouterAction, Urgency
from models.facts import RouterFacts, RouterRuleFacts, TargetFacts
from pipeline import rulesets
from pipeline.alert import Alert, Parsed
from pipeline.conditions import Subject, subject_of
from pipeline.road import Traveller, row_of
from pipeline.sources import SOURCES, generic
from pipeline.sources.body import BadBody
from pipeline.stages.normalize import identified, understood
from pipeline.topology import AFTER_ROUTING

Reasons = tuple[tuple[str, str], ...]

# Alerts that one body may become: the largest group of Alertmanager's for one target, or 2,000 alerts for
# each of 25. They are written in one transaction; measured, 8 s on SQLite, and 4 kB of memory for each.
MOST_EVENTS = 50_000


class TooMany(ValueError):
    """A body that would become more than MOST_EVENTS alerts."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A body that came by a router's key; `source` is the extension of its URL."""

    trace_id: str
    receipt: int
    source: str
    body: bytes
    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class Choice:
    """What a router's rules say of one alert; `records` tell each rule that was looked at."""

    reason: str
    targets: tuple[TargetFacts, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()


class Routing:
    """A router's rules, compiled. To be kept and shared, also between threads."""

    def __init__(self, facts: RouterFacts) -> None:
        self.facts = facts
        self._conditions = [rulesets.condition_of(rule.rule_json) for rule in facts.rules]
        self._index = rulesets.index_of(self._conditions)

    def routed(self, incoming: Incoming) -> list[EventState]:
        """The alerts to write, in their order. Raises BadBody for what acceptance should have refused, and
        TooMany."""
        every = (event for alert in _alerts(incoming) for event in self._events(incoming, alert))
        events = list(islice(every, MOST_EVENTS + 1))
        if len(events) > MOST_EVENTS:
            raise TooMany
        return events

    def _events(self, incoming: Incoming, alert: Alert) -> Iterator[EventState]:
        choice = self.choose(_subject(incoming, alert))
        reasons = (("normalize", understood(alert)), ("route", choice.reason))
        if not choice.targets:
            lost = Traveller(alert.but(suppressed=True), reasons, choice.records)
            yield replace(row_of(lost, None, None), integration=None)
        for target in choice.targets:
            for sent in _for_target(incoming, alert, target):
                traveller = Traveller(sent, reasons, choice.records, AFTER_ROUTING)
                yield row_of(traveller, target.service, AFTER_ROUTING)

    def choose(self, subject: Subject) -> Choice:
        """The first rule that matches, and what it says."""
        records = []
        for place in self._index.candidates(subject):
            rule, verdict = self.facts.rules[place], self._conditions[place].verdict(subject)
            records.append(rulesets.record_of(rule.unique_id, rule.name, verdict))
            if verdict.matches:
                return replace(self._choice(rule), records=rulesets.cut_off(records))
        reason = f"no rule of router {self.facts.name} matches: it reaches nobody"
        return Choice(reason, records=rulesets.cut_off(records))

    def _choice(self, rule: RouterRuleFacts) -> Choice:
        """An alert that one action sends on and another drops is sent on: somebody may be waiting for it."""
        whose = f"rule {rule.name or rule.unique_id} of router {self.facts.name}"
        routes = [a["integration"] for a in rule.actions if a["action_type"] == RouterAction.ROUTE]
        named = [self.facts.targets.get(unique_id) for unique_id in dict.fromkeys(routes)]
        targets = tuple(target for target in named if target is not None and target.is_open)
        closed = [target.name for target in named if target is not None and not target.is_open]
        notes = [f"{name} takes no alerts" for name in closed]
        if named.count(None):
            notes.append(f"{named.count(None)} integrations of it are gone")
        if targets:
            notes.insert(0, f"sent to {', '.join(target.name for target in targets)}")
        elif not rule.actions:
            notes.append("it has no actions, it reaches nobody")
        elif not routes:
            notes.append("suppressed")
        else:
            notes.append("it reaches nobody")
        return Choice(f"{whose}: {'; '.join(notes)}", targets)


def _alerts(incoming: Incoming) -> Sequence[Alert]:
    """The body's alerts as its URL says; a generic form is one, and read anew for each target."""
    if incoming.source == generic.EXTENSION:
        parsed = [generic.any_form(incoming.body)]
    else:
        parsed = SOURCES[incoming.source].parse(incoming.body)
    return [_alert(incoming, place, each, 0) for place, each in enumerate(parsed)]


def _alert(incoming: Incoming, position: int, parsed: Parsed, integration: int) -> Alert:
    return identified(
        incoming.trace_id, incoming.receipt, position, integration, incoming.accepted_at, parsed
    )


def _subject(incoming: Incoming, alert: Alert) -> Subject:
    """Conditions of a router look at the whole posted body, not only at the payload in it."""
    subject = subject_of(alert, Urgency.HIGH, incoming.accepted_at, None)
    if incoming.source != generic.EXTENSION:
        return subject
    fields = {**subject["alert"], "payload": generic.posted(incoming.body)}
    return {**fields, "alert": fields}


def _for_target(incoming: Incoming, alert: Alert, target: TargetFacts) -> Iterator[Alert]:
    """The alert as this integration would have read it."""
    if incoming.source != generic.EXTENSION:
        yield _alert(incoming, alert.position, alert.parsed, target.integration)
        return
    for place, each in enumerate(read_by(target.source, incoming.body)):
        yield _alert(incoming, place, each, target.integration)


def read_by(source: str, body: bytes) -> list[Parsed]:
    """A generic form on a router's key, as a target with this source reads it.

    What is no form that the target knows may still mean something to its rules.
    """
    if source == generic.EXTENSION:
        return [generic.any_form(body)]
    try:
        return SOURCES[source].parse(body)
    except BadBody:
        return [generic.any_form(body)]
