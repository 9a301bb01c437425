"""Analytics: forms of requests and answers, defaults, limits and rights."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import AccountRole
from models.people import provisioning
from models.store.ids import make_short_id
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.services import Service
from tests.support.offenders import list_offenders
from tests.support.web.analytics import PATH
from web.incidents import analytics

KINDS = {
    "incident_stats": analytics.STATS_CONCURRENCY,
    "team_analytics": analytics.TEAM_CONCURRENCY,
    "service_analytics": analytics.SERVICE_CONCURRENCY,
    "user_analytics": analytics.USER_CONCURRENCY,
}
STATS, TEAMS, SERVICES, USERS = (PATH.format(kind) for kind in KINDS)
MARCH = {"from_date": "2026-03-01", "to_date": "2026-03-31"}
NOTHING = {
    "total_incidents": 0, "total_acknowledged": 0, "total_resolved": 0,
    "mtta_seconds": 0.0, "mttr_seconds": 0.0,
}  # fmt: skip


@pytest.fixture
def incident(world, now):
    """incident(at=..., acknowledged=60, resolved=600): a new incident; times in seconds from its creation."""

    def make(at=now, acknowledged=None, resolved=None, **values) -> Incident:
        later = {
            name: None if seconds is None else at + timedelta(seconds=seconds)
            for name, seconds in (("acknowledged_date", acknowledged), ("resolved_date", resolved))
        }
        known = {
            "unique_id": make_short_id(), "account": world.account, "incident_key": make_short_id(),
            "incident_number": Incident.select().count() + 1, "service": world.service, "team": world.team,
            "title": "Disk full",
            "status": 3 if resolved is not None else 2 if acknowledged is not None else 1,
            "urgency": 1, "creation_date": at, "run_started_at": at, **later,
        }  # fmt: skip
        return Incident.create(**{**known, **values})

    return make


@pytest.fixture
def count(ask):
    """count({"urgency": 1}): the number of the incidents in March 2026 that match."""

    def ask_stats(body=None, **more) -> int:
        answer = ask("POST", STATS, {**MARCH, **(body or {})}, **more)
        assert answer.status_code == 200, answer.json
        return answer.json["total_incidents"]

    return ask_stats


def test_stats_count_incidents_by_status_and_by_viewer(ask, incident, world):
    incident(assigned_to=world.bob)
    incident(acknowledged=60, assigned_to=world.alice)
    incident(resolved=60, assigned_to=world.alice)
    incident(resolved=60)

    assert ask("POST", STATS, MARCH).json == {
        "total_incidents": 4,
        "total_triggered_incidents": 1,
        "total_acknowledged_incidents": 1,
        "total_resolved_incidents": 2,
        "user_total_incidents": 2,
        "user_triggered_incidents": 0,
        "user_acknowledged_incidents": 1,
        "user_resolved_incidents": 1,
    }


def test_metrics_of_teams_services_and_users(ask, incident, world):
    incident(acknowledged=60, resolved=600, assigned_to=world.alice)
    incident(acknowledged=90.5, assigned_to=world.alice)
    incident(team=world.charlies_team, service=None)
    world.service.team = world.team
    ours = {
        "total_incidents": 2, "total_acknowledged": 2, "total_resolved": 1,
        "mtta_seconds": 75.25, "mttr_seconds": 600.0,
    }  # fmt: skip
    everything = ours | {"total_incidents": 3}
    team, other = (
        {"name": row.name, "unique_id": row.unique_id} for row in (world.team, world.charlies_team)
    )
    service = {"name": world.service.name, "unique_id": world.service.unique_id}
    user = {"full_name": "Alice", "username": world.alice.username}

    assert ask("POST", TEAMS, MARCH).json == {
        "all_teams": everything,
        "team_records": [{"team": team, **ours}, {"team": other, **NOTHING, "total_incidents": 1}],
    }
    assert ask("POST", SERVICES, MARCH).json == {
        "all_services": everything,
        "service_records": [{"team": team, "service": service, **ours}],
    }
    assert ask("POST", USERS, MARCH).json == {
        "all_users": everything,
        "user_records": [{"user": user, **ours}],
    }


def test_without_incidents_all_numbers_are_zero(ask, world):
    assert ask("POST", TEAMS, MARCH).json == {"all_teams": NOTHING, "team_records": []}
    assert ask("POST", SERVICES, MARCH).json == {"all_services": NOTHING, "service_records": []}
    assert ask("POST", USERS, MARCH).json == {"all_users": NOTHING, "user_records": []}
    assert set(ask("POST", STATS, MARCH).json.values()) == {0}


def test_means_are_numbers_with_a_point_and_counts_are_without(ask, incident):
    incident(acknowledged=60, resolved=3600)

    text = ask("POST", TEAMS, MARCH).text

    assert '"total_incidents":1,' in text
    assert '"mtta_seconds":60.0,"mttr_seconds":3600.0}' in text


def test_an_incident_that_nobody_acknowledged_has_no_time_until_then(ask, incident):
    incident(resolved=600)
    incident(acknowledged=60, resolved=1200)

    metrics = ask("POST", TEAMS, MARCH).json["all_teams"]

    assert (metrics["total_acknowledged"], metrics["mtta_seconds"], metrics["mttr_seconds"]) == (2, 60, 900)


def test_reopened_incidents_have_no_times_of_before(ask, world):
    body = {"title": "Disk full", "service": world.service.unique_id}
    number = ask("POST", "/api/incidents/", body).json["incident_number"]
    for status in (2, 3, 1):
        assert ask("PATCH", f"/api/incidents/{number}/", {"status": status}).status_code == 200

    assert ask("POST", TEAMS, {}).json["all_teams"] == NOTHING | {"total_incidents": 1}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_the_last_day_of_a_month_ends_at_midnight_of_the_user(ask, incident, world, count, zone):
    User.update(time_zone=zone).where(User.id == world.alice.id).execute()
    # Midnight after February 28, in hours after midnight in UTC.
    hours = {"UTC": 0, "Europe/Berlin": -1, "America/New_York": 5}[zone]
    midnight = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hours)
    incident(at=midnight - timedelta(microseconds=1))
    incident(at=midnight)

    assert count({"from_date": "2026-02-01", "to_date": "2026-02-28"}) == 1
    assert count({"from_date": "2026-03-01", "to_date": "2026-03-31"}) == 1


def test_the_day_of_a_clock_change_has_another_length(incident, world, count):
    User.update(time_zone="Europe/Berlin").where(User.id == world.alice.id).execute()
    # 23 hours in March and 25 in October, an incident each hour.
    for start, hours in (
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 23),
        (datetime(2026, 10, 24, 22, tzinfo=UTC), 25),
    ):
        for hour in range(-3, hours + 3):
            incident(at=start + timedelta(hours=hour))

    assert count({"from_date": "2026-03-29", "to_date": "2026-03-29"}) == 23
    assert count({"from_date": "2026-10-25", "to_date": "2026-10-25"}) == 25


def test_by_default_the_period_is_the_last_366_days(ask, incident, now, monkeypatch):
    monkeypatch.setattr(analytics, "now", lambda: now)
    today = now.replace(hour=0)
    for days in (0, 365, 366, -1):
        incident(at=today - timedelta(days=days))

    def count_in(body):
        return ask("POST", STATS, body).json["total_incidents"]

    assert count_in({}) == 2
    assert ask("POST", STATS).json["total_incidents"] == 2
    assert count_in({"from_date": "", "to_date": None}) == 2
    assert count_in({"from_date": (today - timedelta(days=365)).date().isoformat()}) == 2
    assert count_in({"to_date": (today - timedelta(days=1)).date().isoformat()}) == 2
    assert count_in({"to_date": (today + timedelta(days=1)).date().isoformat()}) == 2


LONG = "The period may have at most 366 days, up to to_date or today."
LESS = {"tta": 60, "tta_comparator": "gt", "ttr": 59, "ttr_comparator": "gt"}
WRONG = [
    ({"from_date": "yesterday"}, "from_date", "Must be a date like 2026-12-31."),
    ({"from_date": "2026-02-30"}, "from_date", "Must be a date like 2026-12-31."),
    ({"to_date": "2026-03-04T12:00:00Z"}, "to_date", "Must be a date like 2026-12-31."),
    ({"to_date": "20260304"}, "to_date", "Must be a date like 2026-12-31."),
    ({"to_date": 20260304}, "to_date", "Must be a date like 2026-12-31."),
    ({"to_date": "1969-12-31"}, "to_date", "The year must be 1970 or later, and before 2200."),
    ({"to_date": "2200-01-01"}, "to_date", "The year must be 1970 or later, and before 2200."),
    ({"from_date": "2026-04-01"}, "to_date", "Must not be before from_date."),
    ({"from_date": "2025-03-30"}, "from_date", LONG),
    ({"team_ids": "x"}, "team_ids", "Must be a list."),
    ({"urgency": 2}, "urgency", "Must be 0 (low) or 1 (high)."),
    ({"tta": 60}, "tta_comparator", "Give gt or lt with tta."),
    ({"ttr": 60, "ttr_comparator": ""}, "ttr_comparator", "Give gt or lt with ttr."),
    ({"tta": 60, "tta_comparator": "eq"}, "tta_comparator", "Must be gt or lt."),
    ({"tta": -1, "tta_comparator": "gt"}, "tta", None),
    ({"tta": "x", "tta_comparator": "gt"}, "tta", "Not a valid number."),
    (LESS, "ttr", "Must not be less than tta."),
]  # fmt: skip


def test_a_wrong_question_is_refused_with_field_and_reason(ask):
    def check(case):
        wrong, field, reason = case
        for kind in KINDS:
            refused = ask("POST", PATH.format(kind), {**MARCH, **wrong}, headers={"Prefer": "errors"})

            assert refused.status_code == 400
            assert list(refused.json["errors"]) == [field]
            assert reason in (None, *refused.json["errors"][field])

    assert list_offenders(check, WRONG) == []


def test_empty_values_set_no_limit(incident, count):
    incident()
    empty = {"team_ids": [], "service_ids": None, "user_ids": [], "priority_ids": [], "sla_ids": [],
             "escalation_policy_ids": [], "tag_ids": []}  # fmt: skip

    assert count({**empty, "urgency": "", "child_incident": "include"}) == 1
    assert (
        count({"urgency": None, "tta": None, "tta_comparator": "gt", "ttr": "", "ttr_comparator": None}) == 1
    )


def test_times_are_compared_to_the_microsecond(incident, count):
    incident(acknowledged=60)
    incident(acknowledged=60.000001)
    incident()

    assert count({"tta": 60, "tta_comparator": "gt"}) == 1
    assert count({"tta": "60.0", "tta_comparator": "lt"}) == 0
    assert count({"tta": 60.5, "tta_comparator": "lt"}) == 2


def test_incidents_without_an_assignee_can_be_asked_for(incident, world, count):
    for user in (world.bob, world.alice, None):
        incident(assigned_to=user)

    assert count({"user_ids": ["Unassigned"]}) == 1
    assert count({"user_ids": ["Unassigned", world.bob.username]}) == 2


def test_merged_incidents_count_unless_they_are_excluded(incident, count):
    incident(parent=incident())

    assert (count(), count({"child_incident": "exclude"})) == (2, 1)


def test_a_period_with_too_many_incidents_is_refused(ask, incident, monkeypatch):
    monkeypatch.setattr(analytics, "MAX_INCIDENTS", 2)
    for _ in range(2):
        incident()
    assert ask("POST", STATS, MARCH).json["total_incidents"] == 2

    incident()

    for kind in KINDS:
        refused = ask("POST", PATH.format(kind), MARCH, scheme="Token")
        assert refused.status_code == 400
        assert list(refused.json["errors"]) == ["from_date"]
        assert ask("POST", PATH.format(kind), {**MARCH, "to_date": "2026-03-02"}).status_code == 200


@pytest.mark.parametrize("kind", KINDS)
def test_an_account_asks_one_question_of_a_kind_at_a_time(ask, world, now, kind):
    limit = KINDS[kind]
    with limit.acquire(world.account):
        refused = ask("POST", PATH.format(kind), MARCH)
        others = [ask("POST", PATH.format(other), MARCH).status_code for other in KINDS if other != kind]
        of_another_account = ask("POST", PATH.format(kind), MARCH, who="mallory")

    assert (refused.status_code, refused.json) == (429, {"detail": "Request was throttled."})
    assert int(refused.headers["Retry-After"]) > 0
    assert others == [200, 200, 200]
    assert of_another_account.status_code == 200
    assert ask("POST", PATH.format(kind), MARCH).status_code == 200


def test_a_web_process_serves_two_questions_of_a_kind_at_a_time(ask, world, now):
    third, _ = provisioning.create_account("Third", "third@example.net", now)
    with ExitStack() as busy:
        for account in (world.mallory.account, third):
            busy.enter_context(analytics.TEAM_CONCURRENCY.acquire(account))

        assert ask("POST", TEAMS, MARCH).status_code == 429


def test_a_refused_question_does_not_block_the_next(ask, monkeypatch, incident):
    incident()
    monkeypatch.setattr(analytics, "MAX_INCIDENTS", 0)
    assert ask("POST", STATS, MARCH).status_code == 400
    assert ask("POST", STATS, {"from_date": "x"}).status_code == 400

    assert ask("POST", STATS, {**MARCH, "to_date": "2026-03-02"}).status_code == 200


def test_only_incidents_of_permitted_teams_count(ask, incident, world, count):
    incident()
    incident(team=world.charlies_team, service=None)
    incident(account=world.mallory.account, team=world.mallorys_team, service=None)

    assert [count(who=who) for who in ("alice", "bob", "charlie", "mallory")] == [2, 1, 1, 1]
    assert count({"team_ids": [world.charlies_team.unique_id]}, who="bob") == 0
    assert count({"team_ids": [world.mallorys_team.unique_id]}) == 0
    assert [one["team"]["name"] for one in ask("POST", TEAMS, MARCH, who="bob").json["team_records"]] == [
        "Payments"
    ]


def test_a_team_can_show_its_numbers_to_the_whole_account(incident, world, count):
    incident()
    world.team.account_permissions = ["incident_read"]
    world.team.save()
    assert count(who="charlie") == 0

    world.team.account_permissions = ["analytics_read"]
    world.team.save()
    assert count(who="charlie") == 1


def test_a_removed_user_and_a_user_without_a_name_are_shown(ask, incident, world, now):
    dora = provisioning.create_user(world.account, "dora@example.org", AccountRole.USER, now)
    incident(assigned_to=dora)
    User.update(removed_at=now).where(User.id == dora.id).execute()

    (record,) = ask("POST", USERS, MARCH).json["user_records"]

    assert record["user"] == {"full_name": "dora", "username": dora.username}


def test_incidents_of_a_deleted_service_count_in_all_services(ask, incident, world):
    incident(acknowledged=60)
    Service.delete().where(Service.id == world.service.id).execute()

    answer = ask("POST", SERVICES, MARCH).json

    assert (answer["all_services"]["total_incidents"], answer["service_records"]) == (1, [])


def test_records_are_in_order_of_creation(ask, incident, world, now):
    services = [
        provisioning.create_service(world.team, name, world.policy, world.alice, now + timedelta(days=days))
        for name, days in (("B", 2), ("A", 1))
    ]
    for service in services:
        incident(service=service)

    names = [one["service"]["name"] for one in ask("POST", SERVICES, MARCH).json["service_records"]]

    assert names == ["A", "B"]


def test_a_question_needs_as_many_statements_for_many_teams(ask, incident, world, now, statements):
    def count_statements():
        with statements() as seen:
            assert ask("POST", USERS, MARCH).status_code == 200
        return len(seen)

    incident(assigned_to=world.alice)
    # The first request also stores the use of the token and the lease.
    count_statements()
    once = count_statements()
    for number in range(30):
        user = provisioning.create_user(world.account, f"u{number}@example.org", AccountRole.USER, now)
        incident(assigned_to=user)

    assert count_statements() == once
    assert len(ask("POST", USERS, MARCH).json["user_records"]) == 31
