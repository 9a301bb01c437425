"""A channel is one line of CHANNELS and one file. Here the file stands in tests/support/channels."""

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from models.domain.channels import CHANNELS, CONTACT_TYPES, ChannelSpec
from models.domain.enums import NotificationStatus
from models.domain.reasons import make_reason
from models.reports.metrics_page import render
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod, NotificationRule
from runtime import metrics
from runtime.metrics import Counters
from runtime.settings import load
from tests.support.mail_server import start_mailbox
from tests.support.web.apps import get_app
from workers import main
from workers.delivery import channels, deliver
from workers.periodic import due_scan

NOTEBOOK = 199
MODULE = "workers.delivery.channels.notebook"


@pytest.fixture
def pages(monkeypatch):
    """Add the line of the channel, and the folder of its file. Return the pages that it writes."""
    folder = Path(__file__).parent.parent / "support/channels"
    monkeypatch.setitem(CHANNELS, NOTEBOOK, ChannelSpec(NOTEBOOK, "notebook", "notebook pages"))
    monkeypatch.setitem(CONTACT_TYPES, NOTEBOOK, "notebook pages")
    monkeypatch.setattr(channels, "__path__", [*channels.__path__, str(folder)])
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    for name in ("actors", "queues"):
        monkeypatch.setattr(main.broker, name, dict(getattr(main.broker, name)))
    monkeypatch.setitem(deliver.ACTORS, NOTEBOOK, deliver.declare_actor(NOTEBOOK))
    deliver.configure(load({}))
    yield sys.modules[MODULE].PAGES
    del sys.modules[MODULE]
    deliver._runtimes.clear()


@pytest.fixture
def wake_ups(enqueued):
    """The wake-ups that were enqueued."""
    return enqueued


@pytest.fixture
def work(wake_ups):
    """work(): let the actors of the queues process all wake-ups. Return the names of the queues."""

    def work() -> list[str]:
        names = []
        while wake_ups:
            name, *args = wake_ups.pop(0)
            names.append(name)
            main.broker.get_actor(name)(*args)
        return names

    return work


@pytest.fixture
def ask(world, home, wake_ups):
    """ask("POST", path, body): one request of Alice."""
    client = get_app(load({"TOCSIN_HOME": str(home)})).test_client()
    headers = {"Authorization": f"Bearer {world.tokens['alice']}"}
    return lambda method, path, body=None: client.open(path, method=method, json=body, headers=headers)


@pytest.fixture
def carry(ask, world, wake_ups):
    """carry(value): replace Alice's notification rules by one rule with a new contact of the new type."""

    def carry(value: str) -> str:
        user = f"/api/account/users/{world.alice.username}"
        NotificationRule.delete().where(NotificationRule.user == world.alice).execute()
        body = {"name": "Notebook", "contact_type": NOTEBOOK, "value": value}
        own = f"/api/tocsin/users/{world.alice.username}"
        contact = ask("POST", f"{own}/contacts/", body).json["unique_id"]
        Message.delete().where(Message.kind == "code").execute()
        wake_ups.clear()
        ContactMethod.update(verified_value=value).where(ContactMethod.unique_id == contact).execute()
        rule = {"contact": contact, "start_delay": 0, "urgency": 1}
        assert ask("POST", f"{user}/notification_rules/", rule).status_code == 201
        return contact

    return carry


@pytest.fixture
def alert(ask, world):
    def alert(message: str = "Disk full on db1") -> str:
        body = {"message": message, "alert_type": "critical", "entity_id": message}
        path = f"/integration/{world.account.account_identifier}/generic/{world.integration.integration_key}/"
        return ask("POST", path, body).json["trace_id"]

    return alert


def test_an_alert_notifies_through_a_new_channel(pages, carry, alert, work, ask, monkeypatch):
    counters = Counters()
    monkeypatch.setattr(metrics, "counters", counters)
    carry("kitchen wall")
    trace_id = alert()

    assert list(dict.fromkeys(work())) == ["pipeline.normalize", "deliver.notebook"]
    assert pages == [("kitchen wall", "[Checkout] #1 Disk full on db1 (critical) [acknowledge] [resolve]")]
    (attempt,) = Attempt.select()
    assert (attempt.outcome, attempt.detail) == ("sent", make_reason("text", text="Written on page 1."))
    trace = str(ask("GET", f"/api/tocsin/alerts/{trace_id}/").json)
    assert "'channel': 'notebook'" in trace
    assert "'contact': 'Notebook'" in trace
    text = render().decode()
    assert 'tocsin_delivery_attempts_total{channel="notebook",outcome="sent"} 1.0' in text
    assert 'tocsin_notifications_total{channel="notebook",outcome="sent"} 1.0' in text
    assert 'tocsin_messages_pending{channel="notebook"} 0.0' in text
    assert ask("GET", "/readyz").json["channels"].items() >= {("email", "not set"), ("notebook", "ok")}


def test_a_channel_shortens_a_long_title_itself(pages, carry, alert, work):
    carry("kitchen wall")
    alert("Disk full " * 20)
    work()

    ((_, text),) = pages
    assert len(text) == 160
    assert text.endswith(" [acknowledge] [resolve]")


