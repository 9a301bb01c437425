"""Shifts, gaps and conflicts of a schedule over a time and at one time."""

from datetime import UTC, datetime, timedelta

import pytest
import structlog

from models.store.ids import make_uuid
from models.tables.schedules import ScheduleOverride
from models.tables.teams import EscalationPolicy
from models.tables.users import ForwardingRule
from tests.support.offenders import list_offenders
from tests.support.schedules import stored
from web.oncall import schedule_overview, schedule_problems

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PROBLEM_FIELDS = ("gaps", "conflicts", "conflicts_count", "conflicts_until")


@pytest.fixture(autouse=True)
def _now(monkeypatch, now):
    """Set the present time to noon of Wednesday, 2026-03-04."""
    monkeypatch.setattr(schedule_overview, "now", lambda: now)


@pytest.fixture
def schedule(world):
    """schedule(layer, ...): a schedule of the team with turns from 2026-03-01 08:00 UTC."""

    def make(*layers_given, team=world.team, **changes):
        return stored.schedule(team, *layers_given, **changes)

    return make


@pytest.fixture
def turns(now):
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    return lambda *users, **changes: stored.layer(*users, **{"start": start, **changes})


@pytest.fixture
def override(now):
    """override(schedule, person, start, end): an override; start and end are hours from now."""

    def make(schedule, get_key, start, end):
        return ScheduleOverride.create(
            unique_id=make_uuid(), schedule=schedule, user=get_key, creation_date=now, name="Swap",
            start_time=now + start * HOUR, end_time=now + end * HOUR,
        )  # fmt: skip

    return make


def path_of(schedule, view):
    return f"/api/tocsin/schedules/{schedule.unique_id}/{view}/"


@pytest.fixture
def timeline(ask):
    def get(schedule, query="", **options):
        return ask("GET", path_of(schedule, "timeline") + query, **options)

    return get


@pytest.fixture
def oncall(ask):
    def get(schedule, query="", **options):
        return ask("GET", path_of(schedule, "oncall") + query, **options)

    return get


def get_key(user):
    return {name: getattr(user, name) for name in ("username", "first_name", "last_name", "email")}


def list_spans(listed):
    """Return listed shifts in a short form: day and hour of start and end, and the person."""
    times = [
        f"{each['start_time'][8:13]} {(each['end_time'] or 'for ever')[8:13]}".strip() for each in listed
    ]
    names = [each["user"]["first_name"] if each["user"] else "-" for each in listed]
    return [f"{time} {name}" for time, name in zip(times, names, strict=True)]


def use_schedule(policy, schedule):
    target = {"target_type": 1, "target_id": schedule.unique_id, "position": 0}
    rules = [{"unique_id": make_uuid(), "delay": 0, "position": 1, "targets": [target]}]
    EscalationPolicy.update(rules=rules).where(EscalationPolicy.id == policy.id).execute()


def test_a_timeline_lists_complete_shifts_with_their_people(timeline, world, schedule, turns, override, now):
    layer = turns(world.alice, world.bob)
    of = schedule(layer, time_zone="Europe/Berlin")
    swap = override(of, world.charlie, 6, 10)

    shown = timeline(of, "?from=2026-03-04&to=2026-03-05T12:00:00Z").json

    assert shown["schedule"] == of.unique_id
    assert (shown["name"], shown["time_zone"]) == ("Primary", "Europe/Berlin")
    assert (shown["from"], shown["to"]) == ("2026-03-04T00:00:00.000000Z", "2026-03-05T12:00:00.000000Z")
    assert list_spans(shown["shifts"]) == [
        "03T08 04T08 Alice", "04T08 04T18 Bob", "04T18 04T22 Charlie", "04T22 05T08 Bob", "05T08 06T08 Alice",
    ]  # fmt: skip
    assert shown["shifts"][2] == {
        "user": get_key(world.charlie), "start_time": "2026-03-04T18:00:00.000000Z",
        "end_time": "2026-03-04T22:00:00.000000Z", "layer": None, "override": swap.unique_id, "name": "Swap",
    }  # fmt: skip
    assert (shown["shifts"][0]["layer"], shown["shifts"][0]["name"]) == (layer["unique_id"], "Layer-1")
    assert shown["gaps"] == []


