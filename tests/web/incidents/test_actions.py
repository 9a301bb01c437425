"""Incidents are assigned, snoozed and merged through the interface."""

import itertools
from datetime import timedelta

import pytest
from playhouse.test_utils import count_queries

from models.domain.enums import NotificationStatus, TimerKind
from models.people import provisioning
from models.store.ids import make_short_id, make_uuid
from models.store.store import store
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Notification
from models.tables.postmortems import Postmortem, PostmortemIncident
from models.tables.services import Service
from models.tables.teams import Team
from models.tables.timers import Timer
from tests.support.contract.operations import INCIDENT
from tests.support.contract.requests import dump_all_rows
from tests.support.offenders import list_offenders
from web.http.fields import parse_moment
from workers.timers import fire

ACTIONS_URL = "/api/tocsin/incidents/"


@pytest.fixture
def create_incident(ask, world):
    """create_incident(title="Disk", ...): the number of a new incident."""

    def make(service=None, who="alice", **more):
        body = {"title": "Disk full", "service": (service or world.service).unique_id, **more}
        answer = ask("POST", "/api/incidents/", body, who=who)
        assert answer.status_code == 201, answer.json
        return answer.json["incident_number"]

    return make


@pytest.fixture
def act(ask):
    """act(1, "snooze", minutes=5, who="bob"): the answer to an operation on an incident."""

    def act(number, what, *, who="alice", method="POST", **body):
        return ask(method, f"{ACTIONS_URL}{number}/{what}/", body, who=who)

    return act


@pytest.fixture
def shown(ask):
    """The present answer about an incident."""
    return lambda number: ask("GET", f"/api/incidents/{number}/").json


@pytest.fixture
def other(world, now):
    """A second service of Alice's team."""
    return provisioning.create_service(world.team, "Search", world.policy, world.alice, now)


def list_pending_timers(number):
    row = Incident.get(Incident.incident_number == number)
    return [timer.kind for timer in Timer.select().where(Timer.incident == row, Timer.done_at.is_null())]


def list_pending_notifications():
    pending = (
        Notification.select()
        .where(Notification.state == NotificationStatus.PENDING)
        .order_by(Notification.id)
    )
    return [(notification.user.first_name, notification.kind) for notification in pending]


def list_log(number):
    rows = IncidentLog.select().join(Incident).where(Incident.incident_number == number)
    return [(row.what, str(row.reason)) for row in rows.order_by(IncidentLog.id)]


def get_error(answer, field):
    assert answer.status_code == 400, answer.text
    assert list(answer.json["errors"]) == [field]
    return answer.json["errors"][field][0]


# --- assignment -------------------------------------------------------------------------------------


def test_an_incident_is_assigned_to_a_person_who_is_notified(act, create_incident, world):
    number = create_incident()

    answer = act(number, "reassign", assigned_to=world.bob.username, reason="knows\ndisks")

    assert (answer.status_code, answer.json["assigned_to_name"]) == (200, "Bob")
    assert list_pending_notifications() == [("Bob", "assignment")]
    assert list_log(number)[-1] == ("assigned", "Assigned to Bob by Alice. knows disks")


def test_an_incident_is_assigned_to_a_policy_that_starts_an_escalation_run(ask, act, create_incident, world):
    number = create_incident()
    policy = {
        "name": "Night",
        "rules": [{"delay": 0, "targets": [{"target_type": 2, "target_id": world.bob.username}]}],
    }
    path = f"/api/account/teams/{world.team.unique_id}/escalation_policies/"
    snooze_end = ask("POST", path, policy).json["unique_id"]

    answer = act(number, "reassign", escalation_policy=snooze_end, reason="it is late")

    assert answer.json["escalation_policy"] == snooze_end
    assert list_pending_notifications() == [("Bob", "escalation")]
    assert ("rerouted", "Escalation policy changed to Night by Alice. it is late") in list_log(number)


