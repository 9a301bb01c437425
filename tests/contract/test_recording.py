"""Each write of the configuration is in the history of the account, in the same transaction."""

from datetime import UTC, datetime, timedelta
from typing import Any

from models.links import signed_links
from models.links.signed_links import IncidentLink, Invitation, SwapLink
from models.store.ids import make_uuid
from models.tables.accounts import Token, User
from models.tables.changes import Change
from models.tables.notifications import Notification
from models.tables.schedules import Schedule, ShiftSwap
from models.tables.users import ContactCode, ContactMethod
from tests.support.alerts import accept
from tests.support.changes.configuration import compare_rows, read_configuration
from tests.support.changes.requests import WRITES, add_samples, get_key, list_requests
from tests.support.contract.requests import with_alert
from tests.support.delivery.browser_keys import BrowserKeys
from tests.support.schedules.stored import layer, schedule
from web.http import recording
from web.pages.console import swaps
from web.routes import PAGES, ROUTES
from workers.alerts import process_lane

__all__ = ["with_alert"]

# Routes that have no request here, by the start of their path.
UNTRIED = {
    # What tools send. They write alerts, which is tested in tests/web/event_apis.
    "/v2/": "alerts", "/generic/": "alerts", "/api/v2/alerts/": "alerts",
    "/integration/alertmanager/": "alerts", "/integrations/generic/": "alerts",
    # What providers report, and answers to messages. A chat verifies the address of a contact.
    "/callbacks/": "messages", "/api/tocsin/users/<username>/contacts/<contact_id>/link/": "verification",
    "/api/tocsin/users/<username>/contacts/<contact_id>/code/": "verification",
    # A public key, which is the same for everybody.
    "/push/key/": "no object",
    # Incidents.
    "/i/<token>": "incidents", "/incidents/": "incidents", "/why/": "incidents",
    # Sign-ins. Passwords, sessions and passkeys are tables of their own.
    "/sign-in/": "sign-in", "/sign-out/": "sign-in", "/me/password/": "sign-in", "/me/sessions/": "sign-in",
    "/me/passkeys/": "sign-in",
}  # fmt: skip
# Writes that have no change with a kind, by the reason.
WITHOUT_CHANGE: dict[tuple[str, str], str] = {}
# Objects with a number that are no configuration.
WRITING_ABOUT_INCIDENTS = {
    "/api/account/teams/<team_id>/postmortem/<postmortem_id>/",
    "/api/account/teams/<team_id>/post_incident_tasks/<post_incident_task_id>/",
}
DAY = timedelta(days=1)


class Broken(Exception):
    """The history could not be written."""


def read_changes() -> list[int]:
    return [number for (number,) in Change.select(Change.id).where(Change.kind != "").tuples()]


def test_each_operation_that_changes_the_configuration_is_recorded(ask, samples, world, with_alert):
    add_samples(ask, samples, world)
    offenders, refused, changing = [], [], set()
    for request in list_requests(ask, samples):
        before, changes = read_configuration(), len(read_changes())
        answer = ask(request.key[0], request.path, request.body)

        if answer.status_code != request.status:
            refused.append((request, answer.status_code, answer.text))
        differs, is_recorded = compare_rows(before, read_configuration()), len(read_changes()) > changes
        if bool(differs and request.key not in WITHOUT_CHANGE) != is_recorded:
            offenders.append((*request.key, differs, is_recorded))
        if differs:
            changing.add(request.key)

    assert refused == []
    assert offenders == []
    assert {route for route in changing if route in WITHOUT_CHANGE} == set(WITHOUT_CHANGE)
    numbered = {(route.method, route.path) for route in ROUTES if route.has_condition}
    assert {path for _, path in numbered - changing} == WRITING_ABOUT_INCIDENTS


def test_a_write_that_cannot_be_recorded_changes_nothing(ask, samples, world, with_alert, monkeypatch):
    add_samples(ask, samples, world)
    ask("PATCH", f"/api/account/teams/{samples.ids['team_id']}/tags/{samples.ids['tag_id']}/", {"name": "x"})
    add_change = recording.add_change
    broken = []

    def break_it(*given: Any, **more: Any) -> None:
        add_change(*given, **more)
        broken.append(given)
        raise Broken

    monkeypatch.setattr(recording, "add_change", break_it)
    before, changes = read_configuration(), read_changes()
    offenders = []
    for request in list_requests(ask, samples):
        broken.clear()
        ask(request.key[0], request.path, request.body)
        after = read_configuration()
        if broken and (differs := compare_rows(before, after)):
            offenders.append((*request.key, differs))
        before = after

    assert offenders == []
    assert read_changes() == changes


def build_swap(world: Any, nights: Schedule, number: int) -> ShiftSwap:
    """Bob asks Alice to take his shift of a day, for hers on the next day."""
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + 2 * number * DAY
    swap: ShiftSwap = ShiftSwap.create(
        unique_id=make_uuid(),
        creation_date=start - DAY,
        schedule=nights,
        asker=world.bob,
        asked_start=start,
        asked_end=start + DAY,
        partner=world.alice,
        returned_start=start + DAY,
        returned_end=start + 2 * DAY,
    )
    return swap


def build_browser(number: int) -> dict[str, str]:
    found = BrowserKeys().subscribe(f"https://updates.push.example.org/wpush/v2/{number}")
    return {"endpoint": found.endpoint, "p256dh": found.p256dh, "auth": found.auth}


