"""Changes of incidents are sent to outbound integrations, in order and until they arrive."""

import base64
import contextlib
import hashlib
import hmac
from datetime import timedelta

import pytest

from models.domain.applications import KINDS
from models.domain.channels import OUTBOUND_CHANNEL
from models.domain.effects import Author
from models.domain.enums import AuthorKind, IncidentStatus, IntegrationType, OutboundStatus
from models.domain.reasons import make_reason
from models.keys.webhook_secrets import create_secret
from models.people import provisioning
from models.reports import backlog, metrics_page
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import User
from models.tables.incidents import Incident
from models.tables.outbound import OutboundDelivery, OutboundTarget
from models.tables.rules import OutgoingRule
from models.tables.services import Integration, Service
from models.tables.teams import EscalationPolicy
from runtime import metrics
from runtime.metrics import Counters
from runtime.settings import load
from tests.support.delivery.webhook_server import LOOPBACK, Answer, start_webhook_server
from tests.support.polling import wait_until
from tests.support.relays import drip, hang, start_silent_server
from tests.support.web.outbound import create_client
from web.incidents.incidents import open_incident as create_incident
from workers.delivery import deliver
from workers.delivery.transport.user_hosts import UserHosts, UserUrlClient
from workers.outbound import outbox, sender

OUTGOING_WEBHOOK = KINDS["outgoing_webhook"].unique_id


@pytest.fixture
def server():
    with start_webhook_server() as server:
        yield server


@pytest.fixture(autouse=True)
def allow_loopback(monkeypatch):
    sender.configure(load({"TOCSIN_WEBHOOK_NETWORKS": ",".join(LOOPBACK)}))
    yield
    sender.configure(load({}))


@pytest.fixture
def clock(monkeypatch, world, now):
    """clock(seconds): set the clock of the database to so much after noon."""

    def set_clock(seconds=0.0):
        monkeypatch.setattr(store(), "now", lambda: now + timedelta(seconds=seconds))

    set_clock()
    return set_clock


@pytest.fixture
def ask(world, enqueued):
    return create_client(world)


@pytest.fixture
def integrate(ask, world, server):
    """integrate(): a new outbound integration of the service, and the answer of its PUT."""

    def integrate(url=None, service=None):
        integration = provisioning.create_integration(
            service or world.service, "Tickets", OUTGOING_WEBHOOK, world.alice, store().now()
        )
        Integration.update(integration_type=IntegrationType.OUTBOUND).where(
            Integration.id == integration.id
        ).execute()
        path = f"/api/tocsin/integrations/{integration.unique_id}/outbound/"
        answer = ask("PUT", path, {"url": url or f"{server.url}/hook"})
        assert answer.status_code == 200, answer.json
        return integration, answer.json["secret"], path

    return integrate


@pytest.fixture
def open_incident(ask, world):
    def open_incident(title="Disk full"):
        body = {"title": title, "service": world.service.unique_id}
        return ask("POST", "/api/incidents/", body).json["incident_number"]

    return open_incident


@pytest.fixture
def change(ask):
    """change(1, 3): give the incident with this number this status."""

    def change(number, status):
        assert ask("PATCH", f"/api/incidents/{number}/", {"status": status}).status_code == 200

    return change


def send_all():
    """Send until nothing is due. Return how many attempts were made."""
    count = 0
    while sender.send_next():
        count += 1
        assert count < 100
    return count


def list_events(server):
    return [
        (each.json["payload"]["incident"]["incident_number"], each.json["payload"]["event_type"])
        for each in server.received
    ]


def list_states():
    return [OutboundStatus(row.state).name for row in OutboundDelivery.select().order_by(OutboundDelivery.id)]


def test_each_change_is_sent_with_signatures(clock, integrate, open_incident, change, server, ask):
    _, secret, _ = integrate()
    number = open_incident()
    assert send_all() == 1
    change(number, 2)
    change(number, 3)
    assert send_all() == 2

    assert list_events(server) == [(1, "triggered"), (1, "acknowledged"), (1, "resolved")]
    for received in server.received:
        signed = (
            f"{received.headers['webhook-id']}.{received.headers['webhook-timestamp']}.".encode()
            + received.body
        )
        key = base64.b64decode(secret.removeprefix("whsec_"))
        digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert received.headers["webhook-signature"] == f"v1,{digest}"
        plain = hmac.new(secret.encode(), received.body, hashlib.sha256).hexdigest()
        assert received.headers["x-signature"] == plain
    assert len({received.headers["webhook-id"] for received in server.received}) == 3


