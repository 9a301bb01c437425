"""Histories of alerts, rules and routers that can be lived through again and again, in any batches.

What comes of one must not depend on how its alerts fell into batches, on where the road is cut, or on how
many workers there are (law 6).
"""

import json
import random
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, combinations
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from models import founding
from models.accounts import raise_version
from models.applications import GENERIC
from models.base import connection, db, store
from models.enums import Collation, RuleAction, WorkState
from models.events import Entity, Event, Receipt
from models.ids import new_uuid
from models.incidents import (
    Incident,
    IncidentAssignment,
    IncidentLog,
    IncidentNote,
    IncidentResponder,
    IncidentTag,
    IncidentTask,
)
from models.notices import Notice
from models.schedules import ScheduleOverride
from models.services import Integration, Service
from models.tasks import TaskTemplate, TemplateTask
from models.teams import EscalationPolicy, IncidentRole, Tag
from models.timers import Timer
from models.users import ForwardingRule
from pipeline.topology import segments
from tests import layers, stores
from tests.alerts import accept, rows
from tests.people import World, found_world
from tests.rules import accept_by, action, add_router, add_router_rule, add_rule, equals, var
from tests.workers.test_timers import set_policy
from workers import configuration, lane_state, road, routing
from workers.pace import Pace

A = RuleAction
WORKED_AFTER = timedelta(minutes=20)
LEVELS = ("critical", "critical", "critical", "error", "info", "acknowledged", "resolved", "resolved")
ENTITIES = ("a", "b", "c", "d")
# Seconds between alerts: at once, soon, and after the window of collation and of what rules call recent.
GAPS = (0.0, 0.001, 20.0, 700.0)

RECENT = {"<": [var("seconds_since_last"), 600]}
# Rules by name: conditions, actions, and whether they stop. What they name is named as `founded` makes it.
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
class Said:
    """An alert, `gap` seconds after the one before it."""

    gap: float
    level: str
    entity: str | None
    host: str
    message: str = "m"
    tag: str = "Night"


@dataclass(frozen=True)
class History:
    """`rules` are names of RULES; `routed`: the alerts come by a router's key, which leads to two
    integrations of one service and to one of another; `grouped`: they come in groups of this many, by a
    source that says when each began or ended (law 4)."""

    alerts: tuple[Said, ...]
    rules: tuple[str, ...] = ()
    collation_minutes: int = 0
    routed: bool = False
    grouped: int = 0


@dataclass(frozen=True)
class Manner:
    """How a history is worked on."""

    size: int = 1000
    cuts: tuple[str, ...] = ()
    threads: int = 0


CUTS = tuple(chain.from_iterable(combinations(("normalize", "route", "rules"), n) for n in range(4)))
MANNERS = (Manner(), *(Manner(size, cuts) for size in (1, 7) for cuts in CUTS))

SAID = st.builds(
    Said,
    st.sampled_from(GAPS),
    st.sampled_from(LEVELS),
    st.sampled_from((*ENTITIES, None)),
    st.sampled_from(("db", "web")),
    st.sampled_from(("m", "quiet")),
    st.sampled_from(("Night", "none")),
)
HISTORIES = st.builds(
    History,
    st.lists(SAID, min_size=2, max_size=25).map(tuple),
    st.lists(st.sampled_from(sorted(RULES)), max_size=5).map(tuple),
    st.sampled_from((0, 5)),
    st.booleans(),
    st.sampled_from((0, 0, 3)),
)


