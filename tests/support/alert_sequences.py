"""Sequences of alerts, rules and routers that can be processed repeatedly, in batches of any size.

The result must not depend on batches, on queue splits, or on the number of workers (invariant 6, design,
section 2).
"""

import json
import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, combinations
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from models.domain.applications import GENERIC
from models.domain.enums import Collation, MatchMode, WorkState
from models.domain.values import replace
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import connection, db, store
from models.tables.accounts import bump_version
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import (
    Incident,
    IncidentAssignment,
    IncidentGroup,
    IncidentLog,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.tables.notifications import Notification
from models.tables.rules import AlertGroupingPolicy
from models.tables.schedules import ScheduleOverride
from models.tables.services import Integration, Service
from models.tables.tasks import TaskTemplate, TemplateTask
from models.tables.teams import EscalationPolicy, IncidentRole, Tag
from models.tables.timers import Timer
from models.tables.users import ForwardingRule
from pipeline.topology import build_segments
from tests.support import stores
from tests.support.alerts import accept, list_rows
from tests.support.rules import (
    RuleAction,
    accept_from_router,
    action,
    add_router,
    add_router_rule,
    add_rule,
    equals,
    var,
)
from tests.support.scenarios.timers import set_policy
from tests.support.schedules import stored
from tests.support.world import World, create_world
from workers import config_cache
from workers.alerts import load_lane_state, pieces, process_lane, process_lanes, process_router
from workers.alerts.batches import BatchSize, DecisionTime

A = RuleAction
PROCESSED_AFTER = timedelta(minutes=20)
LEVELS = ("critical", "critical", "critical", "error", "info", "acknowledged", "resolved", "resolved")
ENTITIES = ("a", "b", "c", "d")
# Seconds between alerts: none, some, and more than collation and rules about recent incidents use.
GAPS = (0.0, 0.001, 20.0, 700.0)

RECENT = {"<": [var("seconds_since_last"), 600]}
# Rules by name: conditions, actions, whether they stop. `create_scenario` creates the rows they name.
RULES: dict[str, tuple[Any, Sequence[tuple[RuleAction, str]], bool]] = {
    "by host": ("", [(A.CHANGE_ENTITY_ID, "{{payload.host}}")], False),
    "fresh": (equals("entity_id", "c"), [(A.CHANGE_ENTITY_ID, "")], False),
    "hash": (equals("payload.host", "web"), [(A.HASH_ENTITY_ID, "")], False),
    "not again so soon": ({"and": [RECENT, equals("alert_type", "3")]}, [(A.SUPPRESS, "")], False),
    "soon again is worse": (
        RECENT,
        [(A.CHANGE_ALERT_TYPE, "critical"), (A.ADD_NOTE, "again: {{entity_id}}")],
        False,
    ),
    "quiet": (equals("message", "quiet"), [(A.SUPPRESS, "")], True),
    "errors count": (
        equals("alert_type", "2"),
        [(A.CHANGE_ALERT_TYPE, "3"), (A.CHANGE_MESSAGE, "E {{message}}")],
        False,
    ),
    "news resolve": (equals("alert_type", "0"), [(A.CHANGE_ALERT_TYPE, "resolved")], False),
    "tags and notes": ("", [(A.ADD_TAGS, "Disk, {{payload.tag}}"), (A.ADD_NOTE, "{{message}}")], False),
    "delay": (equals("payload.host", "db"), [(A.DELAY_NOTIFICATIONS, "60")], False),
    "many hands": (
        "",
        [
            (A.ASSIGN_ROLE, "bob as scribe"),
            (A.ADD_RESPONDER, "bob"),
            (A.ADD_RESPONDER, "their policy"),
            (A.CREATE_TASK, "look at {{entity_id}}"),
            (A.APPLY_TASK_TEMPLATE, "outage"),
        ],
        False,
    ),
    "charlie writes": (equals("payload.host", "web"), [(A.ASSIGN_ROLE, "charlie as scribe")], False),
    "to bob": (equals("entity_id", "b"), [(A.ASSIGN_USER, "bob"), (A.CHANGE_URGENCY, "0")], True),
}


@dataclass(frozen=True)
class AlertStep:
    """An alert, `gap` seconds after the previous one."""

    gap: float
    level: str
    entity: str | None
    host: str
    message: str = "m"
    tag: str = "Night"


@dataclass(frozen=True)
class AlertSequence:
    """A sequence of alerts with its rules.

    `rules` are names of RULES. `routed`: the alerts use the key of a router that leads to two integrations of
    one service and one of another. `grouped`: the alerts are in groups of this size, from a source with its
    own times (invariant 4). `by_content`: alerts with the same title or host, or the same tag and message,
    become one incident. `services`: the alerts go in turn to this number of services.
    """

    alerts: tuple[AlertStep, ...]
    rules: tuple[str, ...] = ()
    collation_minutes: int = 0
    is_routed: bool = False
    grouped: int = 0
    by_content: bool = False
    services: int = 1

    @property
    def has_many_lanes(self) -> bool:
        return self.is_routed or self.services > 1


@dataclass(frozen=True)
class ProcessingMode:
    """How a sequence is processed. `has_common_batches`: the lanes of several services in one transaction.

    `part` is the number of alerts of a transaction that are written at once. `ends_early` is
    the probability that the time for decisions is over after an alert.
    """

    size: int = 1000
    queue_splits: tuple[str, ...] = ()
    threads: int = 0
    has_common_batches: bool = False
    part: int = 1000
    ends_early: float = 0.0

    def __str__(self) -> str:
        splits = "+".join(self.queue_splits) or "uncut"
        return f"{self.size} in {self.part} {splits}{' ends early' if self.ends_early else ''}"


QUEUE_SPLITS = tuple(chain.from_iterable(combinations(("normalize", "route", "rules"), n) for n in range(4)))
PROCESSING_MODES = (
    ProcessingMode(),
    *(ProcessingMode(size, queue_splits) for size in (1, 7) for queue_splits in QUEUE_SPLITS),
    *(ProcessingMode(part=part) for part in (1, 7)),
    ProcessingMode(part=7, ends_early=0.3),
)

ALERT_STEPS = st.builds(
    AlertStep,
    st.sampled_from(GAPS),
    st.sampled_from(LEVELS),
    st.sampled_from((*ENTITIES, None)),
    st.sampled_from(("db", "web")),
    st.sampled_from(("m", "quiet")),
    st.sampled_from(("Night", "none")),
)
SEQUENCES = st.builds(
    AlertSequence,
    st.lists(ALERT_STEPS, min_size=2, max_size=25).map(tuple),
    st.lists(st.sampled_from(sorted(RULES)), max_size=5).map(tuple),
    st.sampled_from((0, 5)),
    st.booleans(),
    st.sampled_from((0, 0, 3)),
    st.booleans(),
)


def build_sequence(
    seed: int,
    *,
    alerts: int = 50,
    is_routed: bool = False,
    grouped: int = 0,
    by_content: bool = False,
    services: int = 1,
) -> AlertSequence:
    """Build a long sequence with all rules in a random order."""
    choose = random.Random(seed)
    step_values = tuple(
        AlertStep(
            choose.choice(GAPS),
            choose.choice(LEVELS),
            choose.choice((*ENTITIES, None)),
            choose.choice(("db", "web")),
            choose.choice(("m", "m", "quiet")),
            choose.choice(("Night", "none")),
        )
        for _ in range(alerts)
    )
    names = sorted(RULES)
    choose.shuffle(names)
    rules = tuple(names[: choose.randint(4, len(names))])
    minutes = choose.choice((0, 5))
    return AlertSequence(step_values, rules, minutes, is_routed, grouped, by_content, services)


@dataclass
class Scenario:
    """A world with the rules of a sequence; `lanes` are the services that process it."""

    world: World
    lanes: list[Service]
    router: Any = None
    integrations: list[Integration] = field(default_factory=list)


TABLES = (
    Event, Incident, Entity, Notification, Timer, IncidentLog, IncidentTag, IncidentNote, IncidentResponder,
    IncidentAssignment, IncidentTask, IncidentGroup, EscalationPolicy,
)  # fmt: skip


def run_sequence(
    home: Path, now: datetime, sequence: AlertSequence, mode: ProcessingMode
) -> dict[str, list[str]]:
    """Process a sequence in a separate database, and return its rows."""
    assert stores.Migrated.cached is not None
    db.close_all()
    stores.Migrated.cached.open_copy(home)
    config_cache.clear()
    pieces.clear()
    with connection(), patch_processing(mode, now):
        scenario = create_scenario(now, sequence)
        accept_all(scenario, sequence, now)
        run_all(scenario, mode)
        assert not Receipt.select().where(Receipt.state != WorkState.DONE).exists()
        assert not Event.select().where(Event.state != WorkState.DONE).exists()
        # Several services take the incident numbers of an account in any order.
        return list_rows(*TABLES, without={"incident_number"} if sequence.has_many_lanes else ())


def patch_processing(mode: ProcessingMode, now: datetime) -> Any:
    patches = mock.patch.multiple(
        process_lane,
        _segments=build_segments(mode.queue_splits),
        _batch_size=BatchSize(target_s=1e9, limit=mode.size),
        _split=lambda items: [items[start : start + mode.part] for start in range(0, len(items), mode.part)],
        # It would give the same rows after a batch that failed.
        _process_one_by_one=None,
    )
    other_batches = [
        mock.patch.object(module, "_batch_size", BatchSize(target_s=1e9, limit=mode.size))
        for module in (process_router, process_lanes)
    ]
    # Lateness must not depend on when a test runs: part of a sequence is late, part is not.
    at_a_moment = mock.patch.object(load_lane_state, "_get_work_time", return_value=now + PROCESSED_AFTER)
    # Otherwise, the speed of the machine would decide which alerts share a batch.
    numbers = random.Random(0)
    time = mock.patch.object(DecisionTime, "is_over", side_effect=lambda: numbers.random() < mode.ends_early)
    return _AllOf(patches, *other_batches, at_a_moment, time)


class _AllOf:
    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> None:
        for each in self._contexts:
            each.__enter__()

    def __exit__(self, *error: Any) -> None:
        for each in reversed(self._contexts):
            each.__exit__(*error)


def create_scenario(now: datetime, sequence: AlertSequence) -> Scenario:
    """Create the same people, rules and tags with the same IDs each time."""
    numbers = random.Random(0)
    with mock.patch.object(os, "urandom", numbers.randbytes), store().write_transaction():
        world = create_world(now)
        for name in ("Disk", "Night"):
            Tag.create(unique_id=make_uuid(), team=world.team, name=name, creation_date=now)
        _add_roles_and_tasks(world, now)
        _put_on_call(world, now, round_robin=not sequence.has_many_lanes)
        scenario = Scenario(world, [world.service], integrations=[world.integration])
        for number in range(1, sequence.services):
            _add_service(scenario, f"Service {number}", now)
        for service in scenario.lanes:
            if sequence.collation_minutes:
                on = {"collation": Collation.TIME_BASED, "collation_time": sequence.collation_minutes}
                Service.update(on).where(Service.id == service.id).execute()
            if sequence.by_content:
                _group_by_content(service, now, "labels." if sequence.grouped else "")
        if sequence.is_routed:
            _add_router(scenario, now)
        for integration_row in scenario.integrations:
            for name in sequence.rules:
                _add_rule_row(world, integration_row, name)
        bump_version(world.account.id)
    return scenario


def _group_by_content(service: Service, now: datetime, prefix: str) -> None:
    """Group the alerts by their values. `prefix` leads to them in the payload."""
    Service.update(collation=Collation.CONTENT_BASED).where(Service.id == service.id).execute()
    known = {
        "service": service,
        "time_window": 10,
        "is_active": True,
        "creation_date": now,
        "updated_at": now,
    }
    for mode, static_fields, paths in (
        (MatchMode.ANY, ["incident_title"], [f"{prefix}host"]),
        (MatchMode.ALL, ["incident_title"], [f"{prefix}tag"]),
    ):
        fields = {"static_fields": static_fields, "custom_fields": paths}
        AlertGroupingPolicy.create(unique_id=make_uuid(), match_mode=mode, match_fields=fields, **known)


def _add_service(scenario: Scenario, name: str, now: datetime) -> None:
    world = scenario.world
    service = provisioning.create_service(world.team, name, world.policy, world.alice, now)
    integration = provisioning.create_integration(service, name, GENERIC, world.alice, now)
    scenario.lanes.append(service)
    scenario.integrations.append(integration)


def _add_router(scenario: Scenario, now: datetime) -> None:
    world = scenario.world
    second = provisioning.create_service(world.team, "Second", world.policy, world.alice, now)
    scenario.lanes.append(second)
    for service, name in ((world.service, "Other"), (second, "Far")):
        scenario.integrations.append(
            provisioning.create_integration(service, name, GENERIC, world.alice, now)
        )
    scenario.router = add_router(world)
    add_router_rule(scenario.router, *scenario.integrations)


def _add_roles_and_tasks(world: World, now: datetime) -> None:
    """Add a role, and a task template for the incidents of the service."""
    IncidentRole.create(unique_id=make_uuid(), team=world.team, title="Scribe", creation_date=now)
    for name in ("Every time", "Outage"):
        template = TaskTemplate.create(unique_id=make_uuid(), team=world.team, name=name, creation_date=now)
        for position, minutes in enumerate((-1, 15), start=1):
            TemplateTask.create(
                unique_id=make_uuid(), task_template=template, title=f"{name} {position}", due_in=minutes,
                position=position, creation_date=now,
            )  # fmt: skip
    usual = TaskTemplate.get(TaskTemplate.name == "Every time")
    Service.update(task_template=usual).where(Service.id == world.service.id).execute()


def _put_on_call(world: World, now: datetime, *, round_robin: bool) -> None:
    """Let the recipients change often: turns of an hour, an override, and forwarding.

    The lanes of two services would advance the round robin of a policy in any order.
    """
    on_call_schedule = stored.schedule(
        world.team,
        stored.layer(world.bob, world.charlie, shift_length=3600, start=now - timedelta(days=3)),
        stored.layer(world.alice, world.bob, shift_length=5400, start=now - timedelta(days=2)),
    )
    soon, later = now + timedelta(minutes=10), now + timedelta(minutes=70)
    known = {"unique_id": make_uuid(), "creation_date": now}
    ScheduleOverride.create(
        schedule=on_call_schedule, user=world.alice, start_time=soon, end_time=later, **known
    )
    forwarding = {"user": world.bob, "to_user": world.alice, "created_by": world.bob}
    ForwardingRule.create(from_date=soon, to_date=later, **forwarding, **known)
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2, "call_rr_assignee": True}
    columns = {"assignment_settings": settings} if round_robin else {}
    set_policy(world, (0, on_call_schedule, world.alice, world.bob), (5, on_call_schedule), **columns)