def test_the_body_has_the_incident_as_the_interface_shows_it(
    clock, integrate, open_incident, change, server, ask
):
    integrate()
    number = open_incident()
    change(number, 2)
    send_all()
    shown = ask("GET", f"/api/incidents/{number}/").json

    incident = server.received[-1].json["payload"]["incident"]
    assert set(incident) == {
        "summary", "incident_number", "creation_date", "status", "unique_id", "title", "incident_key",
        "service", "urgency", "merged_with", "assigned_to", "resolved_date",
        "acknowledged_date", "context_window_start",
        "context_window_end",
    }  # fmt: skip
    service = {name: value for name, value in shown["service_object"].items() if name != "team_name"}
    assert incident["service"] == service
    assert incident["assigned_to"] == {
        "username": shown["assigned_to"], "first_name": "Alice", "last_name": "", "email": "alice@example.org"
    }  # fmt: skip
    same = set(incident) - {"service", "assigned_to"}
    assert {name: incident[name] for name in same} == {name: shown[name] for name in same}


def test_a_service_without_a_target_writes_nothing(clock, open_incident, change, statements, world):
    with statements() as collected:
        number = open_incident()
        change(number, 3)

    assert not [each for each in collected if "outbound_" in str(each)]
    assert OutboundDelivery.select().count() == 0


@pytest.mark.parametrize("answer", [Answer(500), Answer(400), Answer(404), Answer(302), Answer(429)])
def test_a_delivery_is_repeated_with_its_id_until_it_arrives(clock, integrate, open_incident, server, answer):
    integrate()
    open_incident()
    server.responses = [answer, answer, Answer(200)]
    attempts = []
    for seconds in (0, 1, 5, 6, 20, 60, 120):
        clock(seconds)
        attempts.append(send_all())

    assert attempts == [1, 0, 1, 0, 1, 0, 0]
    assert len({received.headers["webhook-id"] for received in server.received}) == 1
    assert list_states() == ["SENT"]
    assert OutboundTarget.get().failures == 0


def test_a_receiver_that_is_gone_is_not_tried_again(clock, integrate, open_incident, server):
    integrate()
    open_incident()
    server.responses = [Answer(410)]

    assert send_all() == 1
    assert list_states() == ["FAILED"]


def test_a_receiver_can_ask_for_a_delay(clock, integrate, open_incident, server):
    integrate()
    open_incident()
    server.responses = [Answer(429, {"Retry-After": "90"}), Answer(200)]
    assert send_all() == 1
    clock(89)
    assert send_all() == 0
    clock(90)
    assert send_all() == 1


@pytest.mark.parametrize("handle", [hang, drip])
def test_a_receiver_without_an_answer_is_given_the_time_of_an_attempt(
    clock, integrate, open_incident, handle, monkeypatch
):
    monkeypatch.setattr(sender, "_client", UserUrlClient("outbound", UserHosts(LOOPBACK), 0.2))
    with start_silent_server(handle) as silent:
        integrate(f"http://127.0.0.1:{silent.port}/")
        open_incident()
        assert sender.send_next()

    row = OutboundDelivery.get()
    assert (row.state, row.outcome) == (OutboundStatus.PENDING, make_reason("url_late"))
    assert sender.DEADLINE_S == 3.0


def test_inner_addresses_are_not_requested_unless_the_operator_allows_them(
    clock, integrate, open_incident, server
):
    sender.configure(load({}))
    integrate()
    open_incident()

    assert send_all() == 1
    assert (list_states(), server.received) == (["FAILED"], [])


def test_it_is_given_up_after_24_hours(clock, integrate, open_incident, server, world):
    integrate()
    open_incident()
    server.responses = [Answer(500)]
    for hours in range(25):
        clock(hours * 3600)
        send_all()

    assert list_states() == ["FAILED"]
    assert 20 <= len(server.received) <= 25