def list_forms(ask: Any, samples: Any, sign_in: Any, world: Any) -> Any:
    """Yield each form: its route, a function that sends it, and whether it changes the configuration."""
    ids = samples.ids
    bob, alice = sign_in("bob"), sign_in("alice")
    bob.get("/mine/")
    mine = ("POST", "/mine/")

    def act(asked: str, **fields: str) -> Any:
        return lambda: bob.post("/mine/", act=asked, **fields)

    yield mine, act("add", name="Second", contact_type="1", value="bob2@example.org"), True
    contact = ContactMethod.get(ContactMethod.name == "Second")
    code = ContactCode.get(ContactCode.contact == contact).code
    yield mine, act("verify", row=contact.unique_id, code=code), False
    yield mine, act("add_rule", contact=contact.unique_id, start_delay="7", urgency="1"), True
    yield mine, act("remove_rule", row=ids["notification_rule_id"]), True
    yield mine, act("remove", row=contact.unique_id), True
    yield mine, act("messages", recovery_mails=""), True
    yield mine, act("time_zone", time_zone="Asia/Tokyo"), True
    yield mine, act("theme", theme="dark"), False
    yield mine, act("renew_calendar"), False
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    nights = schedule(world.team, layer(world.bob, world.alice, start=start), name="Nights")
    path = f"/on-call/{nights.unique_id}/"
    override = {"user": world.bob.username, "hours": "4"}
    alice.get(path)
    yield ("POST", "/on-call/<schedule_id>/"), lambda: alice.post(path, **override), True
    held = [
        swaps.write_choice(swaps.HeldShift(user.username, start + days * DAY, start + (days + 1) * DAY))
        for user, days in ((world.bob, 4), (world.alice, 5))
    ]
    asked = dict(zip(("mine", "theirs"), held, strict=True))
    yield ("POST", "/on-call/<schedule_id>/swaps/"), lambda: bob.post(f"{path}swaps/", **asked), False
    swap = ShiftSwap.get()
    answer = f"{path}swaps/{swap.unique_id}/"
    yield (
        ("POST", "/on-call/<schedule_id>/swaps/<swap_id>/"),
        lambda: alice.post(answer, act="accept"),
        True,
    )
    linked = build_swap(world, nights, 4)
    signer = signed_links.get_signer()
    link = f"/swap/{signer.sign_swap(SwapLink(linked.id, linked.partner_id), linked.asked_start)}"
    yield ("POST", "/swap/<token>"), lambda: ask("POST", link, who=None, data={"act": "accept"}), True
    yield ("POST", "/me/tokens/"), lambda: bob.post("/me/tokens/", name="laptop", days="90"), True
    token = Token.get(Token.name == "laptop", Token.user == world.bob, Token.revoked_at.is_null())
    revoke = f"/me/tokens/{token.unique_id}/revoke/"
    yield ("POST", "/me/tokens/<token_id>/revoke/"), lambda: bob.post(revoke), True
    team = f"/api/account/teams/{world.team.unique_id}"
    ask("PATCH", f"{team}/services/{world.service.unique_id}/", {"summary": "To be undone"})
    last = Change.select(Change.unique_id).order_by(Change.id.desc()).limit(1).scalar()
    yield ("POST", "/changes/<change_id>/undo/"), lambda: alice.post(f"/changes/{last}/undo/"), True
    ask("POST", "/api/account/api_invite/", samples.bodies["invitation"])
    dora = User.get(User.email == "dora@example.org")
    join = f"/join/{signer.sign_invitation(Invitation.for_user(dora), datetime.now(UTC))}"
    yield ("POST", "/join/<token>"), lambda: ask("POST", join, who=None), True
    yield (
        ("POST", "/join/<token>/browser/"),
        lambda: ask("POST", f"{join}/browser/", build_browser(1), who=None),
        True,
    )
    accept(world, datetime.now(UTC), message="Disk full on db1", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    sent = Notification.get()
    page = IncidentLink(sent.incident_id, sent.user_id, sent.id)
    shown = f"/i/{signer.sign(page, datetime.now(UTC))}"
    yield (
        ("POST", "/i/<token>/browser/"),
        lambda: ask("POST", f"{shown}/browser/", build_browser(2), who=None),
        True,
    )


# Pages that change the configuration and have no change with a kind, by the reason.
PAGES_WITHOUT_CHANGE = {
    ("POST", "/join/<token>"): "the person verifies the address and gets a token: an entry of its own",
}


def test_each_page_that_changes_the_configuration_is_recorded(ask, samples, sign_in, world, enqueued):
    offenders, tried = [], set()
    for key, send, is_change in list_forms(ask, samples, sign_in, world):
        before, changes = read_configuration(), len(read_changes())
        answer = send()
        assert answer.status_code < 400, (key, answer.status_code, answer.text)
        differs, is_recorded = compare_rows(before, read_configuration()), len(read_changes()) > changes
        assert bool(differs) == is_change, (key, differs)
        if (is_change and key not in PAGES_WITHOUT_CHANGE) != is_recorded:
            offenders.append((*key, differs, is_recorded))
        tried.add(key)

    assert offenders == []
    assert set(PAGES_WITHOUT_CHANGE) <= tried
    tried |= {get_key(row) for row in WRITES}
    writing = {(each.method, each.path) for each in (*ROUTES, *PAGES) if each.method not in ("GET", "HEAD")}
    assert [path for _, path in writing - tried if path != "/" and not path.startswith(tuple(UNTRIED))] == []