def test_an_assignment_needs_either_a_known_person_or_a_known_policy(act, create_incident, world):
    number = create_incident()
    bob, policy = world.bob.username, world.policy.unique_id

    assert get_error(act(number, "reassign"), "assigned_to")
    assert get_error(act(number, "reassign", assigned_to="", escalation_policy=None), "assigned_to")
    assert get_error(act(number, "reassign", assigned_to=bob, escalation_policy=policy), "assigned_to")
    assert get_error(act(number, "reassign", assigned_to=world.mallory.username), "assigned_to")
    assert get_error(act(number, "reassign", escalation_policy=make_uuid()), "escalation_policy")
    assert list_pending_notifications() == [("Alice", "escalation")]


# --- snooze -----------------------------------------------------------------------------------------


@pytest.fixture
def acknowledged(ask, create_incident):
    def make(**more):
        number = create_incident(**more)
        assert ask("PATCH", f"/api/incidents/{number}/", {"status": 2}).status_code == 200
        return number

    return make


def test_a_snoozed_incident_is_triggered_again_at_the_end(act, shown, acknowledged):
    number = acknowledged()

    snoozed = act(number, "snooze", minutes=30).json

    assert snoozed["status"] == 2
    slept = parse_moment(snoozed["snoozed_till"]) - parse_moment(snoozed["snooze_time"])
    assert slept == timedelta(minutes=30)
    assert list_pending_timers(number) == [TimerKind.SNOOZE]

    fire.fire_due(parse_moment(snoozed["snoozed_till"]) - timedelta(seconds=1))
    assert shown(number)["status"] == 2
    fire.fire_due(parse_moment(snoozed["snoozed_till"]))

    awake = shown(number)
    assert (awake["status"], awake["snooze_time"], awake["snoozed_till"]) == (1, None, None)
    assert list_pending_notifications() == [("Alice", "escalation")]
    assert ("triggered", "The snooze is over.") in list_log(number)


def test_a_snooze_can_be_given_by_its_end_and_changed(act, acknowledged):
    number = acknowledged()
    until = (store().now() + timedelta(days=2)).replace(microsecond=0)

    first = act(number, "snooze", until=until.isoformat()).json
    second = act(number, "snooze", until=until.replace(tzinfo=None).isoformat()).json

    for snoozed in (first, second):
        assert snoozed["snoozed_till"] == until.isoformat().replace("+00:00", "Z")
    assert second["snooze_time"] > first["snooze_time"]
    assert list_pending_timers(number) == [TimerKind.SNOOZE]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"minutes": 5, "until": "2099-01-01T00:00:00Z"},
        {"minutes": 0},
        {"minutes": -5},
        {"minutes": 30 * 24 * 60 + 1},
        {"minutes": "soon"},
        {"minutes": True},
        {"until": "2020-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59Z"},
        {"until": "soon"},
        {"until": 5},
        {"until": "", "minutes": None},
    ],
    ids=str,
)
def test_a_snooze_lasts_at_most_thirty_days(act, acknowledged, body):
    number = acknowledged()

    answer = act(number, "snooze", **body)

    assert answer.status_code == 400
    assert set(answer.json["errors"]) <= {"until", "minutes"}
    assert list_pending_timers(number) == []


def test_only_an_acknowledged_incident_can_be_snoozed(ask, act, create_incident):
    number = create_incident()
    assert "acknowledged" in get_error(act(number, "snooze", minutes=5), "incident")

    ask("PATCH", f"/api/incidents/{number}/", {"status": 3})
    assert "acknowledged" in get_error(act(number, "snooze", minutes=5), "incident")


def test_the_acknowledgement_timeout_starts_after_the_snooze(act, shown, acknowledged):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=900).execute()
    number = acknowledged()
    snoozed = act(number, "snooze", minutes=60).json
    fire.fire_due(parse_moment(snoozed["snooze_time"]) + timedelta(minutes=59))
    assert shown(number)["status"] == 2

    assert act(number, "snooze", method="DELETE").status_code == 204

    assert list_pending_timers(number) == [TimerKind.ACKNOWLEDGEMENT_TIMEOUT]
    assert (shown(number)["status"], shown(number)["snoozed_till"]) == (2, None)
    assert list_log(number)[-1] == ("unsnoozed", "Snooze ended by Alice.")