def test_deliveries_that_were_never_tried_are_given_up_too(clock, integrate, open_incident, server):
    integrate()
    open_incident("First")
    server.responses = [Answer(503, {"Retry-After": "3600"})]
    send_all()
    open_incident("Second")
    clock(24 * 3600)
    send_all()

    assert list_states() == ["FAILED", "FAILED"]
    assert len(server.received) == 1


def test_a_newer_change_replaces_one_that_failed(clock, integrate, open_incident, change, server):
    integrate()
    number = open_incident()
    server.responses = [Answer(500), Answer(200)]
    send_all()
    change(number, 2)
    change(number, 3)
    clock(60)

    assert send_all() == 1
    assert list_states() == ["REPLACED", "REPLACED", "SENT"]
    assert list_events(server) == [(1, "triggered"), (1, "resolved")]


def test_a_refused_change_of_one_incident_does_not_stop_another(clock, integrate, open_incident, server):
    integrate()
    open_incident("First")
    open_incident("Second")
    server.responses = [Answer(400), Answer(200)]

    assert send_all() == 2
    assert list_states() == ["PENDING", "SENT"]


def test_a_silent_receiver_does_not_stop_others(clock, integrate, open_incident, server):
    # Nothing listens on this port.
    integrate("http://127.0.0.1:1024/")
    integrate()
    open_incident("First")
    open_incident("Second")

    assert send_all() == 3
    assert list_events(server) == [(1, "triggered"), (2, "triggered")]
    assert list_states() == ["PENDING", "SENT", "PENDING", "SENT"]


def test_two_workers_never_send_to_one_target_at_the_same_time(clock, integrate, open_incident, now):
    integrate()
    open_incident("First")
    open_incident("Second")
    with store().write_transaction():
        first, second = outbox.claim(now), outbox.claim(now)

    assert first is not None
    assert second is None


def test_a_killed_worker_leads_to_the_same_delivery_again(clock, integrate, open_incident, server, now):
    integrate()
    open_incident()
    # The worker is killed after the claim: nothing is recorded.
    with store().write_transaction():
        killed = outbox.claim(now)
    assert send_all() == 0
    clock(30)

    assert send_all() == 1
    assert server.received[0].headers["webhook-id"] == killed.unique_id


def test_the_record_of_an_expired_claim_does_not_release_the_new_one(clock, integrate, open_incident, now):
    integrate()
    open_incident()
    with store().write_transaction():
        old = outbox.claim(now)
        new = outbox.claim(now + timedelta(seconds=31))
        outbox.release(old.target, old.claimed_until)

    assert OutboundTarget.get().claimed_until == new.claimed_until


RULES = [
    ('{"==": [{"var": "urgency"}, 1]}', True), ('{"==": [{"var": "incident.urgency"}, "0"]}', False),
    ('{"in": ["Disk", {"var": "title"}]}', True), ('{"in": ["CPU", {"var": "message"}]}', False),
    ('{"==": [{"var": "service.name"}, "Checkout"]}', True), ("not json", False), ("{}", True),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "is_sent"), RULES)
def test_outgoing_rules_select_the_incidents(clock, integrate, open_incident, server, now, rule, is_sent):
    integration, _, _ = integrate()
    OutgoingRule.create(unique_id=make_uuid(), creation_date=now, integration=integration, rule_json=rule)
    open_incident()
    send_all()

    assert list_states() == ["SENT" if is_sent else "FILTERED"]
    assert bool(server.received) is is_sent


def test_one_rule_that_matches_is_enough_and_disabled_rules_do_not_count(
    clock, integrate, open_incident, server, now
):
    integration, _, _ = integrate()
    for rule, enabled in (('{"==": [1, 2]}', True), ('{"==": [1, 1]}', False)):
        OutgoingRule.create(
            unique_id=make_uuid(),
            creation_date=now,
            integration=integration,
            rule_json=rule,
            is_enabled=enabled,
        )
    open_incident("First")
    send_all()
    OutgoingRule.update(is_enabled=True).execute()
    open_incident("Second")
    send_all()

    assert list_events(server) == [(2, "triggered")]


def test_a_disabled_integration_sends_nothing(clock, integrate, open_incident):
    integration, _, _ = integrate()
    Integration.update(is_enabled=False).where(Integration.id == integration.id).execute()
    open_incident()

    assert OutboundDelivery.select().count() == 0


