"""Turn a body sent to a global router into an alert for each integration that its rules name.

The actions of the first rule that matches apply. If no rule matches, the alert is stored as suppressed and
nobody is notified (contract section 4.7). This module is pure; its shell is workers/alerts/process_router.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from models.domain.effects import EventState
from models.domain.enums import RouterAction, Urgency
from models.domain.facts import RouterFacts, RouterRuleFacts, RouteTarget
from pipeline.alert import Alert, ParsedAlert
from pipeline.rules import rulesets
from pipeline.rules.conditions import Subject, build_subject
from pipeline.run_stages import AlertInProgress, build_event
from pipeline.sources import SOURCES, generic
from pipeline.sources.body import BadBody
from pipeline.stages.normalize import build_alert, describe_alert
from pipeline.topology import AFTER_ROUTING

Reasons = tuple[tuple[str, str], ...]

# The most alerts that one body can become: the largest group of Alertmanager for one target, or 2,000 alerts
# for each of 25. They are written in one transaction; measured, 8 s on SQLite, and 4 kB of memory for each.
MAX_EVENTS = 50_000


class TooManyAlerts(ValueError):
    """A body would become more than MAX_EVENTS alerts."""


@dataclass(frozen=True, slots=True)
class RouterRequest:
    """A body that was sent with a router's key. `source` is the extension of its URL."""

    trace_id: str
    receipt: int
    source: str
    body: bytes
    accepted_at: datetime


@dataclass(frozen=True, slots=True)
class RoutingResult:
    """The result of a router's rules for one alert.

    `records` has an entry for each rule that was evaluated.
    """

    reason: str
    targets: tuple[RouteTarget, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()


class CompiledRouter:
    """The compiled rules of a router. Keep and share it, also between threads."""

    def __init__(self, facts: RouterFacts) -> None:
        self.facts = facts
        self._conditions = [rulesets.compile_condition(rule.rule_json) for rule in facts.rules]
        self._index = rulesets.build_index(self._conditions)

    def route(self, incoming: RouterRequest) -> list[EventState]:
        """Return the alerts to write, in order.

        Raises BadBody for a body that should have been refused when it was accepted, and TooManyAlerts.
        """
        every = (event for alert in _parse_alerts(incoming) for event in self._build_events(incoming, alert))
        events = list(islice(every, MAX_EVENTS + 1))
        if len(events) > MAX_EVENTS:
            raise TooManyAlerts
        return events

    def _build_events(self, incoming: RouterRequest, alert: Alert) -> Iterator[EventState]:
        choice = self.choose(_build_subject(incoming, alert))
        reasons = (("normalize", describe_alert(alert)), ("route", choice.reason))
        if not choice.targets:
            unrouted = AlertInProgress(alert.with_changes(suppressed=True), reasons, choice.records)
            yield replace(build_event(unrouted, None, None), integration=None)
        for target in choice.targets:
            for sent in _parse_for_target(incoming, alert, target):
                progress = AlertInProgress(sent, reasons, choice.records, AFTER_ROUTING)
                yield build_event(progress, target.service, AFTER_ROUTING)

    def choose(self, subject: Subject) -> RoutingResult:
        """Return the result of the first rule that matches."""
        records = []
        for index in self._index.find_candidates(subject):
            rule, verdict = self.facts.rules[index], self._conditions[index].evaluate(subject)
            records.append(rulesets.build_record(rule.unique_id, rule.name, verdict))
            if verdict.matches:
                return replace(self._choose_targets(rule), records=rulesets.limit_records(records))
        reason = f"no rule of router {self.facts.name} matches: it reaches nobody"
        return RoutingResult(reason, records=rulesets.limit_records(records))

    def _choose_targets(self, rule: RouterRuleFacts) -> RoutingResult:
        """Return the targets of a rule. If one action routes an alert and another drops it, it is routed.

        An alert too many does less harm than a missing one.
        """
        prefix = f"rule {rule.name or rule.unique_id} of router {self.facts.name}"
        routes = [a["integration"] for a in rule.actions if a["action_type"] == RouterAction.ROUTE]
        matches = [self.facts.targets.get(unique_id) for unique_id in dict.fromkeys(routes)]
        targets = tuple(target for target in matches if target is not None and target.accepts_alerts)
        closed = [target.name for target in matches if target is not None and not target.accepts_alerts]
        notes = [f"{name} takes no alerts" for name in closed]
        if matches.count(None):
            notes.append(f"{matches.count(None)} of its integrations are deleted")
        if targets:
            notes.insert(0, f"sent to {', '.join(target.name for target in targets)}")
        elif not rule.actions:
            notes.append("it has no actions, it reaches nobody")
        elif not routes:
            notes.append("suppressed")
        else:
            notes.append("it reaches nobody")
        return RoutingResult(f"{prefix}: {'; '.join(notes)}", targets)


def _parse_alerts(incoming: RouterRequest) -> Sequence[Alert]:
    """Return the body's alerts as the extension of its URL says.

    A body in the generic form is one alert, and is parsed again for each target.
    """
    if incoming.source == generic.EXTENSION:
        parsed = [generic.parse_any(incoming.body)]
    else:
        parsed = SOURCES[incoming.source].parse(incoming.body)
    return [_build_alert(incoming, index, each, 0) for index, each in enumerate(parsed)]


def _build_alert(incoming: RouterRequest, position: int, parsed: ParsedAlert, integration: int) -> Alert:
    return build_alert(
        incoming.trace_id, incoming.receipt, position, integration, incoming.accepted_at, parsed
    )


def _build_subject(incoming: RouterRequest, alert: Alert) -> Subject:
    """Return the subject of a router's conditions: the payload is the whole body, not only the payload
    in it.
    """
    subject = build_subject(alert, Urgency.HIGH, incoming.accepted_at, None)
    if incoming.source != generic.EXTENSION:
        return subject
    fields = {**subject["alert"], "payload": generic.decode_object(incoming.body)}
    return {**fields, "alert": fields}


def _parse_for_target(incoming: RouterRequest, alert: Alert, target: RouteTarget) -> Iterator[Alert]:
    """Return the alert as this integration would have parsed it."""
    if incoming.source != generic.EXTENSION:
        yield _build_alert(incoming, alert.position, alert.parsed, target.integration)
        return
    for index, each in enumerate(parse_for_source(target.source, incoming.body)):
        yield _build_alert(incoming, index, each, target.integration)


def parse_for_source(source: str, body: bytes) -> list[ParsedAlert]:
    """Return the alerts of a body in the generic form as a target with this source parses it.

    A body that the source cannot parse is parsed as a generic object, since the target's rules may understand
    it.
    """
    if source == generic.EXTENSION:
        return [generic.parse_any(body)]
    try:
        return SOURCES[source].parse(body)
    except BadBody:
        return [generic.parse_any(body)]
