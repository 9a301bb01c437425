"""The button "Notify me in this browser" on the pages of signed links."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from models.contacts.browsers import get_keys
from models.domain.enums import OtherContactType
from models.links import signed_links
from models.links.signed_links import IncidentLink, Invitation
from models.people import provisioning
from models.tables.accounts import ConfigVersion, Secret, User
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod, NotificationRule, PushSubscription
from runtime.settings import load
from tests.support.alerts import accept
from tests.support.delivery.browser_keys import BrowserKeys
from tests.support.relays import relay
from web.account.notification_preferences import MAX_CONTACTS
from workers.alerts import process_lane
from workers.delivery import deliver

ENDPOINT = "https://updates.push.example.org/wpush/v2/gAAAAABf"


def build_body(**changes) -> dict:
    found = BrowserKeys().subscribe(ENDPOINT)
    return {"endpoint": found.endpoint, "p256dh": found.p256dh, "auth": found.auth, **changes}


@pytest.fixture
def link(world, now):
    """link(at): the path of Alice's link to a new incident, signed at this time."""
    accept(world, now, message="Disk full on db1", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    found = Notification.get()
    link = IncidentLink(found.incident_id, found.user_id, found.id)
    return lambda at=None: f"/i/{signed_links.get_signer().sign(link, at or datetime.now(UTC))}"


def subscribe(ask, path: str, **changes):
    return ask("POST", f"{path}/browser/", build_body(**changes), who=None)


def find_browsers() -> list[ContactMethod]:
    return list(ContactMethod.select().where(ContactMethod.contact_type == OtherContactType.WEB_PUSH))


def test_the_page_of_an_incident_adds_the_browser(ask, link, world, enqueued):
    before = ConfigVersion.get(ConfigVersion.account == world.account).version
    answer = subscribe(ask, link())

    assert answer.status_code == 201
    assert answer.json["detail"].startswith("Tocsin notifies you in this browser now.")
    (contact,) = find_browsers()
    assert re.fullmatch(r"updates\.push\.example\.org/[0-9a-f]{32}", contact.value)
    assert (contact.user, contact.verified_value) == (world.alice, contact.value)
    assert PushSubscription.get().endpoint == ENDPOINT
    assert NotificationRule.select().where(NotificationRule.contact == contact).count() == 2
    assert ConfigVersion.get(ConfigVersion.account == world.account).version > before
    assert ("deliver.web_push",) in enqueued


def test_the_person_gets_a_mail_about_a_new_browser(ask, link):
    path = link()
    for _ in range(2):
        subscribe(ask, path)
    with relay() as box:
        smtp = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
        deliver.configure(load(smtp))
        Message.update(next_attempt_at=Message.created_at).execute()
        deliver.send_due(1)

    mails = [mail for _, mail in box.mails if mail["Subject"] == "[Tocsin] A browser was added"]
    assert len(mails) == 1
    assert "If it was not you, delete this contact" in " ".join(mails[0].get_content().split())


def test_the_same_browser_is_one_contact(ask, link):
    path = link()
    assert [subscribe(ask, path).status_code for _ in range(2)] == [201, 201]

    assert len(find_browsers()) == 1
    assert Message.select().where(Message.kind == "browser").count() == 1


def test_a_link_older_than_a_day_adds_no_browser(ask, link):
    old = link(datetime.now(UTC) - timedelta(days=1, seconds=5))

    assert ask("GET", old, who=None).status_code == 200
    assert 'id="push"' not in ask("GET", old, who=None).text
    refused = subscribe(ask, old)
    assert (refused.status_code, refused.json["detail"]) == (
        403, "This link is older than a day. Use the link of a newer message.",
    )  # fmt: skip
    assert find_browsers() == []


@pytest.mark.parametrize("token", ["x", "WzEsMiwzLDRd.x", "%00"])
def test_without_a_valid_link_nothing_is_added(ask, link, token):
    assert subscribe(ask, f"/i/{token}").status_code == 404
    assert subscribe(ask, f"/join/{token}").status_code == 404
    assert find_browsers() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "http://updates.push.example.org/x"),
        ("endpoint", "https://"),
        ("endpoint", "https://a:b@push.example.org/x"),
        ("endpoint", "https://push.example.org:99999/x"),
        ("endpoint", "https://push.example.org/ö"),
        ("endpoint", "https://push.example.org/" + "x" * 2_000),
        ("endpoint", None),
        ("p256dh", "AAAA"),
        ("p256dh", "not base64!" * 8),
        ("auth", "A" * 24),
        ("auth", 7),
    ],
)
def test_a_subscription_that_is_none_is_refused_by_field(ask, link, field, value):
    refused = subscribe(ask, link(), **{field: value})

    assert refused.status_code == 400
    assert list(refused.json["errors"]) == [field]
    assert find_browsers() == []