def test_merged_incidents_are_sent_when_their_parent_is_resolved(
    clock, integrate, open_incident, change, server, ask
):
    integrate()
    parent, child = open_incident("Parent"), open_incident("Child")
    assert (
        ask("POST", f"/api/tocsin/incidents/{parent}/merge/", {"incidents": [str(child)]}).status_code == 200
    )
    change(parent, 3)
    send_all()

    assert sorted(event for event in list_events(server) if event[1] == "resolved") == [
        (1, "resolved"),
        (2, "resolved"),
    ]


def test_the_log_of_deliveries_and_a_resend(clock, integrate, open_incident, change, server, ask):
    _, _, path = integrate()
    number = open_incident()
    send_all()
    change(number, 3)
    send_all()
    log = ask("GET", f"{path}deliveries/?page_size=1").json
    assert (log["count"], len(log["results"])) == (2, 1)
    newest = log["results"][0]
    assert (newest["incident"], newest["event_type"], newest["state"]) == (number, "resolved", "sent")
    assert (newest["attempts"], newest["reason"]) == (1, "Accepted by the URL (200).")

    first = ask("GET", f"{path}deliveries/?page=2&page_size=1").json["results"][0]
    again = ask("POST", f"{path}deliveries/{first['unique_id']}/resend/")
    assert (again.status_code, again.json["state"]) == (201, "pending")
    # The present state, not the old one: it would stand after a newer one.
    assert again.json["event_type"] == "resolved"
    send_all()
    assert server.received[-1].headers["webhook-id"] == again.json["unique_id"] != first["unique_id"]


def test_the_secret_is_shown_once(clock, integrate, ask):
    _, secret, path = integrate()

    assert secret.startswith("whsec_")
    assert ask("GET", path).json["secret"] is None
    assert ask("PUT", path, {"url": "https://example.org/other"}).json["secret"] is None
    renewed = ask("POST", f"{path}secret/").json["secret"]
    assert renewed != secret
    assert OutboundTarget.get().secret == renewed


def test_without_its_last_target_a_service_sends_nothing(clock, integrate, open_incident, ask, world):
    _, _, path = integrate()
    open_incident()
    assert ask("DELETE", path).status_code == 204

    assert (ask("GET", path).status_code, OutboundDelivery.select().count()) == (404, 0)
    assert Service.get_by_id(world.service.id).has_outbound is False
    open_incident()
    assert send_all() == 0


@pytest.mark.parametrize("url", ["example.org", "http://u:p@example.org/", "http://example.org:25/", ""])
def test_urls_of_other_forms_are_refused(clock, integrate, ask, url):
    _, _, path = integrate()
    refused = ask("PUT", path, {"url": url})

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["url"])


@pytest.mark.parametrize("host", ["169.254.169.254", "10.1", "[fd00:ec2::254]"])
def test_a_target_in_an_inner_network_is_refused(clock, integrate, ask, host):
    _, _, path = integrate()
    refused = ask("PUT", path, {"url": f"http://{host}/hook"})

    assert refused.status_code == 400
    assert "TOCSIN_WEBHOOK_NETWORKS" in refused.json["errors"]["url"][0]


def test_only_outbound_integrations_have_a_target(clock, ask, world):
    path = f"/api/tocsin/integrations/{world.integration.unique_id}/outbound/"
    refused = ask("PUT", path, {"url": "https://example.org/"})

    assert (refused.status_code, list(refused.json["errors"])) == (400, ["integration"])


def test_drills_are_not_sent(clock, integrate, open_incident, change, server, world, now, ask):
    _, _, path = integrate()
    drill = ask("POST", "/api/tocsin/drills/", {"policy": world.policy.unique_id})
    assert drill.status_code == 201
    change(drill.json["incident_number"], 2)
    send_all()

    assert server.received == []
    assert list_states() == ["FILTERED", "FILTERED"]
    log = ask("GET", f"{path}deliveries/").json["results"]
    assert log[0]["reason"] == "The incident is a drill. Drills are not sent to other systems."
    # A resend does not send it either.
    ask("POST", f"{path}deliveries/{log[0]['unique_id']}/resend/")
    send_all()
    assert server.received == []


