"""A running installation releases deferred alerts as soon as the window has ended."""

import json
import urllib.request
from datetime import UTC, datetime, timedelta

from tests.support.mail_server import start_mailbox
from tests.support.polling import wait_until
from tests.support.processes import start_tocsin

# The clock process checks every second, and workers check every five; the machine may be busy. Without them,
# the alert would wait for the next one of its service.
SOON = timedelta(seconds=30)
LENGTH = timedelta(seconds=3)


def ask(method, url, body=None, token=None):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def test_a_deferred_alert_notifies_within_seconds_of_the_end_of_the_window(home):
    with start_mailbox() as box:
        mail = {"TOCSIN_SMTP_HOST": "127.0.0.1", "TOCSIN_SMTP_PORT": str(box.port)}
        with start_tocsin(home, "up", TOCSIN_OWNER_EMAIL="alice@example.org", **mail) as up:
            wait_until(up.is_ready)
            found = json.loads((home / "credentials.json").read_text())
            base, token, key = found["base_url"], found["token"], found["integration_key"]
            (team,) = ask("GET", f"{base}/api/account/teams/", token=token)
            path = f"{base}/api/account/teams/{team['unique_id']}"
            (service,) = ask("GET", f"{path}/services/", token=token)
            ends = datetime.now(UTC) + LENGTH
            window = {
                "start_time": (ends - timedelta(hours=1)).isoformat(),
                "end_time": ends.isoformat(),
                "services": [service["unique_id"]],
            }
            ask("POST", f"{path}/maintenance/", window, token)
            ask("POST", f"{base}/api/events/{key}/", {"message": "Disk full", "alert_type": "critical"})

            box.wait_for(1)
            (incident,) = ask("POST", f"{base}/api/incidents/filter/", {"status": 0}, token)["results"]

    assert ends <= datetime.fromisoformat(incident["creation_date"]) < ends + SOON