def test_a_form_of_another_site_adds_no_browser(ask, link):
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        refused = ask("POST", f"{link()}/browser/", who=None, data="{}", content_type=kind)
        assert refused.status_code in (400, 415)

    assert find_browsers() == []


def test_a_person_has_a_limited_number_of_contacts(ask, link, world, now):
    while ContactMethod.select().where(ContactMethod.user == world.alice).count() < MAX_CONTACTS:
        provisioning.create_contact(world.alice, "Other", 1, "other@example.org", now)
    refused = subscribe(ask, link())

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["contact"])


def test_a_person_adds_a_browser_after_joining(ask, world):
    signer, bob = signed_links.get_signer(), world.bob
    User.update(is_verified=False).where(User.id == bob.id).execute()
    path = f"/join/{signer.sign_invitation(Invitation.for_user(bob), datetime.now(UTC))}"
    early = subscribe(ask, path)
    invited = ask("GET", path, who=None).text
    joined = ask("POST", path, who=None).text
    late = subscribe(ask, path)

    assert ('id="push"' in invited, 'id="push"' in joined) == (False, True)
    assert (early.status_code, late.status_code) == (404, 201)
    assert [contact.user for contact in find_browsers()] == [bob]


def test_the_page_runs_only_its_own_script_and_sends_only_to_this_host(ask, link):
    page = ask("GET", link(), who=None)
    policy = dict(
        rule.strip().partition(" ")[::2] for rule in page.headers["Content-Security-Policy"].split(";")
    )
    scripts = re.findall(r"<script([^>]*)>", page.text)
    nonce = re.search(r"nonce-([\w-]+)", policy["script-src"])[1]

    assert scripts == [f' nonce="{nonce}"']
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'nonce-{nonce}'"
    assert (policy["worker-src"], policy["connect-src"]) == ("'self'", "'self'")
    assert nonce not in ask("GET", link(), who=None).text


def test_the_page_names_the_paths_behind_a_proxy(ask, link, app):
    app.config["SETTINGS"] = load({"TOCSIN_PUBLIC_URL": "https://example.org/tocsin"})
    path = link()
    box = re.search(r'<div id="push" hidden ([^>]*)>', ask("GET", path, who=None).text)[1]

    assert unescape(box) == (
        f'data-worker="/tocsin/push.js" data-key="/tocsin/push/key/" data-target="/tocsin{path}/browser/"'
    )


def test_the_worker_may_only_send_requests_to_this_host(ask, world):
    worker = ask("GET", "/push.js", who=None)

    assert (worker.status_code, worker.mimetype) == (200, "text/javascript")
    assert worker.headers["Content-Security-Policy"] == "default-src 'none'; connect-src 'self'"
    assert "showNotification" in worker.text


def test_a_page_makes_no_key_but_its_script_does(ask, link):
    path = link()
    ask("GET", path, who=None)
    assert not Secret.select().where(Secret.name == "web_push").exists()

    assert ask("POST", "/push/key/", who=None).text == get_keys().public


def test_a_browser_cannot_be_added_through_the_interface(ask, world):
    body = {
        "name": "Browser",
        "contact_type": OtherContactType.WEB_PUSH,
        "value": "https://push.example.org/x",
    }
    refused = ask("POST", f"/api/account/users/{world.alice.username}/contacts/", body)

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["contact_type"])
