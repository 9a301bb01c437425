"""A simulation predicts what happens if the same alert arrives at that moment and nobody reacts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from models.domain.enums import NotificationKind, NotificationStatus, ServiceStatus
from models.domain.reasons import format_duration
from models.domain.values import replace
from models.store.ids import make_uuid
from models.store.store import connection, db
from models.tables.accounts import User, bump_version, get_display_name
from models.tables.events import Event, list_reasons
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.schedules import ScheduleOverride
from models.tables.services import Integration, Maintenance, MaintenanceService, Service
from models.tables.teams import Sla
from models.tables.users import ForwardingRule, NotificationRule
from pipeline.sources.reading import generic
from tests.conftest import NOON
from tests.scenarios.conftest import Timeline
from tests.support import stores
from tests.support.rules import RuleAction, action, add_rule, equals
from tests.support.scenarios.combinations import count_examples
from tests.support.scenarios.timers import set_policy
from tests.support.schedules import stored
from tests.support.world import create_world
from web.operations.run_simulation import SimulationRequest, run_simulation
from workers import config_cache

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
A = RuleAction
PEOPLE = ("alice", "bob", "charlie")
# Rules by name: condition and actions. `_add_rules` replaces the names of people.
RULES = {
    "later": ("", [(A.DELAY_NOTIFICATIONS, "90")]),
    "much later": ("", [(A.DELAY_NOTIFICATIONS, "3600")]),
    "low": (equals("payload.host", "db"), [(A.CHANGE_URGENCY, "0")]),
    "quiet": (equals("payload.host", "db"), [(A.SUPPRESS, "")]),
    "to bob": ("", [(A.ASSIGN_USER, "bob")]),
    "with charlie": ("", [(A.ADD_RESPONDER, "charlie")]),
    "with the people of the policy": ("", [(A.ADD_RESPONDER, "policy")]),
    "assigned by schedule": ("", [(A.ASSIGN_SCHEDULE, "schedule")]),
    "another name": ("", [(A.CHANGE_ENTITY_ID, "{{payload.host}}"), (A.CHANGE_MESSAGE, "E {{message}}")]),
}


@dataclass(frozen=True)
class Setup:
    """The configuration of a scenario. Times are in minutes from the alert.

    `schedule_layers` has the people of each layer and the length of their turns in seconds. `forwardings` has
    a person, start, end and receiver. `delays` belong to the notification rules of each person. `windows` are
    maintenance windows. `sla` has escalations: seconds after the breach, type of target, people.
    """

    steps: Sequence[tuple[int, Sequence[str]]]
    repeat: int
    move_to_next: bool
    round_robin: tuple[bool, bool, int]
    schedule_layers: Sequence[tuple[Sequence[str], int]]
    zone: str
    overrides: Sequence[tuple[str, int, int]]
    forwardings: Sequence[tuple[str, int, int, str]]
    delays: Sequence[int]
    urgency: int
    rules: Sequence[str]
    auto_resolve: int
    at: datetime
    windows: Sequence[tuple[int, int]] = ()
    sla: Sequence[tuple[int, int, Sequence[str]]] = ()
    level: str = "critical"
    status: ServiceStatus = ServiceStatus.ACTIVE


any_person = st.sampled_from(PEOPLE)
minutes = st.integers(-120, 240)
some_time = st.tuples(minutes, st.integers(1, 180)).map(lambda given: (given[0], sum(given)))
SETUPS = st.builds(
    Setup,
    steps=st.lists(
        st.tuples(
            st.sampled_from((0, 0, 1, 5, 30)),
            st.lists(st.sampled_from((*PEOPLE, "schedule", "schedule", "gap")), max_size=3, unique=True),
        ),
        max_size=4,
    ).map(lambda steps: [(sum(delay for delay, _ in steps[: n + 1]), to) for n, (_, to) in enumerate(steps)]),
    repeat=st.integers(0, 3),
    move_to_next=st.booleans(),
    round_robin=st.tuples(st.booleans(), st.booleans(), st.integers(0, 4)),
    schedule_layers=st.lists(
        st.tuples(
            st.lists(any_person, min_size=1, max_size=3, unique=True),
            st.sampled_from((600, 3600, 5400, 86_400)),
        ),
        max_size=2,
    ),
    zone=st.sampled_from(("UTC", "Europe/Berlin", "America/New_York")),
    overrides=st.lists(st.tuples(any_person, some_time).map(lambda given: (given[0], *given[1])), max_size=2),
    forwardings=st.lists(
        st.tuples(any_person, some_time, any_person).map(lambda given: (given[0], *given[1], given[2])),
        max_size=2,
    ),
    delays=st.tuples(*[st.sampled_from((0, 0, 3, 45))] * len(PEOPLE)),
    urgency=st.sampled_from((1, 1, 0)),
    rules=st.lists(st.sampled_from(sorted(RULES.keys() - {"quiet"})), max_size=3, unique=True),
    auto_resolve=st.sampled_from((0, 0, 1000, 3600)),
    windows=st.lists(some_time, max_size=2) | st.just([]),
    sla=st.lists(
        st.tuples(
            st.sampled_from((-600, -60, 30, 600)), st.sampled_from((1, 2)), st.lists(any_person, max_size=2)
        ),
        max_size=3,
    ),
    # Noon on a Wednesday, and the nights of the two clock changes.
    at=st.sampled_from(("2026-03-04 12:00", "2026-03-29 00:30", "2026-10-25 00:10")).map(
        lambda text: datetime.fromisoformat(f"{text}+00:00")
    ),
)
ALERT = {"message": "Disk full", "entity": "db1", "payload": {"host": "db"}}
BODY = b'{"message": "Disk full", "entity_id": "db1", "payload": {"host": "db"}, "alert_type": "%s"}'
DURATION = timedelta(hours=5)


@settings(
    max_examples=count_examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(setup=SETUPS)
def test_a_simulation_equals_the_real_notifications_for_random_setups(store, timeline, home, setup):
    notified = _run_and_compare(timeline, home, setup)

    event(f"notified {min(len(notified), 6)} times or more")


# The incident is auto-resolved after 16 minutes and 40 seconds.
BASE_SETUP = Setup(
    steps=[(0, ["alice"]), (5, ["schedule", "bob"])],
    repeat=1,
    move_to_next=False,
    round_robin=(False, False, 0),
    schedule_layers=[(["bob", "charlie"], 600)],
    zone="UTC",
    overrides=[],
    forwardings=[],
    delays=(0, 3, 0),
    urgency=1,
    rules=[],
    auto_resolve=1000,
    at=NOON,
)
EMPTY = {"steps": [(0, ["gap"]), (5, ["gap"])]}
ROUND_ROBIN = {"steps": [(0, ["alice", "bob"]), (5, ["charlie"])], "round_robin": (True, True, 1)}


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 4),
        ({"rules": ["quiet"]}, 0),
        ({"status": ServiceStatus.DISABLED}, 0),
        ({"level": "error"}, 0),
        ({"level": "resolved"}, 0),
        ({"rules": ["later"]}, 4),
        (EMPTY, 1),
        (ROUND_ROBIN, 4),
        ({"windows": [(-5, 5), (5, 7)]}, 4),
        ({"windows": [(5, 7)]}, 4),
        ({"sla": [(-60, 1, ["charlie"])]}, 5),
    ],
    ids=str,
)
def test_a_simulation_equals_the_real_notifications_for_chosen_setups(timeline, home, changes, count):
    assert len(_run_and_compare(timeline, home, replace(BASE_SETUP, **changes))) == count


def test_an_alert_deferred_by_a_window_outlives_its_auto_resolved_incident(timeline, home):
    fresh = _set_up(timeline, home, replace(BASE_SETUP, windows=[(2, 40)]))
    with connection():
        # By default it would have the same trace_id as the simulated alert.
        fresh.alert(ALERT["message"], "critical", ALERT["entity"], trace=7)
        fresh.after(minutes=4)
        since = fresh.now
        simulated = run_simulation(_build_question(fresh.world, "critical", fresh.now, with_open=True))

        fresh.alert(ALERT["message"], "critical", ALERT["entity"])
        fresh.after(seconds=DURATION.total_seconds())

        assert _list_notified(simulated) == [one for one in _list_really_notified() if one[2] >= since]
        assert _list_logged(simulated) == [one for one in _list_really_logged() if one[0] >= since]
        assert Incident.select().count() == 2
    db.close_all()


def test_two_timers_due_at_the_same_moment_fire_in_the_same_order(timeline, home):
    steps = [(0, ["alice"]), (30, ["bob"]), (60, ["charlie"])]
    fresh = _set_up(timeline, home, replace(BASE_SETUP, steps=steps, repeat=0, auto_resolve=3600))
    with connection():
        fresh.alert(ALERT["message"], "critical", ALERT["entity"], trace=7)
        fresh.after(minutes=40)
        since = fresh.now
        simulated = run_simulation(_build_question(fresh.world, "critical", since, with_open=True))

        fresh.alert(ALERT["message"], "critical", ALERT["entity"])
        fresh.after(minutes=60)

        assert _list_notified(simulated) == [one for one in _list_really_notified() if one[2] >= since]
        assert _list_logged(simulated) == [one for one in _list_really_logged() if one[0] >= since]
    db.close_all()


@settings(
    max_examples=count_examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(setup=SETUPS)
def test_each_mail_names_the_people_who_really_get_the_next_message(store, timeline, home, setup):
    next_lines = _send_and_compare_next(timeline, home, setup)

    event(f"names next people {min(len(next_lines), 4)} times or more")


SLA_FIRST = {"sla": [(-720, 1, ["charlie"])], "steps": [(0, ["alice"]), (30, ["bob"])], "auto_resolve": 0}
RESOLVED_FIRST = {"steps": [(0, ["alice"]), (30, ["bob"])]}


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, "Next, in 8 min: Bob"),
        (
            {"delays": (0, 7, 0), "steps": [(0, ["alice"]), (1, ["bob"])]},
            "Next, in 2 min: you (e-mail); in 8 min: Bob",
        ),
        ({"steps": [(0, ["alice", "bob"])], "repeat": 0, "delays": (0, 3, 0)}, "Next, in 3 min: Bob"),
        (SLA_FIRST, "Next, in 3 min: Charlie"),
        (RESOLVED_FIRST, "Next: nobody: the service resolves the incident in 16 min 40 s"),
        ({"steps": [(0, ["alice"])], "repeat": 0, "auto_resolve": 0}, "Next: nobody: the escalation policy"),
        (
            {"steps": [(0, ["alice"]), (2, ["alice"]), (5, ["bob"])]},
            "Next, in 2 min: you (e-mail); in 8 min: Bob",
        ),
    ],
    ids=str,
)
def test_the_first_mail_names_the_next_people_for_chosen_setups(timeline, home, changes, first):
    next_lines = _send_and_compare_next(timeline, home, replace(BASE_SETUP, **changes))

    assert next_lines[0].startswith(first)


def _send_and_compare_next(timeline, home, setup):
    """Send an alert, compare what each mail says about the next messages with what is sent; return it."""
    fresh = _set_up(timeline, home, setup)
    begins = len(fresh.box.mails)
    with connection():
        fresh.alert(ALERT["message"], setup.level, ALERT["entity"], payload=ALERT["payload"])
        fresh.after(seconds=DURATION.total_seconds())
        sent = list(
            Notification.select()
            .where(
                Notification.state == NotificationStatus.SENT, Notification.kind != NotificationKind.RECOVERY
            )
            .order_by(Notification.done_at, Notification.id)
        )
        next_lines = []
        for address, mail in fresh.box.mails[begins:]:
            shown = re.search(r"^Next[^:]*: [^\r\n]*", mail.get_content(), re.MULTILINE)
            found = re.search(r"^\[.*?\] .*?#(\d+) .*(?<!resolved)$", str(mail["Subject"]).lstrip())
            if found is None or mail.get_content().startswith("Resolved after"):
                assert shown is None
                continue
            next_lines.append(re.sub(" +", " ", shown[0]) if shown else "")
            _compare_next(
                next_lines[-1], address, parsedate_to_datetime(mail["Date"]), int(found[1]), sent, setup
            )
    db.close_all()
    return next_lines


def _compare_next(line, address, at, number, sent, setup):
    later = [one for one in sent if one.incident.incident_number == number and one.done_at > at]
    if not later:
        named = re.match(r"Next, in ([^:]*): ", line)
        assert named is None or _parse_duration(named[1]) > setup.at + DURATION - at - MINUTE, line
        return
    moment = later[0].done_at
    names = dict.fromkeys(_name_receiver(one, address) for one in later if one.done_at == moment)
    seconds = round((moment - at).total_seconds())
    assert line.split("; ")[0] == f"Next, in {format_duration(seconds)}: {', '.join(names)}"
    others = [one for one in later if one.user.email != address]
    if names.keys() == {"you (e-mail)"} and others:
        moment = others[0].done_at
        names = dict.fromkeys(_name_receiver(one, address) for one in later if one.done_at == moment)
        seconds = round((moment - at).total_seconds())
        assert line.split("; ")[1:] == [f"in {format_duration(seconds)}: {', '.join(names)}"]


def _parse_duration(text):
    units = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
    return timedelta(seconds=sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+) (\w+)", text)))


def _name_receiver(notification, address):
    if notification.user.email == address:
        return "you (e-mail)"
    name = get_display_name(notification.user)
    forwarded = re.search(r"Forwarded from ([^.]*)\.", str(notification.reason))
    return f"{forwarded[1]} (forwarded to {name})" if forwarded else name


def _run_and_compare(timeline, home, setup):
    """Simulate an alert, then send it and compare; return the real notifications."""
    fresh = _set_up(timeline, home, setup)
    with connection():
        simulated = run_simulation(_build_question(fresh.world, setup.level, setup.at))
        assert Incident.select().count() == Notification.select().count() == 0

        fresh.alert(ALERT["message"], setup.level, ALERT["entity"], payload=ALERT["payload"])
        fresh.after(seconds=DURATION.total_seconds())

        assert _list_notified(simulated) == _list_really_notified()
        assert _list_logged(simulated) == _list_really_logged()
        assert _list_statuses(simulated) == _list_real_statuses()
        assert _list_stages(simulated) == _list_real_stages()
        notified = _list_really_notified()
    db.close_all()
    return notified


def _build_question(world, level, at, **more):
    return SimulationRequest(
        world.integration, generic.EXTENSION, BODY % level.encode(), at, DURATION, **more
    )


def _set_up(timeline, home, setup):
    """Create the setup in a new database and return its timeline."""
    db.close_all()
    stores.Migrated.cached.open_copy(home)
    config_cache.clear()
    with connection():
        world = create_world(setup.at)
        people = {name: getattr(world, name) for name in PEOPLE}
        named = {
            **people,
            "schedule": _create_schedule(world, setup, people),
            "gap": stored.schedule(world.team, name="Gap"),
        }
        _set_policy(world, setup, named)
        _forward(setup, people)
        for (name, person), delay in zip(people.items(), setup.delays, strict=True):
            delayed = NotificationRule.update(start_delay=delay)
            delayed.where(NotificationRule.user == person, NotificationRule.urgency == 1).execute()
            if name == "charlie":
                NotificationRule.delete().where(NotificationRule.user == person).execute()
        _add_rules(world, setup, named)
        _add_maintenance(world, setup)
        known = {"auto_resolve_timeout": setup.auto_resolve, "status": setup.status}
        Service.update(sla=_create_sla(world, setup, people), **known).execute()
        Integration.update(default_urgency=setup.urgency).execute()
        bump_version(world.account.id)
        world = reload_integration(world)
    return Timeline(world, timeline.box, setup.at)


def reload_integration(world):
    """Return the world with its integration loaded again."""
    integration = Integration.get_by_id(world.integration.id)
    return type(world)(**{**get_fields(world), "integration": integration, "service": integration.service})


def get_fields(world):
    return {name: getattr(world, name) for name in world.__dataclass_fields__}


def _create_schedule(world, setup, people):
    turns = [
        stored.layer(*(people[name] for name in names), shift_length=length, start=setup.at - 50 * HOUR)
        for names, length in setup.schedule_layers
    ]
    schedule_layers = stored.schedule(world.team, *turns, time_zone=setup.zone)
    for name, start, end in setup.overrides:
        ScheduleOverride.create(
            unique_id=make_uuid(), schedule=schedule_layers, user=people[name], name="Swap",
            creation_date=setup.at, start_time=setup.at + start * MINUTE, end_time=setup.at + end * MINUTE,
        )  # fmt: skip
    return schedule_layers


def _set_policy(world, setup, named):
    steps = [(delay, *(named[name] for name in names)) for delay, names in setup.steps]
    round_robin, alone, next_target = setup.round_robin
    strategy = {"assignee_strategy": 2 if round_robin else 1, "call_rr_assignee": alone}
    first = len(setup.steps[0][1]) if setup.steps else 0
    set_policy(
        world,
        *steps,
        repeat_policy=setup.repeat,
        move_to_next=setup.move_to_next,
        assignment_settings={**world.policy.assignment_settings, **strategy},
        next_target=next_target % first if first else 0,
    )


def _forward(setup, people):
    for name, start, end, to in setup.forwardings:
        if name != to:
            ForwardingRule.create(
                unique_id=make_uuid(), user=people[name], to_user=people[to], created_by=people[name],
                from_date=setup.at + start * MINUTE, to_date=setup.at + end * MINUTE, creation_date=setup.at,
            )  # fmt: skip


def _add_maintenance(world, setup):
    for start, end in setup.windows:
        row = Maintenance.create(
            unique_id=make_uuid(), team=world.team, name="Deploy", creation_date=setup.at,
            start_time=setup.at + start * MINUTE, end_time=setup.at + end * MINUTE,
        )  # fmt: skip
        MaintenanceService.create(unique_id=make_uuid(), maintenance=row, service=world.service)


def _create_sla(world, setup, people):
    """Create an SLA: acknowledge within a quarter of an hour, resolve within an hour."""
    escalations = [
        {
            "unique_id": make_uuid(), "time": seconds, "type": kind,
            "responders": [{"unique_id": make_uuid(), "user": people[name].username} for name in names],
        }
        for seconds, kind, names in setup.sla
    ]  # fmt: skip
    return Sla.create(
        unique_id=make_uuid(), team=world.team, name="Gold", creation_date=setup.at, acknowledge_time=900,
        resolve_time=3600, escalations=escalations,
    )  # fmt: skip


def _add_rules(world, setup, named):
    ids = {name: each.username for name, each in named.items() if isinstance(each, User)}
    ids |= {"schedule": named["schedule"].unique_id, "policy": world.policy.unique_id}
    for name in setup.rules:
        when, acts = RULES[name]
        given = [action(kind, ids.get(value, value)) for kind, value in acts]
        add_rule(world, *given, when=when, description=name)


def _list_notified(simulated):
    return sorted(
        (each["username"], each["contact"], each["at"], each["reason"])
        for each in simulated["simulated_events"]
        if each["kind"] == "notified"
    )


def _list_really_notified():
    """List them without the mails about resolved incidents: a simulation shows who would be asked to act."""
    sent = Notification.select().where(
        Notification.state == NotificationStatus.SENT, Notification.kind != NotificationKind.RECOVERY
    )
    return sorted((one.user.username, _get_contact(one), one.done_at, str(one.reason)) for one in sent)


def _get_contact(notification):
    return notification.contact.name if notification.contact else "the user's own e-mail address"


def _list_logged(simulated):
    kinds = ("log", "opened")
    return [
        (one["at"], one["what"], one["reason"])
        for one in simulated["simulated_events"]
        if one["kind"] in kinds
    ]


def _list_really_logged():
    return [(log.at, log.what, str(log.reason)) for log in IncidentLog.select().order_by(IncidentLog.id)]


def _list_statuses(simulated):
    return [
        (one["title"], one["status"], one["assigned_to"], one["resolved_date"])
        for one in simulated["incidents"]
    ]


def _list_real_statuses():
    names = {1: "triggered", 2: "acknowledged", 3: "resolved"}
    return [
        (
            one.title,
            names[one.status],
            get_display_name(one.assigned_to) if one.assigned_to else None,
            one.resolved_date,
        )
        for one in Incident.select().order_by(Incident.id)
    ]


def _list_stages(simulated):
    return [[(step["stage"], step["reason"]) for step in alert["stages"]] for alert in simulated["alerts"]]


def _list_real_stages():
    return [[(stage, str(reason)) for stage, reason in list_reasons(one)] for one in Event.select()]