def test_the_default_period_is_the_next_thirty_days(timeline, world, schedule, turns):
    of = schedule(turns(world.alice))

    shown = timeline(of).json
    assert (shown["from"], shown["to"]) == ("2026-03-04T12:00:00.000000Z", "2026-04-03T12:00:00.000000Z")
    # Turns of the same person are one shift.
    assert list_spans(shown["shifts"]) == ["01T08 Alice"]
    assert timeline(of, "?from=&to=2026-03-05").json["to"] == "2026-03-05T00:00:00.000000Z"
    assert timeline(of, "?from=2026-01-01").json["to"] == "2026-01-31T00:00:00.000000Z"


def test_past_shifts_are_limited_by_their_overrides(timeline, world, schedule, turns, override):
    """The first shift begins at an override that ended long before the requested time."""
    of = schedule(turns(world.alice, world.bob, shift_length=7 * 86_400))
    override(of, world.charlie, -48, -24)

    assert list_spans(timeline(of, "?from=2026-03-04&to=2026-03-05").json["shifts"]) == ["03T12 08T08 Alice"]


WRONG_PERIODS = [
    ("from=x", "from"), ("to=x", "to"), ("from=2026-13-01", "from"), ("to=2026-03-04T12:00:00Z", "to"),
    ("from=2026-03-04&to=2026-03-04", "to"), ("from=2026-03-04&to=2027-03-06", "to"),
    ("from=0001-01-01", "from"), ("to=9999-12-31T23:59:59-12:00", "to"), ("from=1969-12-31", "from"),
    ("from=2200-01-01", "from"), ("from=%00", "from"), ("to=2026-03-04", "to"),
]  # fmt: skip


def test_an_invalid_period_is_refused(timeline, world, schedule):
    def check(case):
        query, field = case
        refused = timeline(schedule(), f"?{query}")

        assert refused.status_code == 400
        assert list(refused.json["errors"]) == [field]

    assert list_offenders(check, WRONG_PERIODS) == []


def test_times_can_have_any_offset(timeline, schedule):
    shown = [
        timeline(schedule(), f"?from={at_text}&to=2026-03-06").json["from"]
        for at_text in ("2026-03-04T13:30:00%2B01:00", "2026-03-04T13:30:00+01:00", "2026-03-04 12:30")
    ]

    assert shown == ["2026-03-04T12:30:00.000000Z"] * 3


def test_a_schedule_that_is_too_large_is_refused(timeline, world, schedule, turns):
    hourly = [turns(world.alice, world.bob, shift_length=3600) for _ in range(50)]
    of = schedule(*hourly)

    for query in ("?from=2026-03-04&to=2027-03-04", "?from=2026-03-04&to=2026-04-04"):
        refused = timeline(of, query)
        assert (refused.status_code, list(refused.json["errors"])) == (400, ["to"])
    assert timeline(of, "?from=2026-03-04&to=2026-03-05").status_code == 200


def test_a_time_without_anybody_is_a_gap_that_says_whether_a_policy_uses_it(timeline, world, schedule, turns):
    night_layer = turns(
        world.bob, restriction_type=1, restrictions=[stored.restriction("20:00:00", 12 * 3600)]
    )
    of = schedule(night_layer)

    shown = timeline(of, "?to=2026-03-05T12:00:00Z").json
    assert list_spans(shown["gaps"]) == ["04T12 04T20 -", "05T08 05T12 -"]
    assert shown["gaps"][0]["kind"] == "gap"
    assert shown["gaps"][0]["what"].endswith("20:00 UTC; no policy uses it")
    use_schedule(world.policy, of)
    assert timeline(of).json["gaps"][0]["what"].endswith("20:00 UTC")


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({}, []),
        (
            {"shift_time_in_dst": False},
            [
                "from Sun 29 Mar 2026 until Sun 25 Oct 2026 the handoffs of layer Nights of Primary are"
                " at 23:00 instead of 22:00: shift_time_in_dst of the schedule is false"
            ],
        ),
    ],
    ids=["by default", "elapsed time"],
)
def test_a_timeline_names_the_dates_of_moved_handoffs(timeline, world, schedule, turns, choice, found):
    nights = {"restriction_type": 1, "restrictions": [stored.restriction("22:00:00", 8 * 3600)]}
    start = datetime(2026, 3, 1, 21, tzinfo=UTC)
    of = schedule(
        turns(world.alice, world.bob, start=start, name="Nights", **nights),
        time_zone="Europe/Berlin", **choice,
    )  # fmt: skip

    moved = timeline(of, "?from=2026-03-04&to=2026-12-01").json["moved_handoffs"]
    assert [one["what"] for one in moved] == found
    assert {one["kind"] for one in moved} <= {"handoffs_moved"}
    assert timeline(of, "?from=2026-03-04&to=2026-03-20").json["moved_handoffs"] == []