def _add_rule_row(world: World, integration_row: Integration, name: str) -> None:
    when, acts, stop = RULES[name]
    scribe = IncidentRole.get(IncidentRole.title == "Scribe").unique_id
    step_values: dict[str, dict[str, str]] = {
        "bob": {"value": world.bob.username},
        "bob as scribe": {"key": scribe, "value": world.bob.username},
        "charlie as scribe": {"key": scribe, "value": world.charlie.username},
        "their policy": {"value": world.policy.unique_id},
        "outage": {"value": TaskTemplate.get(TaskTemplate.name == "Outage").unique_id},
    }
    actions = [action(kind, **step_values.get(value, {"value": value})) for kind, value in acts]
    add_rule(world, *actions, when=when, stop=stop, description=name, integration=integration_row)


def accept_all(scenario: Scenario, sequence: AlertSequence, now: datetime) -> None:
    """Accept all alerts of a sequence in order."""
    at = now
    with store().write_transaction():
        if sequence.grouped:
            for start in range(0, len(sequence.alerts), sequence.grouped):
                group = sequence.alerts[start : start + sequence.grouped]
                at += timedelta(seconds=group[0].gap)
                _accept(scenario, at, source="prometheus", body=_group(group, at))
            return
        for step_values in sequence.alerts:
            at += timedelta(seconds=step_values.gap)
            body = {
                "message": step_values.message,
                "alert_type": step_values.level,
                "payload": {"host": step_values.host, "tag": step_values.tag},
                **({"entity_id": step_values.entity} if step_values.entity else {}),
            }
            _accept(scenario, at, body=json.dumps(body).encode())


