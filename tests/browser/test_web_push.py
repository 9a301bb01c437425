"""The way of a message through Chromium: the button on the page, the service worker, the notification.

Chromium has no connection to a push service in this test, so the test plays that part: the page gets a
subscription with keys of the test. What arrives at the push service of the test is decrypted with them, and
given to the service worker by the DevTools protocol.
"""

import json
from datetime import UTC, datetime

import pytest

from models.domain.enums import IncidentStatus, OtherContactType
from models.links import signed_links
from models.links.signed_links import IncidentLink
from models.tables.incidents import Incident
from models.tables.notifications import Notification
from models.tables.users import ContactMethod, PushSubscription
from runtime.settings import load
from tests.support.alerts import accept
from tests.support.delivery.browser_keys import BrowserKeys
from tests.support.delivery.webhook_server import start_webhook_server
from tests.support.polling import wait_until
from tests.support.web.server import run_server
from web.app import create_app
from workers.alerts import process_lane
from workers.delivery import deliver

__all__ = ["run_server"]

ENDPOINT = "https://push.example.org/wpush/v2/secret"


@pytest.fixture
def site(world, home, run_server):
    """A running web server with Tocsin. Its address is a secure context, as push needs it."""
    server = run_server()
    url = f"http://127.0.0.1:{server.port}"
    networks = {"TOCSIN_WEBHOOK_NETWORKS": "127.0.0.0/8"}
    server.settings = load({"TOCSIN_HOME": str(home), "TOCSIN_PUBLIC_URL": url, **networks})
    server.app = create_app(server.settings)
    server.url = url
    return server


def open_incident(world) -> str:
    """Open an incident, and return the token of Alice's link."""
    accept(world, datetime.now(UTC), message="Disk full on db1", alert_type="critical", entity_id="db1")
    process_lane.run(world.service.id)
    found = Notification.select().order_by(Notification.id.desc()).get()
    link = IncidentLink(found.incident_id, found.user_id, found.id)
    return signed_links.get_signer().sign(link, datetime.now(UTC))


@pytest.fixture
def page(chromium, site):
    """A page of Chromium that may show notifications. Its console must stay empty."""
    context = chromium.new_context()
    context.grant_permissions(["notifications"], origin=site.url)
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    yield page
    context.close()


def play_subscription(page, keys: BrowserKeys) -> None:
    """Let the browser subscribe without a push service: the page gets these keys."""
    found = keys.subscribe(ENDPOINT)
    subscription = {"endpoint": found.endpoint, "keys": {"p256dh": found.p256dh, "auth": found.auth}}
    page.add_init_script(
        f"""PushManager.prototype.subscribe = async (options) => {{
          window.subscribedTo = btoa(String.fromCharCode(...options.applicationServerKey));
          return {{toJSON: () => ({json.dumps(subscription)})}};
        }}"""
    )


class Worker:
    """The service worker of a page, through the DevTools protocol."""

    def __init__(self, page) -> None:
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._ids: list[str] = []
        self._session.on("ServiceWorker.workerRegistrationUpdated", self._remember)
        self._session.send("ServiceWorker.enable")

    def _remember(self, event) -> None:
        self._ids += [each["registrationId"] for each in event["registrations"]]

    def deliver(self, text: str, origin: str) -> None:
        while not self._ids:
            self._page.wait_for_timeout(20)
        self._session.send(
            "ServiceWorker.deliverPushMessage",
            {"origin": origin, "registrationId": self._ids[-1], "data": text},
        )

    def run(self, script: str, *values):
        (worker,) = self._page.context.service_workers
        return worker.evaluate(script, *values)

    def list_notifications(self) -> list[dict]:
        return self.run(
            """async () => (await self.registration.getNotifications()).map((each) => ({
              title: each.title, body: each.body, tag: each.tag,
              actions: each.actions.map((action) => action.title)}))"""
        )

    def click(self, action: str) -> None:
        """Click a button of the only notification as the browser reports it. Return when it is handled."""
        self.run(
            """async (action) => {
              const [notification] = await self.registration.getNotifications();
              let handled = [];
              const event = new NotificationEvent("notificationclick", {notification, action});
              event.waitUntil = (promise) => handled.push(promise);
              self.dispatchEvent(event);
              await Promise.all(handled);
            }""",
            action,
        )


def test_a_person_adds_a_browser_and_acknowledges_in_its_notification(page, site, world):
    keys = BrowserKeys()
    play_subscription(page, keys)
    page.goto(f"{site.url}/i/{open_incident(world)}")
    page.get_by_role("button", name="notify me in this browser").click()
    page.get_by_text("A test message is on its way.").wait_for()

    contact = ContactMethod.get(ContactMethod.contact_type == OtherContactType.WEB_PUSH)
    assert (contact.user, contact.verified_value) == (world.alice, contact.value)

    with start_webhook_server() as service:
        service.answer(201)
        # The address of the contact is derived from the URL of the push service.
        found = keys.subscribe(f"{service.url}/wpush")
        PushSubscription.update(endpoint=found.endpoint).execute()
        address = found.address
        ContactMethod.update(value=address, verified_value=address).where(
            ContactMethod.id == contact.id
        ).execute()
        accept(world, datetime.now(UTC), message="Disk full on db2", alert_type="critical", entity_id="db2")
        process_lane.run(world.service.id)
        deliver.configure(site.settings)
        deliver.send_due(OtherContactType.WEB_PUSH)
        texts = [keys.decrypt(request.body).decode() for request in service.received]

    text = next(each for each in texts if "Disk full on db2" in each)
    worker = Worker(page)
    worker.deliver(text, site.url)
    wait_until(lambda: page.wait_for_timeout(20) or worker.list_notifications())
    (shown,) = worker.list_notifications()
    assert shown["title"] == "[Checkout] #2 Disk full on db2 (critical)"
    assert shown["body"].startswith("Checkout, critical, high urgency\n")
    assert shown["actions"] == ["Acknowledge", "Resolve"]

    worker.deliver(text, site.url)
    assert len(worker.list_notifications()) == 1

    worker.click("acknowledge")

    (answered,) = worker.list_notifications()
    assert (answered["title"], answered["actions"]) == ("Acknowledged: #2 Disk full on db2", [])
    second = Incident.get(Incident.incident_number == 2)
    assert (second.status, second.assigned_to) == (IncidentStatus.ACKNOWLEDGED, world.alice)
    assert page.problems == []


def test_a_notification_says_who_has_the_incident(page, site, world):
    """The token is valid, and the incident is acknowledged already."""
    play_subscription(page, BrowserKeys())
    token = open_incident(world)
    page.goto(f"{site.url}/i/{token}")
    page.get_by_role("button", name="notify me in this browser").click()
    page.get_by_text("A test message is on its way.").wait_for()
    contact = ContactMethod.get(ContactMethod.contact_type == OtherContactType.WEB_PUSH)
    Notification.update(contact=contact).execute()
    message = {
        "id": "c0ffee", "title": "Disk full", "body": "", "url": "", "token": token, "is_urgent": True,
        "actions": [{"action": "acknowledge", "title": "Acknowledge"}],
    }  # fmt: skip
    worker = Worker(page)
    page.get_by_role("button", name="acknowledge").first.click()
    page.get_by_text("acknowledged").first.wait_for()

    worker.deliver(json.dumps(message), site.url)
    wait_until(lambda: page.wait_for_timeout(20) or worker.list_notifications())
    worker.click("acknowledge")

    (answered,) = worker.list_notifications()
    assert answered["title"].startswith("You already have #1 since ")
    assert page.problems == []