@pytest.mark.parametrize("view", ["timeline", "oncall"])
def test_an_unknown_time_zone_is_a_warning_in_the_answer_and_in_the_log(ask, world, schedule, turns, view):
    of = schedule(turns(world.alice, world.bob), time_zone="Europe/Atlantis")
    with structlog.testing.capture_logs() as logs:
        shown = [ask("GET", path_of(of, view)).json for _ in range(2)]

    says = (
        "this host does not know the time zone Europe/Atlantis of Primary: all its times are computed in UTC"
    )
    assert [each["warnings"] for each in shown] == [[says]] * 2
    # Once in a process.
    assert [each for each in logs if each["event"] == "time zone is unknown, using UTC"] == [
        {
            "event": "time zone is unknown, using UTC", "log_level": "warning", "kind": "schedule",
            "unique_id": of.unique_id, "time_zone": "Europe/Atlantis",
        }
    ]  # fmt: skip
    assert ask("GET", path_of(schedule(), view)).json["warnings"] == []


def test_the_turns_of_a_removed_user_are_a_gap(timeline, oncall, world, schedule, turns, now):
    of = schedule(turns(world.alice, world.bob))
    world.bob.removed_at = now
    world.bob.save()

    shown = timeline(of, "?to=2026-03-06T12:00:00Z").json
    assert list_spans(shown["shifts"]) == ["05T08 06T08 Alice"]
    assert list_spans(shown["gaps"]) == ["04T12 05T08 -", "06T08 06T12 -"]
    now_shown = oncall(of).json
    assert now_shown["oncalls"] == []
    assert now_shown["handoff"] == {
        "at": "2026-03-05T08:00:00.000000Z", "oncalls": [get_key(world.alice)],
    }  # fmt: skip


def test_an_override_of_a_person_outside_the_team_is_a_conflict(timeline, world, schedule, turns, override):
    of = schedule(turns(world.alice))
    override(of, world.bob, 1, 2)
    override(of, world.charlie, 3, 4)

    (conflict,) = timeline(of).json["conflicts"]
    assert (conflict["kind"], conflict["user"]) == ("not_in_team", get_key(world.charlie))
    assert conflict["schedules"] == [{"unique_id": of.unique_id, "name": "Primary"}]


def test_a_person_who_is_on_call_twice_is_a_conflict(timeline, oncall, world, schedule, turns, override):
    of = schedule(turns(world.alice, world.bob))
    by_layer = schedule(turns(world.bob, world.alice), name="Secondary")
    by_override = schedule(name="Third")
    override(by_override, world.bob, 0, 1)
    schedule(turns(world.charlie), name="Nobody of ours")

    shown = timeline(by_override, "?to=2026-03-06").json["conflicts"]
    assert [(one["kind"], one["user"]["first_name"]) for one in shown] == [("twice", "Bob")]
    assert [one["name"] for one in shown[0]["schedules"]] == ["Third", "Primary"]
    assert "Bob is on call twice from Wed 04 Mar 2026 12:00 UTC" in shown[0]["what"]
    assert oncall(of, "?include=conflicts").json["conflicts"][0]["schedules"][1]["name"] == "Third"
    assert timeline(by_layer, "?to=2026-03-06").json["conflicts"] == []


def test_conflicts_say_what_the_schedules_say_about_double_shifts(timeline, ask, world, schedule, turns):
    first, second = schedule(turns(world.bob)), schedule(turns(world.bob), name="Second")

    def find():
        return [(one["kind"], one["minor"]) for one in timeline(first).json["conflicts"]]

    assert find() == [("twice", True)]
    for choice, found in (("problem", [("twice", False)]), ("intended", []), ("minor", [("twice", True)])):
        changed = ask("PUT", path_of(second, "checks"), {"double_shifts": choice})
        assert (changed.status_code, changed.json) == (200, {"double_shifts": choice})
        assert find() == found