def test_unsnooze_without_a_snooze_changes_nothing(act, acknowledged):
    number = acknowledged()
    before = list_log(number)

    assert act(number, "snooze", method="DELETE").status_code == 204
    assert list_log(number) == before


@pytest.mark.parametrize(
    ("what", "body"),
    [("reassign", {"assigned_to": "bob"}), ("status", {"status": 3}), ("status", {"status": 1})],
    ids=["reassigned", "resolved", "triggered"],
)
def test_a_change_of_the_incident_cancels_its_snooze(ask, act, shown, acknowledged, world, what, body):
    number = acknowledged()
    act(number, "snooze", minutes=5)
    if what == "status":
        ask("PATCH", f"/api/incidents/{number}/", body)
    else:
        act(number, what, assigned_to=world.bob.username)

    assert (shown(number)["snooze_time"], shown(number)["snoozed_till"]) == (None, None)
    assert TimerKind.SNOOZE not in list_pending_timers(number)


# --- merging ----------------------------------------------------------------------------------------


def test_merged_incidents_notify_nobody_and_show_their_parent(ask, act, shown, create_incident, other):
    one, two, three = (
        create_incident(title="one"),
        create_incident(title="two"),
        create_incident(other, title="three"),
    )

    parent = act(one, "merge", incidents=[two, shown(three)["unique_id"]]).json

    assert (parent["incident_number"], parent["is_parent_incident"], parent["merged_with"]) == (1, True, None)
    for number in (two, three):
        child = shown(number)
        assert child["status"] == 2
        assert child["merged_with"] == child["parent_incident"] == parent["unique_id"]
        assert child["is_parent_incident"] is False
        assert list_pending_timers(number) == []
        assert list_log(number)[-1] == ("merged", "Merged into #1 by Alice.")
    assert parent["status"] == 1
    assert list_log(one)[-1] == ("merged", "#2, #3 merged into this incident by Alice.")
    assert list_pending_notifications() == [("Alice", "escalation")]
    listed = ask("POST", "/api/incidents/filter/", {"status": 0}).json["results"]
    assert [each["is_child_incident"] for each in listed] == [False, True, True]


def test_children_are_resolved_with_their_parent_and_not_reopened_with_it(
    ask, act, shown, create_incident, other
):
    one, two, three = create_incident(), create_incident(), create_incident(other)
    act(one, "merge", incidents=[two, three])

    ask("PATCH", f"/api/incidents/{one}/", {"status": 3})
    assert [shown(number)["status"] for number in (one, two, three)] == [3, 3, 3]

    ask("PATCH", f"/api/incidents/{one}/", {"status": 1})
    assert [shown(number)["status"] for number in (one, two, three)] == [1, 3, 3]
    assert shown(one)["is_parent_incident"] is True


def test_a_resolved_child_stays_merged_and_a_reopened_child_does_not(ask, act, shown, create_incident):
    one, two = create_incident(), create_incident()
    act(one, "merge", incidents=[two])

    alone = ask("PATCH", f"/api/incidents/{two}/", {"status": 3}).json
    assert (alone["status"], alone["merged_with"]) == (3, shown(one)["unique_id"])

    again = ask("PATCH", f"/api/incidents/{two}/", {"status": 1}).json
    assert (again["status"], again["merged_with"]) == (1, None)
    assert list_pending_notifications() == [("Alice", "escalation"), ("Alice", "escalation")]


def test_children_of_a_merged_incident_get_the_new_parent(ask, act, shown, create_incident):
    one, two, three, four = create_incident(), create_incident(), create_incident(), create_incident()
    act(two, "merge", incidents=[three, four])
    ask("PATCH", f"/api/incidents/{four}/", {"status": 3})

    act(one, "merge", incidents=[two])

    parent = shown(one)["unique_id"]
    assert [shown(number)["merged_with"] for number in (two, three, four)] == [parent] * 3
    assert [shown(number)["status"] for number in (two, three, four)] == [2, 2, 3]
    assert shown(two)["is_parent_incident"] is False
    assert list_log(three)[-1] == (
        "merged",
        "Merged into #1, because Alice merged the previous parent into #1.",
    )


