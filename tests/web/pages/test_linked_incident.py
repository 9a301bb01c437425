"""The page that the link in a message opens. GET shows the incident, POST acts, other links do nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from models.domain.enums import IncidentStatus, TargetType
from models.domain.reasons import make_reason
from models.links import signed_links
from models.links.signed_links import IncidentLink
from models.store.ids import make_short_id, make_uuid
from models.store.peewee_internals import get_values
from models.tables.accounts import CustomRole, User
from models.tables.incidents import Incident, IncidentLog, IncidentNote, IncidentResponder
from models.tables.notifications import Notification
from models.tables.schedules import Schedule, ScheduleOverride
from models.tables.teams import EscalationPolicy, Sla, Team, TeamMember
from models.tables.timers import Timer
from models.tables.users import ForwardingRule
from tests.support.alerts import accept
from tests.support.schedules.stored import layer, schedule
from workers.alerts import process_lane

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"


def build_link(notification: Notification, at: datetime | None = None) -> str:
    link = IncidentLink(notification.incident_id, notification.user_id, notification.id)
    return f"/i/{signed_links.get_signer().sign(link, at or datetime.now(UTC))}"


@pytest.fixture
def open_incident(world, now):
    """open_incident(): open an incident with an alert and return the path of Alice's link to it."""

    def open_incident(message="Disk full on db1", **alert) -> str:
        accept(world, now, message=message, alert_type="critical", entity_id="db1", **alert)
        process_lane.run(world.service.id)
        return build_link(Notification.get())

    return open_incident


def act(ask, path: str, button: str):
    return ask("POST", path, who=None, data={"act": button})


def test_the_page_shows_the_incident_and_its_alerts(ask, open_incident, world):
    User.update(time_zone="Europe/Berlin").where(User.id == world.alice.id).execute()
    page = ask(
        "GET", open_incident(summary="97% of /var", urls=["https://runbook.example.org/disk"]), who=None
    )

    assert page.status_code == 200
    assert page.mimetype == "text/html"
    for words in (
        "Disk full on db1", "Checkout", "#1", "triggered", "Wed 4 Mar 2026, 13:00:00 CET",
        "Alice", "97% of /var", "https://runbook.example.org/disk", "step 1 of policy", "acknowledge",
    ):  # fmt: skip
        assert words in page.text