def test_what_checks_report_can_be_read_and_changed(ask, schedule):
    path = path_of(schedule(), "checks")
    assert ask("GET", path).json == {"double_shifts": "minor"}
    assert ask("PUT", path, {"double_shifts": "intended"}).json == {"double_shifts": "intended"}
    # A field that is not in the body stays unchanged.
    assert ask("PUT", path, {}).json == {"double_shifts": "intended"}

    for value in ("sometimes", "", None, 1, ["minor"]):
        refused = ask("PUT", path, {"double_shifts": value})
        assert (refused.status_code, list(refused.json["errors"])) == (400, ["double_shifts"])
    assert ask("GET", path).json == {"double_shifts": "intended"}


def test_only_a_manager_changes_what_checks_report(ask, world, schedule):
    path = path_of(schedule(), "checks")
    statuses = {
        method: {
            who: ask(method, path, {"double_shifts": "problem"}, who=who).status_code for who in world.tokens
        }
        for method in ("GET", "PUT")
    }

    assert statuses["GET"] == {"alice": 200, "bob": 200, "charlie": 403, "mallory": 404}
    assert statuses["PUT"] == {"alice": 200, "bob": 403, "charlie": 403, "mallory": 404}


def test_a_conflict_with_a_schedule_that_the_viewer_may_not_read_is_hidden(timeline, world, schedule, turns):
    ours = schedule(turns(world.bob))
    schedule(turns(world.bob), name="Closed", team=world.charlies_team)
    world.charlies_team.account_permissions = []
    world.charlies_team.save()

    assert len(timeline(ours, who="alice").json["conflicts"]) == 1
    assert timeline(ours, who="bob").json["conflicts"] == []
    world.charlies_team.account_permissions = ["schedule_read"]
    world.charlies_team.save()
    assert len(timeline(ours, who="bob").json["conflicts"]) == 1


def test_an_answer_has_the_people_on_call_the_end_and_the_next_people(
    oncall, world, schedule, turns, override
):
    layer = turns(world.alice, world.bob)
    of = schedule(layer)
    override(of, world.charlie, 6, 10)

    shown = oncall(of).json
    assert (shown["schedule"], shown["name"], shown["time_zone"]) == (of.unique_id, "Primary", "UTC")
    assert shown["at"] == "2026-03-04T12:00:00.000000Z"
    assert shown["until"] == "2026-04-03T12:00:00.000000Z"
    assert shown["oncalls"] == [
        {
            "user": get_key(world.bob), "start_time": "2026-03-04T08:00:00.000000Z",
            "end_time": "2026-03-04T18:00:00.000000Z", "layer": layer["unique_id"], "override": None,
            "name": "Layer-1", "forwarded_to": None,
        }
    ]  # fmt: skip
    assert shown["handoff"] == {"at": "2026-03-04T18:00:00.000000Z", "oncalls": [get_key(world.charlie)]}
    assert [shown[name] for name in PROBLEM_FIELDS] == [None] * 4


@pytest.mark.parametrize(
    ("query", "included"),
    [
        ("", set()), ("?include=", set()), ("?include=gaps", {"gaps"}),
        ("?include=conflicts", {"conflicts", "conflicts_count", "conflicts_until"}),
        ("?include=conflicts,gaps", set(PROBLEM_FIELDS)), ("?include=gaps,conflicts", set(PROBLEM_FIELDS)),
    ],
)  # fmt: skip
def test_gaps_and_conflicts_are_included_on_request(
    oncall, timeline, world, schedule, turns, query, included
):
    of = schedule(turns(world.alice))
    shown = oncall(of, query).json
    assert {name for name in PROBLEM_FIELDS if shown[name] is not None} == included

    # A timeline without the parameter has both.
    shown = timeline(of, query).json
    assert {name for name in PROBLEM_FIELDS if shown[name] is not None} == (
        included if query else set(PROBLEM_FIELDS)
    )


