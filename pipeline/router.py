"""The compiled rules of a global router, and the state of its lane.

The actions of the first rule that matches apply (contract section 4.7). The stage `route`
(pipeline/stages/route.py) applies the result to an alert; workers/alerts/process_router.py runs the lane.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from models.domain.effects import Effect
from models.domain.enums import RouterAction
from models.domain.facts import RouterFacts, RouterRuleFacts, RouteTarget
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.alert import Alert, ParsedAlert
from pipeline.rules import rulesets
from pipeline.rules.conditions import Budget, Subject
from pipeline.rules.one_at_a_time import evaluate_one_at_a_time
from pipeline.rules.records import Records
from pipeline.sources.reading.body import RequestBody

# The most alerts that one body can become: the largest group of Alertmanager for one target, or 2,000 alerts
# for each of 25 targets. They take 8 s on SQLite in all, in many transactions.
MAX_EVENTS = 50_000


class TooManyAlerts(ValueError):
    """A body would become more than MAX_EVENTS alerts."""


@dataclass(frozen=True, slots=True)
class RoutingResult:
    """The result of a router's rules for one alert.

    `records` has an entry for each rule that was evaluated. `skipped` counts the rules that the budget of the
    alert did not suffice for.
    """

    reason: Reason
    targets: tuple[RouteTarget, ...] = ()
    records: tuple[Mapping[str, object], ...] = ()
    skipped: int = 0


class CompiledRouter:
    """The compiled rules of a router. Keep and share it, also between threads."""

    def __init__(self, facts: RouterFacts) -> None:
        self.facts = facts
        self._conditions = [rulesets.compile_condition(rule.rule_json) for rule in facts.rules]
        self._index = rulesets.build_index(self._conditions)

    def choose(self, subject: Subject, budget: Budget) -> RoutingResult:
        """Return the result of the first rule that matches. Skip rules that the budget does not suffice
        for.
        """
        candidates = self._index.find_candidates(subject, budget)
        with evaluate_one_at_a_time(candidates):
            return self._choose_first(candidates, subject, budget)

    def _choose_first(self, candidates: Iterable[int], subject: Subject, budget: Budget) -> RoutingResult:
        records = Records()
        skipped = 0
        result = RoutingResult(make_reason("no_router_rule", router=self.facts.name))
        for position in candidates:
            rule, verdict = self.facts.rules[position], self._conditions[position].evaluate(subject, budget)
            records.add(rule.unique_id, rule.name, verdict)
            skipped += verdict.is_skipped
            if verdict.matches:
                result = self._choose_targets(rule)
                break
        if skipped:
            result = replace(result, reason=result.reason.add(make_reason("rules_skipped", count=skipped)))
        return replace(result, records=records.build(), skipped=skipped)

    def _choose_targets(self, rule: RouterRuleFacts) -> RoutingResult:
        """Return the targets of a rule. If one action routes and another suppresses, the alert is routed.

        An unnecessary alert does less harm than a missing one.
        """
        routes = [a["integration"] for a in rule.actions if a["action_type"] == RouterAction.ROUTE]
        matches = [self.facts.targets.get(unique_id) for unique_id in dict.fromkeys(routes)]
        targets = tuple(target for target in matches if target is not None and target.accepts_alerts)
        closed = [target.name for target in matches if target is not None and not target.accepts_alerts]
        notes = [make_reason("target_closed", target=name) for name in closed]
        if matches.count(None):
            notes.append(make_reason("targets_deleted", count=matches.count(None)))
        return RoutingResult(self._explain(rule, targets, bool(routes)).add(*notes), targets)

    def _explain(self, rule: RouterRuleFacts, targets: Sequence[RouteTarget], routes: bool) -> Reason:
        name, router = rule.name or rule.unique_id, self.facts.name
        if targets:
            names = tuple(target.name for target in targets)
            return make_reason("router_rule_sent", rule=name, router=router, targets=names)
        if not rule.actions:
            return make_reason("router_rule_empty", rule=name, router=router)
        if not routes:
            return make_reason("router_rule_suppressed", rule=name, router=router)
        return make_reason("router_rule_without_target", rule=name, router=router)


@dataclass(slots=True)
class RouterLane:
    """The state of a router's lane while one body is processed. The lane has no service and no entities.

    `source` is the extension of the URL that the body was sent to. `received_at` is set if the body was
    a dead letter and was accepted again. `event_count` is the number of alerts that
    the body has become so far. If the body is processed in pieces, `alerts` are those of one piece, from the
    position `start` of `group_size` alerts.
    """

    router: CompiledRouter
    trace_id: str
    receipt: int
    source: str
    body: RequestBody
    accepted_at: datetime
    event_count: int = 0
    alerts: Sequence[ParsedAlert] | None = None
    start: int = 0
    group_size: int = 1
    received_at: datetime | None = None
    service_row: None = field(default=None, init=False)
    # The first alert whose budget did not suffice.
    skipped: Alert | None = field(default=None, init=False)

    def record_skipped(self, alert: Alert) -> None:
        """Record that the budget of an alert did not suffice for the router's rules."""
        self.skipped = self.skipped or alert

    def count_events(self, more: int) -> None:
        """Count the alerts that one alert of the body becomes. Raises TooManyAlerts."""
        self.event_count += more
        if self.event_count > MAX_EVENTS:
            raise TooManyAlerts

    def apply_effects(self, effects: Iterable[Effect]) -> None:
        """Raise ValueError for any effect: the stages up to `route` have none."""
        if any(True for _ in effects):
            raise ValueError("a stage up to routing has no effects")