def test_the_page_leads_to_the_trace_of_each_alert(ask, open_incident, world, now):
    path = open_incident()
    second = accept(world, now, message="Disk fuller", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    text = ask("GET", path, who=None).text

    assert f'href="/why/{second.trace_id}/"' in text
    assert text.count('href="/why/') == 2


def test_the_page_shows_every_notification_with_its_outcome(ask, open_incident, world):
    path = open_incident()
    before = ask("GET", path, who=None).text
    act(ask, path, "acknowledge")
    after = ask("GET", path, who=None).text

    assert "To be notified: Alice (e-mail)" in before
    assert "Not sent to Alice by e-mail: Alice by link had acknowledged" in after


def test_the_page_shows_links_with_their_texts(ask, open_incident):
    urls = [{"link_url": "https://runbook.example.org/disk", "link_text": "Runbook"}]

    page = ask("GET", open_incident(urls=urls), who=None)

    assert 'href="https://runbook.example.org/disk"' in page.text
    assert ">Runbook</a>" in page.text


def test_the_recipient_can_add_a_note(ask, open_incident, world):
    path = open_incident()
    answer = ask("POST", path, who=None, data={"note": f"  The disk is old. {HOSTILE}  "})
    page = ask("GET", path, who=None)

    note, log = IncidentNote.get(), IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    assert answer.status_code == 303
    assert (note.user, note.note) == (world.alice, f"The disk is old. {HOSTILE}")
    assert (log.what, log.author_kind, log.user) == ("noted", "link", world.alice)
    assert "The disk is old." in page.text
    assert HOSTILE not in page.text


def test_an_empty_note_is_not_written(ask, open_incident):
    ask("POST", open_incident(), who=None, data={"note": " \n "})

    assert not IncidentNote.select().exists()


def test_get_changes_nothing(ask, open_incident):
    path = open_incident()
    before = (get_values(Incident.get()), IncidentLog.select().count())
    for _ in range(3):
        ask("GET", path, who=None)

    assert (get_values(Incident.get()), IncidentLog.select().count()) == before


@pytest.mark.parametrize(
    ("button", "status", "left"),
    [("acknowledge", IncidentStatus.ACKNOWLEDGED, ["resolve"]), ("resolve", IncidentStatus.RESOLVED, [])],
)
def test_a_button_acts_as_the_recipient_and_shows_the_page(ask, open_incident, world, button, status, left):
    path = open_incident()
    answer = act(ask, path, button)
    page = ask("GET", answer.headers["Location"], who=None)

    assert (answer.status_code, page.status_code) == (303, 200)
    assert Incident.get().status == status
    log = IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    assert (log.author_kind, log.user) == ("link", world.alice)
    assert log.reason == make_reason(f"{status.name.lower()}_by_link", by="Alice")
    assert [word for word in ("acknowledge", "resolve") if f'value="{word}"' in page.text] == left
    assert not Timer.select().where(Timer.done_at.is_null(), Timer.kind == "escalate").exists()


def test_a_button_does_not_reopen_a_resolved_incident(ask, open_incident):
    path = open_incident()
    act(ask, path, "resolve")
    act(ask, path, "acknowledge")

    assert Incident.get().status == IncidentStatus.RESOLVED


@pytest.mark.parametrize("data", [{}, {"act": "delete"}, {"act": ""}, {"act": "\x00"}])
def test_an_unknown_button_does_nothing(ask, open_incident, data):
    answer = ask("POST", open_incident(), who=None, data=data)

    assert answer.status_code == 303
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_an_expired_link_explains_what_to_do(ask, open_incident):
    open_incident()
    page = ask("GET", build_link(Notification.get(), datetime.now(UTC) - timedelta(days=8)), who=None)

    assert page.status_code == 410
    assert "expired" in page.text
    assert "Disk full" not in page.text


def test_a_link_of_a_removed_person_is_not_found(ask, open_incident, world, now):
    path = open_incident()
    User.update(removed_at=now).where(User.id == world.alice.id).execute()

    assert ask("GET", path, who=None).status_code == 404
    assert act(ask, path, "resolve").status_code == 404
    assert Incident.get().status == IncidentStatus.TRIGGERED


@pytest.mark.parametrize("token", ["x", "WzEsMSwxLDFd.abc", "🔥", "%00", "a" * 3000])
def test_an_invalid_link_is_not_found(ask, open_incident, token):
    open_incident()
    page = ask("GET", f"/i/{token}", who=None)

    assert page.status_code == 404
    assert page.mimetype == "text/html"


def test_a_link_needs_matching_incident_person_and_notification(ask, open_incident, world):
    open_incident()
    notification = Notification.get()
    for wrong in (
        IncidentLink(notification.incident_id, world.mallory.id, notification.id),
        IncidentLink(notification.incident_id + 1, notification.user_id, notification.id),
        IncidentLink(notification.incident_id, notification.user_id, notification.id + 1),
    ):
        path = f"/i/{signed_links.get_signer().sign(wrong, datetime.now(UTC))}"
        assert ask("GET", path, who=None).status_code == 404
        assert act(ask, path, "resolve").status_code == 404


def test_hostile_text_is_escaped(ask, open_incident):
    page = ask("GET", open_incident(message=HOSTILE, summary=HOSTILE, urls=["javascript:alert(1)"]), who=None)

    assert "<script>" not in page.text
    assert "<img" not in page.text
    assert "javascript:" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "{{7*7}}" in page.text


def test_the_page_loads_nothing_and_is_not_cached(ask, open_incident):
    path = open_incident()
    pages = [ask("GET", path, who=None), ask("GET", "/i/x", who=None)]

    for page in pages:
        policy = page.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'nonce-")
        assert "frame-ancestors 'none'" in policy
        assert page.headers["Referrer-Policy"] == "no-referrer"
        assert page.headers["X-Robots-Tag"] == "noindex"
        assert page.headers["Cache-Control"] == "no-store"
        assert "src=" not in page.text
        assert 'name="viewport"' in page.text


def test_the_redirect_contains_the_path_of_the_public_url(app, open_incident):
    path = open_incident()
    app.config["SETTINGS"] = type("S", (), {"public_url": "https://example.org/tocsin"})
    answer = app.test_client().post(path, data={"act": "acknowledge"})

    assert answer.headers["Location"] == f"/tocsin{path}"


# --- the reader's right to the incident ----------------------------------------------------------------


@pytest.fixture
def link_of_bob(open_incident, world, now):
    """The path of Bob's link. Bob is a plain member of the team, and no policy names him."""
    open_incident()
    values = {**get_values(Notification.get()), "user": world.bob.id, "contact": None}
    del values["id"]
    return build_link(Notification.create(**{**values, "key": "of Bob"}))


def leave_team(user: User) -> None:
    TeamMember.delete().where(TeamMember.user == user).execute()


def name_in_policy(target_type: TargetType, name: str) -> None:
    target = {"target_type": target_type, "target_id": name, "position": 0}
    step = {"unique_id": make_uuid(), "delay": 0, "position": 1, "targets": [target]}
    EscalationPolicy.update(rules=[step]).execute()


def test_a_link_dies_with_its_readers_right_to_the_incident(ask, link_of_bob, world):
    assert ask("GET", link_of_bob, who=None).status_code == 200
    leave_team(world.bob)

    page = ask("GET", link_of_bob, who=None)
    assert (page.status_code, "Disk full" in page.text) == (404, False)
    assert act(ask, link_of_bob, "resolve").status_code == 404
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_a_reader_without_the_permission_to_write_sees_the_incident_without_buttons(ask, link_of_bob, world):
    leave_team(world.bob)
    Team.update(account_permissions=["incident_read"]).where(Team.id == world.team.id).execute()

    page = ask("GET", link_of_bob, who=None)
    assert (page.status_code, 'name="act"' in page.text) == (200, False)
    assert "You may read this incident, but not change it." in page.text
    assert act(ask, link_of_bob, "resolve").status_code == 303
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_a_custom_role_gives_the_right(ask, link_of_bob, world, now):
    leave_team(world.bob)
    role = CustomRole.create(
        unique_id=make_uuid(), account=world.account, name="x", creation_date=now,
        permissions=["incident_read", "incident_write"],
    )  # fmt: skip
    User.update(custom_role=role).where(User.id == world.bob.id).execute()

    assert act(ask, link_of_bob, "resolve").status_code == 303
    assert Incident.get().status == IncidentStatus.RESOLVED


def name_as_target(world, now) -> None:
    name_in_policy(TargetType.USER, world.bob.username)


def name_in_layer(world, now) -> None:
    _create_schedule(world, layer(world.bob))


def name_in_override(world, now) -> None:
    nights = _create_schedule(world)
    ScheduleOverride.create(
        unique_id=make_uuid(), schedule=nights, user=world.bob, start_time=now, end_time=now,
        creation_date=now,
    )  # fmt: skip


def _create_schedule(world, *layers) -> Schedule:
    made = schedule(world.charlies_team, *layers)
    name_in_policy(TargetType.SCHEDULE, made.unique_id)
    return made


def name_as_responder(world, now) -> None:
    IncidentResponder.create(
        unique_id=make_short_id(), incident=Incident.get(), user=world.bob, creation_date=now
    )


def name_as_assignee(world, now) -> None:
    Incident.update(assigned_to=world.bob).execute()


def name_in_sla(world, now) -> None:
    responder = {"user": world.bob.username, "unique_id": make_uuid()}
    escalation = {"unique_id": make_uuid(), "time": 60, "type": 1, "responders": [responder]}
    sla = Sla.create(
        unique_id=make_uuid(), team=world.team, name="Gold", escalations=[escalation], creation_date=now
    )
    Incident.update(sla=sla).execute()


def name_by_forwarding(world, now) -> None:
    """Alice, whom the policy names, forwards to Bob."""
    later = datetime.now(UTC) + timedelta(hours=1)
    ForwardingRule.create(
        unique_id=make_uuid(), user=world.alice, to_user=world.bob, created_by=world.alice, from_date=now,
        to_date=later, creation_date=now,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [name_as_target, name_in_layer, name_in_override, name_as_responder, name_as_assignee, name_in_sla,
     name_by_forwarding],
)  # fmt: skip
def test_a_person_whom_the_incident_names_can_act_without_being_in_the_team(
    ask, link_of_bob, world, now, name
):
    """Who is paged at night must be able to acknowledge, whatever the permissions are."""
    leave_team(world.bob)
    assert ask("GET", link_of_bob, who=None).status_code == 404
    name(world, now)

    assert ask("GET", link_of_bob, who=None).status_code == 200
    assert act(ask, link_of_bob, "resolve").status_code == 303
    assert Incident.get().status == IncidentStatus.RESOLVED


def test_the_recipient_snoozes_an_acknowledged_incident_for_half_an_hour(ask, open_incident, world):
    path = open_incident()
    assert 'value="snooze"' not in ask("GET", path, who=None).text
    act(ask, path, "snooze")
    assert Incident.get().snoozed_till is None

    act(ask, path, "acknowledge")
    assert "Acknowledged by you" in ask("GET", path, who=None).text
    act(ask, path, "snooze")
    row = Incident.get()
    log = IncidentLog.select().order_by(IncidentLog.id.desc()).get()
    page = ask("GET", path, who=None).text

    assert row.snoozed_till - row.snoozed_at == timedelta(minutes=30)
    assert (log.what, log.author_kind, log.user) == ("snoozed", "link", world.alice)
    assert "then it is triggered again" in page
    assert 'value="snooze"' not in page