@pytest.mark.parametrize("view", ["oncall", "timeline"])
@pytest.mark.parametrize("include", ["gaps,shifts", "gaps,gaps", "gap", ",", " ", "GAPS"])
def test_an_unknown_problem_cannot_be_included(ask, schedule, view, include):
    refused = ask("GET", f"{path_of(schedule(), view)}?include={include}")

    assert (refused.status_code, refused.json["errors"]) == (
        400, {"include": ["Only these words, separated by commas: conflicts, gaps."]},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("view", "query", "status"),
    [
        ("oncall", "", 200), ("oncall", "?include=conflicts", 429), ("oncall", "?include=gaps", 429),
        ("timeline", "", 429), ("timeline", "?include=", 200),
    ],
)  # fmt: skip
def test_an_account_asks_for_problems_one_at_a_time(ask, world, schedule, turns, view, query, status):
    of = schedule(turns(world.alice, world.bob))
    with schedule_problems.CONCURRENCY.acquire(world.account):
        answer = ask("GET", path_of(of, view) + query)

    assert answer.status_code == status
    assert ("Retry-After" in answer.headers) == (status == 429)
    assert ask("GET", path_of(of, view) + query).status_code == 200


def test_a_timeline_with_much_work_is_one_at_a_time(timeline, world, schedule, turns):
    of = schedule(*(turns(world.alice, world.bob, shift_length=3600) for _ in range(50)))
    with schedule_problems.CONCURRENCY.acquire(world.account):
        statuses = [timeline(of, f"?include=&to={to}").status_code for to in ("2026-03-05", "2026-03-20")]

    assert statuses == [200, 429]


@pytest.mark.parametrize(
    ("at", "names", "coming"),
    [
        ("2026-03-03T07:59:59Z", ["Bob"], ["Alice"]), ("2026-03-03T08:00:00Z", ["Alice"], ["Bob"]),
        ("2026-03-01T07:00:00Z", [], ["Alice"]), ("2025-01-01", [], None), ("2030-06-01", ["Alice"], ["Bob"]),
    ],
)  # fmt: skip
def test_any_time_can_be_requested(oncall, world, schedule, turns, at, names, coming):
    shown = oncall(schedule(turns(world.alice, world.bob)), f"?at={at}").json

    assert [one["user"]["first_name"] for one in shown["oncalls"]] == names
    assert (shown["handoff"] and [one["first_name"] for one in shown["handoff"]["oncalls"]]) == coming


def test_an_old_override_is_effective_at_its_time(oncall, world, schedule, turns, override):
    of = schedule(turns(world.alice))
    override(of, world.bob, -24, -23)

    assert [one["user"]["first_name"] for one in oncall(of, "?at=2026-03-03T12:30").json["oncalls"]] == [
        "Bob"
    ]


def test_an_end_that_is_far_in_the_future_is_null(oncall, world, schedule, turns):
    shown = oncall(schedule(turns(world.alice))).json

    assert (shown["oncalls"][0]["end_time"], shown["handoff"]) == (None, None)
    included = oncall(schedule(turns(world.alice)), "?include=conflicts").json
    assert (included["conflicts_count"], included["conflicts_until"]) == (1, shown["until"])


@pytest.mark.parametrize(("at", "to"), [("2026-03-04T12:00:00Z", "Charlie"), ("2026-03-04T14:00:00Z", None)])
def test_the_person_who_is_notified_instead_is_shown(oncall, world, schedule, turns, now, at, to):
    ForwardingRule.create(
        unique_id=make_uuid(), user=world.bob, to_user=world.charlie, created_by=world.bob, from_date=now,
        to_date=now + HOUR, creation_date=now,
    )  # fmt: skip
    shown = oncall(schedule(turns(world.bob)), f"?at={at}").json["oncalls"][0]

    assert shown["user"]["first_name"] == "Bob"
    assert (shown["forwarded_to"] and shown["forwarded_to"]["first_name"]) == to


def test_a_very_large_schedule_is_searched_for_a_shorter_time(oncall, world, schedule, turns):
    often = [stored.restriction(f"{n // 6:02}:{n % 6}0:00", 60) for n in range(100)]
    hourly = {"shift_length": 3600, "restriction_type": 1, "restrictions": often}
    of = schedule(*(turns(world.alice, world.bob, **hourly) for _ in range(30)))
    assert oncall(of).json["until"] == "2026-03-05T10:30:00.000000Z"

    shown = oncall(of, "?include=conflicts").json
    assert shown["until"] == "2026-03-19T12:00:00.000000Z"
    assert (len(shown["conflicts"]), shown["conflicts_count"]) == (20, 1000)
    assert shown["conflicts_until"] < shown["until"]
    assert shown["conflicts"] == sorted(shown["conflicts"], key=lambda one: one["start_time"])