def test_an_unmerged_incident_stays_acknowledged_without_a_parent(ask, act, shown, create_incident):
    Service.update(acknowledgement_timeout_enabled=True, acknowledgement_timeout=900).execute()
    one, two, three = create_incident(), create_incident(), create_incident()
    act(one, "merge", incidents=[two, three])

    parent = act(one, "unmerge", incidents=[two]).json

    assert parent["is_parent_incident"] is True
    assert (shown(two)["status"], shown(two)["merged_with"]) == (2, None)
    assert list_pending_timers(two) == [TimerKind.ACKNOWLEDGEMENT_TIMEOUT]
    assert list_log(two)[-1] == ("unmerged", "Unmerged from #1 by Alice.")
    ask("PATCH", f"/api/incidents/{one}/", {"status": 3})
    assert [shown(number)["status"] for number in (two, three)] == [2, 3]


def test_no_timer_ends_the_snooze_of_a_child(act, shown, create_incident, acknowledged):
    one, two = create_incident(), acknowledged()
    act(two, "snooze", minutes=5)

    act(one, "merge", incidents=[two])

    assert (shown(two)["snoozed_till"], list_pending_timers(two)) == (None, [])
    assert "silent" in get_error(act(two, "snooze", minutes=5), "incident")


def test_an_invalid_merge_changes_nothing(ask, act, create_incident, shown):
    one, two, three, over = create_incident(), create_incident(), create_incident(), create_incident()
    ask("PATCH", f"/api/incidents/{over}/", {"status": 3})
    act(two, "merge", incidents=[three])
    before = dump_all_rows()

    def get_refusal(number, *incidents):
        return get_error(act(number, "merge", incidents=list(incidents)), "incidents")

    assert get_refusal(one, one) == "An incident cannot be merged into itself."
    assert get_refusal(one, two, two) == "Name each incident only once."
    assert get_refusal(one, two, shown(two)["unique_id"]) == "Name each incident only once."
    assert get_refusal(one, over) == f"#{over} is resolved."
    assert get_refusal(over, one) == f"#{over} is resolved."
    assert get_refusal(one, three) == f"#{three} is merged into another one, or into this, already."
    assert get_refusal(two, three) == f"#{three} is merged into another one, or into this, already."
    assert get_refusal(three, one) == f"#{three} is merged into another one."
    assert get_refusal(one, two, 99, "nothing") == "No such incidents: 99, nothing."
    assert (
        get_error(act(one, "unmerge", incidents=[two]), "incidents")
        == f"Not merged into this incident: #{two}."
    )
    assert dump_all_rows() == before


WRONG_LISTS = [
    None, [], "", "2", {"a": 1}, [None], [[2]], [{"unique_id": 2}], [True], [2.5], [-2], [10**30],
    ["x" * 65], list(range(2, 103)), ["%00"], ["\x00"], ["' or 1=1 --"], ["²"],
]  # fmt: skip


def test_an_invalid_list_of_incidents_is_refused(act, create_incident):
    def check(case):
        what, incidents = case
        number = create_incident()

        assert act(number, what, incidents=incidents).status_code == 400
        assert act(number, what).status_code == 400

    assert list_offenders(check, itertools.product(["merge", "unmerge"], WRONG_LISTS)) == []


def test_the_number_of_children_is_limited(ask, act, create_incident, world, now, monkeypatch):
    monkeypatch.setattr("web.incidents.actions.MAX_CHILDREN", 2)
    one, two, three, four = create_incident(), create_incident(), create_incident(), create_incident()
    act(one, "merge", incidents=[two])
    act(three, "merge", incidents=[four])

    assert (
        get_error(act(one, "merge", incidents=[three]), "incidents")
        == "No more than 2 incidents may be merged into one."
    )


