"""Figures about the notifications of a person: created, sent, delivered, acknowledged."""

from datetime import timedelta

import pytest

from models.domain.enums import ProviderState
from models.domain.reasons import make_reason
from models.store.store import store
from models.tables.incidents import Incident
from models.tables.notifications import Attempt, Message, Notification
from models.write.delivery_reports import record_report
from runtime import metrics
from runtime.metrics import Counters

DAY = timedelta(days=1)


@pytest.fixture
def path(world):
    return f"/api/tocsin/users/{world.alice.username}/notifications/figures/"


@pytest.fixture
def sent(ask, world, enqueued):
    """Alice was notified of an incident by e-mail; the provider took the message."""
    made = ask("POST", "/api/incidents/", {"title": "Disk full", "service": world.service.unique_id}).json
    at = store().now()
    Message.update(state=1, attempts=1, done_at=at).execute()
    Notification.update(state=1, done_at=at).execute()
    Attempt.create(
        message=Message.get(), at=at, outcome="sent", detail=make_reason("is_resolved"), milliseconds=1,
        provider="example", provider_id="m1",
    )  # fmt: skip
    return f"/api/incidents/{made['incident_number']}/"


def test_each_step_of_a_notification_is_counted(ask, path, sent, monkeypatch):
    counters = Counters()
    monkeypatch.setattr(metrics, "counters", counters)
    assert record_report("example", "m1", ProviderState.DELIVERED, store().now())
    assert ask("PATCH", sent, {"status": 2}).status_code == 200

    shown = ask("GET", path).json
    (email,) = shown["channels"]
    assert email == {
        "channel": "email", "created": 1, "attempted": 1, "accepted": 1, "delivered": 1, "acknowledged": 1,
        "failed": 0, "cancelled": 0,
    }  # fmt: skip
    counted = counters.registry.get_sample_value
    assert counted("tocsin_notifications_acknowledged_total", {"channel": "email"}) == 1
    (entry,) = (
        each["notification"]
        for each in ask("GET", f"/api/tocsin{sent.removeprefix('/api')}timeline/").json["results"]
        if each["notification"] is not None
    )
    assert (entry["provider"], entry["delivered_at"] is not None) == ("example", True)
    assert entry["acknowledged_at"] is not None


def test_a_message_that_was_not_delivered_is_not_counted_as_delivered(ask, path, sent):
    Incident.update(status=2).execute()
    assert record_report("example", "m1", ProviderState.FAILED, store().now())

    (email,) = ask("GET", path).json["channels"]
    assert (email["accepted"], email["delivered"], email["failed"]) == (1, 0, 1)


@pytest.mark.parametrize(
    "query", ["from=2026-01-02&to=2026-01-01", "from=2020-01-01&to=2026-01-01", "from=soon"]
)
def test_a_period_is_bounded(ask, path, query):
    assert ask("GET", f"{path}?{query}").status_code == 400


def test_the_figures_are_for_the_person_and_admins(ask, path, sent, world):
    before = (store().now() - DAY).strftime("%Y-%m-%d")
    assert ask("GET", f"{path}?to={before}").json["channels"] == []
    bobs = path.replace(world.alice.username, world.bob.username)
    assert [ask("GET", bobs, who=who).status_code for who in ("bob", "alice", "charlie", "mallory")] == [
        200, 200, 403, 404,
    ]  # fmt: skip