def test_a_shift_is_the_same_for_any_requested_time(timeline, oncall, world, schedule, turns, override, now):
    """The shift is consecutive turns of one person between two distant overrides."""
    of = schedule(turns(world.alice, start=now - 500 * DAY))
    assert oncall(of).json["oncalls"][0]["start_time"] == "2024-10-20T12:00:00.000000Z"
    for start in (-400 * 24, 400 * 24):
        override(of, world.bob, start, start + 12)

    times = {("2025-01-29T00:00:00.000000Z", "2027-04-08T12:00:00.000000Z")}
    for query in ("", "?from=2026-01-01&to=2027-01-01", "?from=2025-06-01&to=2025-06-02"):
        shown = timeline(of, query).json["shifts"]
        assert {(shift["start_time"], shift["end_time"]) for shift in shown} == times
    shown = oncall(of).json["oncalls"]
    assert {(shift["start_time"], shift["end_time"]) for shift in shown} == times


def test_large_schedules_of_others_do_not_shorten_an_answer(timeline, oncall, world, schedule, turns):
    ours = schedule(turns(world.bob))
    often = [stored.restriction(f"{n // 6:02}:{n % 6}0:00", 60) for n in range(100)]
    hourly = {"shift_length": 3600, "restriction_type": 1, "restrictions": often}
    for _ in range(3):
        schedule(*(turns(world.bob, world.alice, **hourly) for _ in range(50)), name="Noise")

    shown = timeline(ours, "?to=2026-06-01").json
    assert list_spans(shown["shifts"]) == ["01T08 Bob"]
    assert shown["gaps"] == []
    assert "2026-03-04T13" < shown["conflicts_until"] < shown["to"]
    assert (len(shown["conflicts"]), shown["conflicts_count"]) == (1000, 1000)
    assert oncall(ours).json["until"] == "2026-04-03T12:00:00.000000Z"


def test_a_person_with_turns_who_left_the_team_is_a_conflict(timeline, world, schedule, turns):
    (conflict,) = timeline(schedule(turns(world.alice, world.charlie))).json["conflicts"]

    assert (conflict["kind"], conflict["user"]) == ("not_in_team", get_key(world.charlie))
    assert "Charlie takes turns in Primary (layer Layer-1)" in conflict["what"]


def test_an_override_with_the_id_of_a_layer_is_shown(timeline, world, schedule, turns, override):
    """Clients choose both IDs."""
    layer = turns(world.bob)
    of = schedule(layer)
    swap = override(of, world.bob, 6, 10)
    swap.unique_id = layer["unique_id"]
    swap.save()

    shown = timeline(of, "?to=2026-03-06").json["shifts"]
    assert list_spans(shown) == ["01T08 04T18 Bob", "04T18 04T22 Bob", "04T22 Bob"]
    assert [bool(shift["override"]) for shift in shown] == [False, True, False]


@pytest.mark.parametrize("at", ["x", "1969-12-31", "9999-12-31T23:59:59-12:00", "2200-01-01"])
def test_an_invalid_time_is_refused(oncall, schedule, at):
    refused = oncall(schedule(), f"?at={at}")

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["at"])


@pytest.mark.parametrize("view", ["timeline", "oncall"])
def test_only_viewers_of_the_schedule_get_an_answer(ask, world, schedule, view):
    of = schedule()
    statuses = {who: ask("GET", path_of(of, view), who=who).status_code for who in world.tokens}

    assert statuses == {"alice": 200, "bob": 200, "charlie": 403, "mallory": 404}


@pytest.mark.parametrize(
    ("view", "query", "most"),
    [("timeline", "", 24), ("oncall", "?include=conflicts,gaps", 24), ("oncall", "", 6)],
)
def test_the_number_of_queries_is_constant(
    ask, world, schedule, turns, override, statements, view, query, most
):
    of = schedule(turns(world.alice, world.bob))
    override(of, world.charlie, 1, 2)

    def count():
        with statements() as seen:
            assert ask("GET", path_of(of, view) + query).status_code == 200
        return len(seen)

    count()
    query_count = count()
    for number in range(20):
        more = schedule(turns(world.alice), turns(world.bob), name=f"Schedule {number}")
        override(more, world.bob, 1, 2)
        override(of, world.bob, number, number + 1)

    assert count() == query_count <= most