def _accept(scenario: Scenario, at: datetime, **more: Any) -> None:
    if scenario.router is not None:
        accept_from_router(scenario.router, at, exactly=True, **more)
    else:
        number = Receipt.select().count() % len(scenario.lanes)
        lane = replace(
            scenario.world, service=scenario.lanes[number], integration=scenario.integrations[number]
        )
        accept(lane, at, exactly=True, **more)


def _group(group: Sequence[AlertStep], at: datetime) -> bytes:
    """Build an Alertmanager group. Some alerts arrive later than their own times."""
    alerts = []
    for scenario, step_values in enumerate(group):
        then = (at - timedelta(seconds=(step_values.gap + scenario) % 30)).isoformat()
        alerts.append(
            {
                "status": "resolved" if step_values.level == "resolved" else "firing",
                "labels": {
                    "alertname": step_values.message,
                    "severity": step_values.level,
                    "host": step_values.host,
                    "tag": step_values.tag,
                },
                "fingerprint": step_values.entity or step_values.host,
                "startsAt": then,
                "endsAt": then,
            }
        )
    return json.dumps({"version": "4", "alerts": alerts}).encode()


def run_all(scenario: Scenario, mode: ProcessingMode) -> None:
    """Process all pending alerts. Several threads process the same lanes."""
    if mode.has_common_batches:
        _run_common_batches(scenario)
    elif not mode.threads:
        while process_router.process_pending_routers() or process_lane.process_pending_lanes():
            pass
    else:
        run_parallel([lambda: _run_until_done(scenario)] * mode.threads)


def _run_common_batches(scenario: Scenario) -> None:
    """Process the lanes together, and those alone that cannot be. At least one batch must have several."""
    lanes, shared = [service.id for service in scenario.lanes], False
    while _has_pending():
        result = process_lanes.run(lanes, process_lane.get_segment("normalize"))
        shared = shared or (result.alerts > 0 and len(result.done) > 1)
        for row in result.others:
            process_lane.run(row)
    assert shared


def _run_until_done(scenario: Scenario) -> None:
    with connection():
        while _has_pending():
            if scenario.router is not None:
                process_router.run(scenario.router.id)
            for service in scenario.lanes:
                for segment in process_lane._segments:
                    process_lane.run(service.id, segment.name)


def _has_pending() -> bool:
    return any(table.select().where(table.state == WorkState.PENDING).exists() for table in (Receipt, Event))


def run_parallel(jobs: Sequence[Callable[[], None]]) -> None:
    """Run jobs in threads that start at the same time. Raise the first error."""
    errors: list[BaseException] = []
    ready = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        try:
            ready.wait(10)
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