def seeded(seed: int, *, alerts: int = 50, routed: bool = False, grouped: int = 0) -> History:
    """A long history of all rules in some order."""
    choose = random.Random(seed)
    said = tuple(
        Said(
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
    return History(
        said, tuple(names[: choose.randint(4, len(names))]), choose.choice((0, 5)), routed, grouped
    )


@dataclass
class Place:
    """A world with the rules of a history in it; `lanes` are the services that work on it."""

    world: World
    lanes: list[Service]
    router: Any = None
    doors: list[Integration] = field(default_factory=list)


TABLES = (
    Event, Incident, Entity, Notice, Timer, IncidentLog, IncidentTag, IncidentNote, IncidentResponder,
    IncidentAssignment, IncidentTask, EscalationPolicy,
)  # fmt: skip


def lived(home: Path, now: datetime, history: History, manner: Manner) -> dict[str, list[str]]:
    """The rows that a history leaves behind, lived through in a store of its own."""
    assert stores.Migrated.made is not None
    db.close_all()
    stores.Migrated.made.give(home)
    configuration.forget()
    with connection(), worked(manner, now):
        place = founded(now, history)
        send(place, history, now)
        work(place, manner)
        assert not Receipt.select().where(Receipt.state != WorkState.DONE).exists()
        assert not Event.select().where(Event.state != WorkState.DONE).exists()
        # Two services take the numbers of one account's incidents as they come.
        return rows(*TABLES, without={"incident_number"} if history.routed else ())


def worked(manner: Manner, now: datetime) -> Any:
    patches = mock.patch.multiple(
        road, _road=segments(manner.cuts), _pace=Pace(target_s=1e9, limit=manner.size)
    )
    at_once = mock.patch.object(routing, "_pace", Pace(target_s=1e9, limit=manner.size))
    # What is late must not depend on when a test runs: some of a history is, some is not.
    at_a_moment = mock.patch.object(lane_state, "_worked_at", return_value=now + WORKED_AFTER)
    return _Both(patches, at_once, at_a_moment)


class _Both:
    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> None:
        for each in self._contexts:
            each.__enter__()

    def __exit__(self, *error: Any) -> None:
        for each in reversed(self._contexts):
            each.__exit__(*error)


def founded(now: datetime, history: History) -> Place:
    """The same people, rules and tags under the same ids every time."""
    numbers = random.Random(0)
    made = lambda: uuid.UUID(int=numbers.getrandbits(128), version=4)  # noqa: E731
    with mock.patch.object(uuid, "uuid4", made), store().writing():
        world = found_world(now)
        for name in ("Disk", "Night"):
            Tag.create(unique_id=new_uuid(), team=world.team, name=name, creation_date=now)
        _add_duties(world, now)
        _put_on_call(world, now, by_turns=not history.routed)
        if history.collation_minutes:
            on = {"collation": Collation.TIME_BASED, "collation_time": history.collation_minutes}
            Service.update(on).where(Service.id == world.service.id).execute()
        place = Place(world, [world.service], doors=[world.integration])
        if history.routed:
            _add_router(place, now)
        for door in place.doors:
            for name in history.rules:
                _add(world, door, name)
        raise_version(world.account.id)
    return place


def _add_router(place: Place, now: datetime) -> None:
    world = place.world
    second = founding.new_service(world.team, "Second", world.policy, world.alice, now)
    place.lanes.append(second)
    for service, name in ((world.service, "Other"), (second, "Far")):
        place.doors.append(founding.new_integration(service, name, GENERIC, world.alice, now))
    place.router = add_router(world)
    add_router_rule(place.router, *place.doors)


def _add_duties(world: World, now: datetime) -> None:
    """A role, and a list of tasks that the service's incidents have."""
    IncidentRole.create(unique_id=new_uuid(), team=world.team, title="Scribe", creation_date=now)
    for name in ("Every time", "Outage"):
        template = TaskTemplate.create(unique_id=new_uuid(), team=world.team, name=name, creation_date=now)
        for position, minutes in enumerate((-1, 15), start=1):
            TemplateTask.create(
                unique_id=new_uuid(), task_template=template, title=f"{name} {position}", due_in=minutes,
                position=position, creation_date=now,
            )  # fmt: skip
    usual = TaskTemplate.get(TaskTemplate.name == "Every time")
    Service.update(task_template=usual).where(Service.id == world.service.id).execute()


def _put_on_call(world: World, now: datetime, *, by_turns: bool) -> None:
    """Whom the policy tells changes all the time: by turns of an hour, an override, and forwarding.

    Lanes of two services would take turns of a policy as they come.
    """
    rota = layers.schedule(
        world.team,
        layers.layer(world.bob, world.charlie, shift_length=3600, start=now - timedelta(days=3)),
        layers.layer(world.alice, world.bob, shift_length=5400, start=now - timedelta(days=2)),
    )
    soon, later = now + timedelta(minutes=10), now + timedelta(minutes=70)
    known = {"unique_id": new_uuid(), "creation_date": now}
    ScheduleOverride.create(schedule=rota, user=world.alice, start_time=soon, end_time=later, **known)
    away = {"user": world.bob, "to_user": world.alice, "created_by": world.bob}
    ForwardingRule.create(from_date=soon, to_date=later, **away, **known)
    settings = {**world.policy.assignment_settings, "assignee_strategy": 2, "call_rr_assignee": True}
    columns = {"assignment_settings": settings} if by_turns else {}
    set_policy(world, (0, rota, world.alice, world.bob), (5, rota), **columns)


def _add(world: World, door: Integration, name: str) -> None:
    when, acts, stop = RULES[name]
    scribe = IncidentRole.get(IncidentRole.title == "Scribe").unique_id
    said: dict[str, dict[str, str]] = {
        "bob": {"value": world.bob.username},
        "bob as scribe": {"key": scribe, "value": world.bob.username},
        "charlie as scribe": {"key": scribe, "value": world.charlie.username},
        "their policy": {"value": world.policy.unique_id},
        "outage": {"value": TaskTemplate.get(TaskTemplate.name == "Outage").unique_id},
    }
    actions = [action(kind, **said.get(value, {"value": value})) for kind, value in acts]
    add_rule(world, *actions, when=when, stop=stop, description=name, integration=door)


def send(place: Place, history: History, now: datetime) -> None:
    """Accept all alerts of a history, in their order."""
    at = now
    with store().writing():
        if history.grouped:
            for start in range(0, len(history.alerts), history.grouped):
                group = history.alerts[start : start + history.grouped]
                at += timedelta(seconds=group[0].gap)
                _accept(place, at, source="prometheus", body=_group(group, at))
            return
        for said in history.alerts:
            at += timedelta(seconds=said.gap)
            body = {
                "message": said.message,
                "alert_type": said.level,
                "payload": {"host": said.host, "tag": said.tag},
                **({"entity_id": said.entity} if said.entity else {}),
            }
            _accept(place, at, body=json.dumps(body).encode())


def _accept(place: Place, at: datetime, **more: Any) -> None:
    if place.router is not None:
        accept_by(place.router, at, exactly=True, **more)
    else:
        accept(place.world, at, exactly=True, **more)


def _group(group: Sequence[Said], at: datetime) -> bytes:
    """As Alertmanager would send it: some changes of state come later than what they are about."""
    alerts = []
    for place, said in enumerate(group):
        then = (at - timedelta(seconds=(said.gap + place) % 30)).isoformat()
        alerts.append(
            {
                "status": "resolved" if said.level == "resolved" else "firing",
                "labels": {"alertname": said.message, "severity": said.level, "host": said.host},
                "fingerprint": said.entity or said.host,
                "startsAt": then,
                "endsAt": then,
            }
        )
    return json.dumps({"version": "4", "alerts": alerts}).encode()


def work(place: Place, manner: Manner) -> None:
    """Until nothing waits; with several threads, all of them at the same lanes."""
    if not manner.threads:
        while routing.sweep() or road.sweep():
            pass
        return
    together([lambda: _work_until_nothing_waits(place)] * manner.threads)


def _work_until_nothing_waits(place: Place) -> None:
    with connection():
        while _waits():
            if place.router is not None:
                routing.run(place.router.id)
            for service in place.lanes:
                for segment in road._road:
                    road.run(service.id, segment.name)


def _waits() -> bool:
    return any(table.select().where(table.state == WorkState.WAITING).exists() for table in (Receipt, Event))


def together(jobs: Sequence[Callable[[], None]]) -> None:
    """Run jobs in threads that begin at the same moment; the first error of any is raised."""
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