def test_a_viewer_cannot_merge_an_incident_without_permission(ask, act, create_incident, world, now):
    """An incident of another account, or of a team without permissions, is answered like an unknown one."""
    policy = world.policy
    far = provisioning.create_service(world.charlies_team, "Billing", policy, world.charlie, now)
    Team.update(account_permissions=["incident_read"]).where(Team.id == world.charlies_team.id).execute()
    mine, charlies = create_incident(who="bob"), create_incident(far)
    theirs = provisioning.create_service(world.mallorys_team, "Elsewhere", policy, world.mallory, now)
    mallorys = Incident.create(
        unique_id=make_short_id(), account=world.mallory.account, incident_number=77, incident_key="k",
        service=theirs, team=world.mallorys_team, title="x", status=1, urgency=1, creation_date=now,
        run_started_at=now,
    )  # fmt: skip
    before = dump_all_rows()

    for what in ("merge", "unmerge"):
        for who, target in (("bob", charlies), ("bob", mallorys.unique_id), ("alice", mallorys.unique_id)):
            answer = act(mine, what, who=who, incidents=[target])
            assert get_error(answer, "incidents") == f"No such incidents: {target}."
    assert act(charlies, "merge", who="bob", incidents=[mine]).status_code == 403
    assert act(mallorys.unique_id, "merge", incidents=[mine]).status_code == 404
    assert dump_all_rows() == before

    assert act(mine, "merge", incidents=[charlies]).status_code == 200


def test_a_team_with_children_of_other_teams_cannot_be_deleted_before_unmerge(
    ask, act, shown, create_incident, world, now
):
    """Else the children would never notify, and their timelines would not show the reason."""
    far = provisioning.create_service(world.charlies_team, "Billing", world.policy, world.charlie, now)
    parent, child = create_incident(far), create_incident()
    act(parent, "merge", incidents=[child])
    team = f"/api/account/teams/{world.charlies_team.unique_id}/"

    refused = ask("DELETE", team, scheme="Token")
    assert (refused.status_code, list(refused.json["errors"])) == (400, ["team"])

    act(parent, "unmerge", incidents=[child])
    assert ask("DELETE", team).status_code == 204
    assert (shown(child)["status"], shown(child)["merged_with"]) == (2, None)


def test_merging_more_incidents_needs_no_more_statements(act, create_incident, other):
    def count_statements(count):
        parent, *children = [create_incident(service) for service in [None, *[None, other] * count]]
        with count_queries() as counted:
            assert act(parent, "merge", incidents=children).status_code == 200
        return counted.count

    count_statements(1)
    assert count_statements(1) == count_statements(10)


@pytest.mark.parametrize("scheme", ["Bearer", "Token"])
def test_each_operation_returns_the_incident_as_retrieved(ask, create_incident, acknowledged, scheme):
    one, two = acknowledged(), create_incident()
    requests = [
        ("snooze", {"minutes": 5}),
        ("merge", {"incidents": [two]}),
        ("unmerge", {"incidents": [str(two)]}),
    ]

    for what, body in requests:
        answer = ask("POST", f"{ACTIONS_URL}{one}/{what}/", body, scheme=scheme)
        assert set(answer.json) == INCIDENT
        assert answer.json == ask("GET", f"/api/incidents/{one}/", scheme=scheme).json


# --- fields of the schema ---------------------------------------------------------------------------


def test_an_incident_shows_its_postmortems(ask, shown, create_incident, world, now):
    one, two = create_incident(), create_incident()
    for title in ("What broke", "What we learned"):
        postmortem = Postmortem.create(
            unique_id=make_uuid(), team=world.team, author=world.alice, title=title, creation_date=now,
            updated_at=now,
        )  # fmt: skip
        PostmortemIncident.create(
            unique_id=make_uuid(),
            postmortem=postmortem,
            incident=Incident.get(Incident.incident_number == one),
        )

    assert [each["title"] for each in shown(one)["postmortems"]] == ["What broke", "What we learned"]
    assert set(shown(one)["postmortems"][0]) == {"unique_id", "title"}
    assert shown(two)["postmortems"] == []