def test_the_clock_knows_a_new_channel(pages, carry, alert, work, wake_ups):
    carry("full")
    alert()
    work()
    (attempt,) = Attempt.select()
    assert (attempt.outcome, attempt.detail) == ("retry", make_reason("text", text="The notebook is full."))

    Message.update(next_attempt_at=store().now() - timedelta(seconds=1)).execute()
    due_scan.enqueue_due()
    assert ("deliver.notebook",) in wake_ups


def test_a_due_message_of_a_removed_channel_does_not_stop_other_wake_ups(
    pages, carry, alert, work, wake_ups, monkeypatch
):
    carry("full")
    alert()
    work()
    Message.update(next_attempt_at=store().now() - timedelta(seconds=1)).execute()
    monkeypatch.delitem(CHANNELS, NOTEBOOK)
    monkeypatch.delitem(deliver.ACTORS, NOTEBOOK)

    due_scan.enqueue_due()

    assert ("deliver.notebook",) not in wake_ups


def test_a_test_message_and_a_simulation_use_a_new_channel(pages, carry, ask, work, world):
    contact = carry("kitchen wall")
    path = f"/api/tocsin/users/{world.alice.username}/contacts/{contact}/test/"
    assert ask("POST", path).status_code == 200
    work()
    simulated = ask("POST", "/api/tocsin/simulate/", {"integration": world.integration.unique_id, "alert": {
        "message": "Disk full", "alert_type": "critical"}})  # fmt: skip

    assert pages == [("kitchen wall", "[Tocsin] Test message")]
    assert ask("GET", path).json[0]["state"] == "sent"
    assert "'channel': 'notebook'" in str(simulated.json)


@pytest.mark.parametrize("contact_type", [4, 5, 6, 0, 7, 100, 102])
def test_contact_types_without_a_channel_are_still_refused(pages, ask, world, contact_type):
    body = {"name": "Phone", "contact_type": contact_type, "value": "alice@example.org"}

    assert ask("POST", f"/api/account/users/{world.alice.username}/contacts/", body).status_code == 400


def test_an_address_must_have_the_form_of_its_channel(pages, carry, ask, world):
    path = f"/api/account/users/{world.alice.username}/contacts/{carry('kitchen wall')}/"

    assert ask("PATCH", path, {"value": "bathroom wall"}).status_code == 200
    for wrong in ({"value": "two\nlines"}, {"value": "x" * 321}, {"contact_type": 1}):
        assert ask("PATCH", path, wrong).status_code == 400
    full = {"name": "Home", "contact_type": 1, "value": "alice@home.example.org"}
    assert ask("PUT", path, full).json["contact_type"] == 1


def test_the_users_own_address_is_notified_if_a_channel_refuses(pages, carry, alert, work):
    carry("lost")
    alert()
    with start_mailbox() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        work()
        deliver.send_due(1)

    assert [to for to, _ in box.mails] == ["alice@example.org"]
    reason = "The message to Notebook was refused, so this goes to the user's own e-mail address"
    assert reason in box.mails[0][1].get_content()


def test_over_the_limit_of_costs_the_users_own_address_is_notified(pages, carry, alert, work, monkeypatch):
    carry("kitchen wall")
    expensive = ChannelSpec(NOTEBOOK, "notebook", "notebook pages", toll_units=3)
    monkeypatch.setitem(CHANNELS, NOTEBOOK, expensive)
    with start_mailbox() as box:
        settings = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
        deliver.configure(load({**settings, "TOCSIN_PHONE_DAILY_LIMIT": "5"}))
        for message in ("Disk full", "Disk still full"):
            alert(message)
            work()
        deliver.send_due(1)

    assert [to for to, _ in pages] == ["kitchen wall"]
    failed = Notification.select().where(Notification.state == NotificationStatus.FAILED).get()
    assert "SMS and calls of the account have used the 5 units" in str(failed.outcome)
    assert [to for to, _ in box.mails] == ["alice@example.org"]
    deliver.configure(load({}))


def test_the_users_own_address_is_notified_if_a_channel_has_no_settings(
    pages, carry, alert, work, monkeypatch
):
    carry("kitchen wall")
    alert()
    with start_mailbox() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        channel = deliver._runtimes[NOTEBOOK].channel
        monkeypatch.setattr(channel, "find_missing_setting", lambda: "set TOCSIN_NOTEBOOK")
        work()
        deliver.send_due(1)

    first = Notification.select().order_by(Notification.id).get()
    missing = make_reason("not_configured", problem="set TOCSIN_NOTEBOOK")
    assert first.outcome == missing.add(make_reason("user_email_instead"))
    assert "No message could be sent to Notebook" in box.mails[0][1].get_content()


def test_a_message_to_a_deleted_contact_goes_to_the_account(pages, carry, alert, work, wake_ups, world):
    contact = carry("kitchen wall")
    alert()
    main.broker.get_actor("pipeline.normalize")(world.service.id)
    ContactMethod.delete().where(ContactMethod.unique_id == contact).execute()
    with start_mailbox() as box:
        deliver.configure(load({"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}))
        work()
        deliver.send_due(1)

    assert (pages, [to for to, _ in box.mails]) == ([], ["alice@example.org"])
    assert Incident.get().status == 1
