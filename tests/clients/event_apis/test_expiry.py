"""A push that is not repeated ends by itself, in a running instance."""

from datetime import UTC, datetime, timedelta

from tests.clients.event_apis.conftest import ask


def test_an_alert_that_is_not_pushed_again_resolves_its_incident(create_receiver):
    receiver = create_receiver("alertmanager")
    now = datetime.now(UTC)
    alert = {
        "labels": {"alertname": "DiskFull", "severity": "critical"},
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(seconds=3)).isoformat(),
    }
    ask("POST", f"{receiver.url}/api/v2/alerts?key={receiver.key}", [alert])

    receiver.await_incidents(1)
    receiver.wait_for(("DiskFull", 3))