def test_what_becomes_of_deliveries_is_counted(clock, integrate, open_incident, change, server, monkeypatch):
    counters = Counters()
    monkeypatch.setattr(metrics, "counters", counters)
    integrate()
    number = open_incident()
    server.responses = [Answer(500), Answer(200), Answer(410)]
    send_all()
    change(number, 2)
    clock(10)
    send_all()
    open_incident("Second")
    send_all()

    def count(outcome):
        return counters.registry.get_sample_value("tocsin_outbound_deliveries_total", {"outcome": outcome})

    assert [count(each) for each in ("retry", "replaced", "sent", "failed")] == [1, 1, 1, 1]


def test_the_age_of_the_oldest_due_delivery_is_shown(clock, integrate, open_incident, server, now):
    integrate()
    open_incident()
    due = backlog.measure_backlog(now + timedelta(seconds=7)).outbound
    assert (due.count, due.since) == (1, now)
    assert b"tocsin_outbound_pending 1.0" in metrics_page.render()

    # After a failure, it is due again when its target may be tried.
    server.responses = [Answer(500)]
    send_all()
    assert backlog.measure_backlog(now).outbound.count == 0
    late = backlog.measure_backlog(now + timedelta(seconds=60)).outbound
    assert (late.count, late.since) == (1, now + timedelta(seconds=5))


@pytest.fixture
def start_threads(monkeypatch):
    """start_threads(): start the threads of a worker, as a context manager that ends them."""

    @contextlib.contextmanager
    def start_threads():
        started = sender.start()
        try:
            yield
        finally:
            started.stop()
            started.join()
            sender._sender = None

    return start_threads


@pytest.fixture
def add_delivery(world, now):
    """add_delivery(account, url): an incident of a new service of this account is due at this URL."""

    def add_delivery(account, url, failures=0):
        owner = User.get(User.account == account)
        team = provisioning.create_team(account, "Team", owner, now)
        policy = EscalationPolicy.get(EscalationPolicy.team == team)
        service = provisioning.create_service(team, "Service", policy, owner, now)
        integration = provisioning.create_integration(service, "Tickets", OUTGOING_WEBHOOK, owner, now)
        target = OutboundTarget.create(
            integration=integration, url=url, secret=create_secret(), creation_date=now, failures=failures
        )
        with store().write_transaction():
            author = Author(AuthorKind.USER, "Owner", user=owner.id)
            incident = create_incident(service.id, {"title": "Disk full"}, author, now)
        OutboundDelivery.create(
            unique_id=make_uuid(),
            target=target,
            incident=Incident.get(Incident.unique_id == incident),
            event="triggered",
            created_at=now,
            next_attempt_at=now,
        )

    return add_delivery


@pytest.mark.parametrize("failures", [0, 1], ids=["of one account", "that failed before"])
def test_hung_targets_use_half_of_the_threads(
    clock, world, add_delivery, start_threads, server, now, monkeypatch, failures
):
    monkeypatch.setattr(sender, "_client", UserUrlClient("outbound", UserHosts(LOOPBACK), 25.0))
    accounts = [world.account] * (sender.THREADS + 1)
    if failures:
        accounts = [
            provisioning.create_account(f"Account {n}", f"owner{n}@example.org", now)[0] for n in range(5)
        ]
    with start_threads(), start_silent_server(hang) as hung:
        for account in accounts:
            add_delivery(account, f"http://127.0.0.1:{hung.port}/", failures)
        sender.wake_up()
        wait_until(lambda: hung.taken == sender.THREADS // 2)
        add_delivery(world.mallory.account, f"{server.url}/hook")
        sender.wake_up()

        server.wait_for(1, timeout_s=20)
        assert hung.taken == sender.THREADS // 2


def test_the_threads_of_a_worker_send_after_a_wake_up(clock, integrate, open_incident, server, start_threads):
    integrate()
    open_incident()
    with start_threads():
        sender.wake_up()
        received = server.wait_for(1)

    assert [each.json["payload"]["event_type"] for each in received] == ["triggered"]
    assert Incident.get().status == IncidentStatus.TRIGGERED


def test_a_worker_that_wrote_a_delivery_begins_to_send_it(
    clock, integrate, open_incident, server, start_threads, enqueued
):
    integrate()
    open_incident()
    enqueued.clear()
    with start_threads():
        deliver.listen(["deliver.outbound"])
        try:
            deliver.enqueue([OUTBOUND_CHANNEL])
            server.wait_for(1)
        finally:
            deliver.listen(())

    assert not enqueued
