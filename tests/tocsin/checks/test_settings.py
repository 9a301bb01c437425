"""`tocsin check` in another shell than the running processes."""

import json

from models.reports import backlog
from models.store.base import connection, db, open_store, store
from tests.support.polling import wait_until
from tests.support.processes import start_tocsin, tocsin
from tests.support.stores import get_url


def list_kinds(home):
    open_store(get_url(home), home)
    with connection():
        live = backlog.list_live(store().now())
    db.close_all()
    return {process.kind: process.settings for process in live}


def test_the_check_uses_the_settings_of_the_running_processes(home):
    relay = {
        "TOCSIN_SMTP_HOST": "relay.example.org", "TOCSIN_SMTP_TLS": "tls", "TOCSIN_SMTP_USER": "tocsin",
        "TOCSIN_SMTP_PASSWORD": "hunter2", "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
    }  # fmt: skip
    with start_tocsin(home, "up", **relay) as running:
        wait_until(running.is_ready, 30)
        wait_until(lambda: list_kinds(home).keys() == {"web", "worker", "clock"})
        shown = list_kinds(home)
        ended = tocsin(home, "check", "--json")

    assert "hunter2" not in str(shown)
    assert {values["TOCSIN_SMTP_HOST"] for values in shown.values()} == {"relay.example.org"}
    found = {problem["kind"]: problem["what"] for problem in json.loads(ended.stdout)["problems"]}
    assert found.keys() == {"other_settings"}
    for name in relay:
        assert name in found["other_settings"]
    assert "hunter2" not in ended.stdout
