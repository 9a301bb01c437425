"""The processes of an installation: a mail goes in, and its incident can be read."""

import json
import smtplib
import socket
import urllib.request
from email.message import EmailMessage

from tests.support.polling import wait_until
from tests.support.processes import find_free_port, start_tocsin, tocsin

DOMAIN = "alerts.example.org"


def build_mail(subject):
    mail = EmailMessage()
    mail["From"] = "root@db1.example.org"
    mail["Subject"] = subject
    mail.set_content("/var is at 98 %")
    return mail


def is_listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_mail_opens_an_incident_that_another_one_resolves(home):
    port = find_free_port()
    settings = {"TOCSIN_MAIL_IN_DOMAIN": DOMAIN, "TOCSIN_MAIL_IN_PORT": str(port)}
    with start_tocsin(home, "up", TOCSIN_LOG_LEVEL="debug", **settings) as running:
        wait_until(running.is_ready)
        wait_until(lambda: is_listening(port))
        known = json.loads((home / "credentials.json").read_text())
        key = known["integration_key"]

        def get_statuses():
            request = urllib.request.Request(
                f"http://127.0.0.1:{running.port}/api/incidents/",
                headers={"Authorization": f"Token {known['token']}"},
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                return [(each["title"], each["status"]) for each in json.load(answer)["results"]]

        with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
            client.send_message(build_mail("CRITICAL: disk full on db1"), to_addrs=f"{key}@{DOMAIN}")
            wait_until(lambda: get_statuses() == [("CRITICAL: disk full on db1", 1)])
            client.send_message(build_mail("RESOLVED: disk full on db1"), to_addrs=f"{key}@{DOMAIN}")
            wait_until(lambda: get_statuses() == [("CRITICAL: disk full on db1", 3)])
        status, _ = running.get("/readyz")
        text = running.log + running.out

    assert status == 200
    assert key not in text
    assert "db1" not in text


def test_a_second_listener_shares_the_port_and_another_program_does_not(home):
    port = find_free_port()
    settings = {"TOCSIN_MAIL_IN_DOMAIN": DOMAIN, "TOCSIN_MAIL_IN_PORT": str(port)}
    tocsin(home, "migrate")
    with start_tocsin(home, "listener", **settings) as first:
        wait_until(lambda: "receiving alerts by mail" in first.log)
        with start_tocsin(home, "listener", **settings):
            wait_until(lambda: first.log.count("receiving alerts by mail") == 2)
        with smtplib.SMTP("127.0.0.1", port, timeout=30) as client:
            assert client.noop()[0] == 250
    with socket.create_server(("127.0.0.1", port)):
        ended = tocsin(home, "listener", **settings)

    assert (ended.returncode, "set TOCSIN_MAIL_IN_HOST or TOCSIN_MAIL_IN_PORT" in ended.stderr) == (2, True)
