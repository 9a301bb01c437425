"""A provider accepts a message first, and reports later whether it arrived."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta

import pytest

from models.domain.enums import IncidentStatus, MessageStatus, NotificationStatus, ProviderState
from models.domain.reasons import make_reason
from models.domain.values import replace
from models.reports.alert_trace import build_trace
from models.store.store import connection
from models.tables.callbacks import EarlyReport
from models.tables.events import Receipt
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.tables.users import ContactMethod
from models.write import delivery_reports
from models.write.delivery_reports import record_report
from runtime import metrics
from runtime.metrics import Counters
from tests.support.relays import relay
from tests.support.scenarios.delivery import MAIL, alert, deliver_to
from workers.delivery import deliver, outbox

__all__ = ["deliver_to"]

SECOND = timedelta(seconds=1)
SENT, DELIVERED, FAILED = ProviderState.SENT, ProviderState.DELIVERED, ProviderState.FAILED


@pytest.fixture
def box(deliver_to):
    with relay() as box:
        deliver_to(box.port)
        yield box


@pytest.fixture
def counters(monkeypatch):
    counters = Counters()
    monkeypatch.setattr(metrics, "counters", counters)
    return counters


@pytest.fixture
def page(world, now, box):
    """page(): notify Alice through another contact than her own address. The provider took the message."""

    def page():
        changed = {"value": "phone@example.net", "verified_value": "phone@example.net", "name": "Phone"}
        ContactMethod.update(changed).where(ContactMethod.user == world.alice).execute()
        alert(world, now)
        deliver.send_due(MAIL, now)
        Attempt.update(provider="example", provider_id="m1").execute()

    return page


def test_a_report_is_stored_once_and_an_older_state_does_not_replace_it(page, now, counters):
    page()

    assert record_report("example", "m1", SENT, now)
    assert record_report("example", "m1", DELIVERED, now + SECOND)
    assert not record_report("example", "m1", DELIVERED, now + 2 * SECOND)
    assert not record_report("example", "m1", SENT, now + 2 * SECOND)
    assert not record_report("example", "m1", FAILED, now + 2 * SECOND)
    attempt = Attempt.get()
    assert (attempt.provider_state, attempt.reported_at) == ("delivered", now + SECOND)
    assert Notification.get().state == NotificationStatus.SENT
    counted = counters.registry.get_sample_value
    labels = {"channel": "email", "state": "delivered"}
    assert counted("tocsin_notifications_reported_total", labels) == 1


@pytest.mark.parametrize(("provider", "provider_id"), [("other", "m1"), ("example", "m2"), ("example", "")])
def test_a_report_about_an_unknown_message_changes_nothing(page, now, provider, provider_id):
    page()

    assert not record_report(provider, provider_id, FAILED, now)
    assert Message.get().state == MessageStatus.SENT


def test_after_a_report_of_failure_the_person_is_notified_at_another_address(page, box, now):
    page()

    assert record_report("example", "m1", FAILED, now + SECOND, make_reason("text", text="No such number."))
    for seconds in (2, 3):
        deliver.send_due(MAIL, now + seconds * SECOND)

    assert [to for to, _ in box.mails] == ["phone@example.net", "alice@example.org"]
    first = Notification.select().order_by(Notification.id).get()
    assert first.state == NotificationStatus.FAILED
    assert "example accepted the message and reported later that it was not delivered" in str(first.outcome)
    assert "No such number." in str(build_trace(Receipt.get()))


def test_after_an_acknowledgement_a_report_of_failure_notifies_nobody(page, box, now):
    page()
    Incident.update(status=IncidentStatus.ACKNOWLEDGED).execute()

    assert record_report("example", "m1", FAILED, now + SECOND)
    deliver.send_due(MAIL, now + 2 * SECOND)

    assert len(box.mails) == 1
    assert Message.get().state == MessageStatus.FAILED
    assert Notification.get().state == NotificationStatus.FAILED


def test_a_message_that_arrived_after_all_is_shown_as_delivered(page, now):
    page()

    assert record_report("example", "m1", FAILED, now + SECOND)
    assert record_report("example", "m1", DELIVERED, now + 2 * SECOND)
    assert Attempt.get().provider_state == "delivered"


def test_only_the_latest_early_report_about_a_message_is_kept(store, now):
    for state in (SENT, FAILED, SENT):
        record_report("example", "m9", state, now)

    assert [row.state for row in EarlyReport.select()] == ["failed"]


def test_early_reports_that_no_attempt_claims_are_deleted(store, now):
    record_report("example", "m9", SENT, now)
    record_report("example", "m10", SENT, now + timedelta(minutes=11))

    assert EarlyReport.select().count() == 1


def test_early_reports_have_a_limit(store, now, monkeypatch):
    monkeypatch.setattr(delivery_reports, "MAX_EARLY", 2)
    for number in range(4):
        record_report("example", f"m{number}", SENT, now)
    record_report("example", "m0", FAILED, now)

    assert sorted(row.state for row in EarlyReport.select()) == ["failed", "sent"]


def test_a_report_waits_for_the_attempt_that_is_being_recorded(page, now, monkeypatch):
    """The report comes between the record of the attempt and its commit."""
    reports: list[Future[bool]] = []

    def report():
        with connection():
            return record_report("example", "m1", DELIVERED, now + SECOND)

    def apply_early_report(provider, provider_id):
        apply(provider, provider_id)
        reports.append(other.submit(report))
        # On PostgreSQL it waits for the lock; on SQLite it cannot write.
        assert not wait(reports, timeout=0.3).done

    apply = outbox.apply_early_report
    monkeypatch.setattr(outbox, "apply_early_report", apply_early_report)
    monkeypatch.setattr(deliver, "_deliver", accept_as("example", "m1", deliver._deliver))
    with ThreadPoolExecutor(1) as other:
        page()

    assert reports[0].result()
    assert Attempt.get().provider_state == "delivered"
    assert EarlyReport.select().count() == 0


def accept_as(provider, provider_id, deliver_message):
    """Return a function that sends a message and says that the provider gave it this id."""

    def deliver_as(*args):
        return replace(deliver_message(*args), provider=provider, provider_id=provider_id)

    return deliver_as
