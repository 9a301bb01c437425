"""Messages of Amazon SNS are verified with a certificate that a worker fetches, and confirmed once.

A local HTTPS server stands for the host of Amazon.
"""

import json
import socket

import pytest

from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.people import provisioning
from models.reports import dead_letters
from models.store.store import connection
from models.tables.events import Event, Receipt, list_reasons
from models.tables.incidents import Incident
from models.tables.services import Service, SourceSetup
from models.tables.teams import EscalationPolicy
from models.write import change_dead_letters
from tests.support.alerts import accept
from tests.support.delivery.amazon import (
    CERTIFICATE_PATH,
    CERTIFICATE_URL,
    HOST,
    SUBSCRIBE_PATH,
    TOPIC,
    build_confirmation,
    build_notification,
    create_client,
    create_signer,
    write_server_certificate,
)
from tests.support.delivery.webhook_server import Answer, start_webhook_server
from tests.support.relays import build_server_context
from workers.alerts import amazon, process_lane, process_lanes
from workers.delivery.transport.channel import UnusableAddress
from workers.delivery.transport.http import get_tls_context

CLOUDWATCH = "1ef0e211-82fb-454a-96c4-20bd26ebdcab"
# It has only the form of a signature.
UNSIGNED = "A" * 344
DONE = Answer(200, {}, b"<ConfirmSubscriptionResponse/>")


@pytest.fixture(scope="module")
def signer():
    return create_signer()


@pytest.fixture
def server(tmp_path, monkeypatch, signer):
    """The host of Amazon: it gives the certificate to the first request, and confirms with the next ones."""
    path = write_server_certificate(tmp_path / "server.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    get_tls_context.cache_clear()
    with start_webhook_server(build_server_context(path)) as started:
        started.responses = [Answer(200, {}, signer.certificate), DONE]
        monkeypatch.setattr(amazon, "_client", create_client(started.port))
        yield started
    get_tls_context.cache_clear()


@pytest.fixture
def send(world, now):
    """send(message, ...): the integration takes messages of TOPIC; process these. Return the last event."""
    SourceSetup.create(integration=world.integration, topics=[TOPIC], updated_at=now)

    def send(*messages):
        for message in messages:
            accept(world, now, source="cloudwatch_v2", body=json.dumps(message).encode())
        process_lane.run(world.service.id)
        return Event.select().order_by(Event.id.desc()).first()

    return send


def get_code(event):
    return list_reasons(event)[0][1].code


def list_paths(server):
    return [(one.method, one.path) for one in server.received]


def test_a_signed_message_opens_an_incident(send, server, signer):
    send(signer.sign(build_notification()))

    assert Incident.get().title == "CPU"
    assert list_paths(server) == [("GET", CERTIFICATE_PATH)]


def test_the_certificate_is_fetched_once(send, server, signer):
    send(*(signer.sign(build_notification(MessageId=str(number))) for number in range(5)))
    send(signer.sign(build_notification(MessageId="5"), "2"))

    assert Event.select().count() == 6
    assert list_paths(server) == [("GET", CERTIFICATE_PATH)]


def test_no_lock_is_held_while_amazon_is_asked(send, server, signer, store):
    changed = []

    def change_service():
        """Another thread changes the service, whose row a worker of its lane locks."""
        with connection(), store.write_transaction(lock_s=1.0):
            changed.append(Service.update(summary="changed").execute())

    server.before_answer = change_service
    send(signer.sign(build_notification()))

    assert changed == [1]
    assert Incident.get().title == "CPU"


def test_lanes_that_share_a_transaction_leave_the_message_to_its_own(send, world, now, server, signer):
    accept(world, now, source="cloudwatch_v2", body=json.dumps(signer.sign(build_notification())).encode())

    result = process_lanes.run([world.service.id], process_lane.get_segment("normalize"))

    assert (result.others, server.received) == ({world.service.id}, [])


def test_a_message_that_does_not_verify_pages_nobody(send, server, signer):
    event = send({**signer.sign(build_notification()), "Message": "changed"})

    assert (get_code(event), event.message, event.alert["payload"]) == (
        "signature_not_of_topic", "refused request", {},
    )  # fmt: skip
    assert not Incident.select().exists()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"TopicArn": f"{TOPIC}2"}, "signature_of_other_topic"),
        (
            {"SigningCertURL": CERTIFICATE_URL.replace(HOST, f"{HOST}.evil.example")},
            "signature_of_other_host",
        ),
    ],
    ids=["another topic", "another host"],
)
def test_what_is_refused_anyway_is_not_fetched(send, server, signer, change, code):
    assert get_code(send(signer.sign(build_notification(**change)))) == code
    assert server.received == []


def test_a_body_without_a_signature_and_another_address_are_refused(send, server, world, now):
    assert get_code(send({"AlarmName": "CPU", "NewStateValue": "ALARM"})) == "signature_absent"

    accept(world, now, message="m", alert_type="critical")
    process_lane.run(world.service.id)
    assert get_code(Event.select().order_by(Event.id.desc()).first()) == "signature_required"
    assert not Incident.select().exists()


def test_the_address_of_a_tool_with_a_secret_is_no_way_around(send, server, world, now):
    """The integration has topics and no secret, so the check of Grafana accepts everything."""
    body = {"alerts": [{"status": "firing", "labels": {"alertname": "CPU"}, "fingerprint": "f"}]}
    accept(world, now, source="grafana", body=json.dumps(body).encode())
    process_lane.run(world.service.id)

    assert get_code(Event.get()) == "signature_required"


@pytest.mark.parametrize("status", [403, 404])
def test_a_certificate_that_does_not_exist_is_a_refusal(send, server, signer, status):
    server.responses = [Answer(status)]

    assert get_code(send(signer.sign(build_notification()))) == "signature_without_certificate"
    assert not Incident.select().exists()


def test_a_redirect_is_not_followed(send, server, signer):
    server.responses = [Answer(302, {"Location": f"https://{HOST}/x"})]

    send(signer.sign(build_notification()))

    assert len(server.received) == 1
    assert Receipt.get().state == WorkState.DEAD_LETTER


def test_a_message_is_kept_and_can_be_replayed_if_amazon_does_not_answer(send, server, signer, world):
    """Its dead letter is reported, because the alarm may be real."""
    server.responses = [Answer(503)]
    send(signer.sign(build_notification()))

    receipt = Receipt.get()
    assert (receipt.state, receipt.error) == (WorkState.DEAD_LETTER, make_reason("certificate_unavailable"))
    (reported,) = Incident.select()

    server.responses = [Answer(200, {}, signer.certificate)]
    amazon.clear()
    change_dead_letters.replay(dead_letters.list_keys(), "Alice")
    process_lane.run(world.service.id)
    assert [one.title for one in Incident.select().where(Incident.id != reported.id)] == ["CPU"]


def test_a_failure_is_remembered_for_a_minute(send, server, signer, monkeypatch):
    server.responses = [Answer(503)]
    send(signer.sign(build_notification()), signer.sign(build_notification(MessageId="2")))
    assert len(server.received) == 1

    later = amazon.time.monotonic() + amazon.KEEP_FAILURE_S + 1
    monkeypatch.setattr(amazon.time, "monotonic", lambda: later)
    send(signer.sign(build_notification(MessageId="3")))
    assert len(server.received) == 2


def test_other_alerts_of_the_lane_are_processed_if_amazon_does_not_answer(send, server, signer, world, now):
    server.responses = [Answer(503)]
    SourceSetup.update(topics=[TOPIC]).execute()
    accept(world, now, source="cloudwatch_v2", body=json.dumps(signer.sign(build_notification())).encode())
    accept(world, now, message="m", alert_type="critical")
    process_lane.run(world.service.id)

    assert not Receipt.select().where(Receipt.state == WorkState.PENDING).exists()
    assert [event.message for event in Event.select()] == ["refused request"]


def test_a_silent_host_ends_at_the_deadline(send, signer, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(amazon, "_client", create_client(listening.getsockname()[1], 0.3))
        send(signer.sign(build_notification()))

    assert Receipt.get().state == WorkState.DEAD_LETTER


def test_a_certificate_that_is_too_long_is_refused(send, server, signer):
    server.responses = [Answer(200, {}, b" " * amazon.AmazonClient.max_bytes + signer.certificate)]

    assert get_code(send(signer.sign(build_notification()))) == "signature_without_certificate"


def build_unsigned(number):
    url = CERTIFICATE_URL.replace("0123abcd", f"{number}")
    message = build_notification(SigningCertURL=url, MessageId=url)
    return {**message, "SignatureVersion": "1", "Signature": UNSIGNED}


def count_receipts(state):
    return Receipt.select().where(Receipt.state == state).count()


@pytest.fixture
def move_on(monkeypatch):
    """move_on(seconds): the clock of the process goes on."""
    clock = [amazon.time.monotonic()]
    monkeypatch.setattr(amazon.time, "monotonic", lambda: clock[0])

    def move_on(seconds):
        clock[0] += seconds

    return move_on


def test_too_many_certificates_delay_their_receipts(send, server, move_on, world):
    """They stay pending and are asked for in the next minutes, in their order; no thread waits for them."""
    server.responses = [Answer(404)]
    send(*(build_unsigned(number) for number in range(25)))
    assert (len(server.received), count_receipts(WorkState.PENDING)) == (amazon.MAX_PER_MINUTE, 15)

    for asked in (20, 25):
        move_on(61)
        process_lane.run(world.service.id)
        assert len(server.received) == asked
    assert list_paths(server) == [("GET", f"/SimpleNotificationService-{number}.pem") for number in range(25)]
    assert (count_receipts(WorkState.DONE), Incident.select().count()) == (25, 0)


def test_a_receipt_that_is_put_off_delays_no_other_alert_of_its_lane(send, server, signer, world, now):
    send(signer.sign(build_notification()))
    server.responses = [Answer(404)]
    send(*(build_unsigned(number) for number in range(20)))
    send(signer.sign(build_notification(Message='{"AlarmName": "Disk", "NewStateValue": "ALARM"}')))

    assert {one.title for one in Incident.select()} == {"CPU", "Disk"}
    assert process_lanes.run([world.service.id], process_lane.get_segment("normalize")).alerts == 0


def test_a_receipt_that_waits_is_processed_when_its_certificate_becomes_known(
    send, server, signer, world, monkeypatch
):
    monkeypatch.setattr(amazon, "MAX_AT_ONCE", 0)
    send(signer.sign(build_notification()))
    assert count_receipts(WorkState.PENDING) == 1

    amazon._remember_verified(CERTIFICATE_URL, signer.certificate)
    process_lane.run(world.service.id)
    assert Incident.get().title == "CPU"


def test_the_next_receipts_of_an_account_that_waits_with_many_become_dead_letters(send, server, monkeypatch):
    monkeypatch.setattr(amazon, "MAX_PUT_OFF", 5)
    server.responses = [Answer(404)]
    send(*(build_unsigned(number) for number in range(17)))

    assert count_receipts(WorkState.PENDING) == 5
    (first, *_) = Receipt.select().where(Receipt.state == WorkState.DEAD_LETTER)
    assert first.error == make_reason("too_many_certificates")
    assert count_receipts(WorkState.DEAD_LETTER) == 2


def test_an_account_does_not_use_up_the_requests_of_another(send, server, signer, world, now):
    """140 messages without a signature before, and each of their certificates is refused."""
    server.responses = [Answer(404)]
    send(*(build_unsigned(number) for number in range(140)))

    server.responses = [Answer(200, {}, signer.certificate)]
    policy = EscalationPolicy.get(EscalationPolicy.team == world.mallorys_team)
    service = provisioning.create_service(world.mallorys_team, "Shop", policy, world.mallory, now)
    integration = provisioning.create_integration(service, "Cloud", CLOUDWATCH, world.mallory, now)
    SourceSetup.create(integration=integration, topics=[TOPIC], updated_at=now)
    signed = accept(
        world, now, source="cloudwatch_v2", body=json.dumps(signer.sign(build_notification())).encode()
    )
    owner = {"account": world.mallorys_team.account_id, "integration": integration, "service": service}
    Receipt.update(**owner).where(Receipt.id == signed.id).execute()
    process_lane.run(service.id)

    assert Receipt.get_by_id(signed.id).state == WorkState.DONE
    assert [one.title for one in Incident.select().where(Incident.service == service)] == ["CPU"]


def test_failures_do_not_push_out_a_verified_certificate(send, server, signer, move_on, world):
    send(signer.sign(build_notification()))
    server.responses = [Answer(404)]
    for minute in range(15):
        move_on(61)
        send(*(build_unsigned(minute * 10 + number) for number in range(10)))
    requests = len(server.received)
    send(signer.sign(build_notification(MessageId="2")))

    assert requests == 151
    assert len(server.received) == requests


def test_a_second_request_of_an_account_is_put_off(send, server, signer, world, move_on):
    """No second thread waits for Amazon."""
    seen = []

    def process_meanwhile():
        """Another worker takes the lane while the first one asks."""
        with connection():
            seen.append(process_lane.run(world.service.id).taken)
            seen.append(count_receipts(WorkState.PENDING))

    server.before_answer = process_meanwhile
    send(signer.sign(build_notification()))

    assert seen[1] == 1
    assert len(server.received) == 1
    move_on(amazon.BUSY_S + 0.1)
    process_lane.run(world.service.id)
    assert Incident.get().title == "CPU"


def test_the_poller_leaves_questions_to_the_actors_while_redis_delivers(
    send, server, signer, world, now, monkeypatch
):
    """The timers of all accounts wait for the thread of the poller."""
    accept(world, now, source="cloudwatch_v2", body=json.dumps(signer.sign(build_notification())).encode())
    monkeypatch.setattr(process_lane.redis_status, "up", True)
    process_lane.process_pending_lanes()
    assert (server.received, count_receipts(WorkState.PENDING)) == ([], 1)

    monkeypatch.setattr(process_lane.redis_status, "up", False)
    process_lane.process_pending_lanes()
    assert Incident.get().title == "CPU"


def test_a_verified_subscription_is_confirmed_once(send, server, signer):
    event = send(signer.sign(build_confirmation()))

    assert list_paths(server) == [("GET", CERTIFICATE_PATH), ("GET", SUBSCRIBE_PATH)]
    reason = list_reasons(event)[0][1]
    assert "Tocsin confirmed the subscription at Amazon SNS." in str(reason)
    assert not Incident.select().exists()


def test_a_confirmation_is_tried_again_and_its_failure_is_in_the_trace(send, server, signer):
    server.responses = [Answer(200, {}, signer.certificate), Answer(500), Answer(500)]

    event = send(signer.sign(build_confirmation()))

    assert len(server.received) == 1 + amazon.CONFIRM_ATTEMPTS
    assert "Amazon SNS did not confirm the subscription" in str(list_reasons(event)[0][1])
    assert [url["link_text"] for url in event.alert["urls"]] == ["Confirm the subscription"]


@pytest.mark.parametrize(
    "change",
    [{"TopicArn": f"{TOPIC}2"}, {"SubscribeURL": f"https://{HOST}.evil.example/?Action=ConfirmSubscription"}],
    ids=["another topic", "another host"],
)
def test_no_other_subscription_is_confirmed(send, server, signer, change):
    send(signer.sign(build_confirmation(**change)))

    assert ("GET", SUBSCRIBE_PATH) not in list_paths(server)
    assert all(path == CERTIFICATE_PATH for _, path in list_paths(server))


def test_an_unsigned_confirmation_requests_nothing(send, server):
    send({**build_confirmation(), "SignatureVersion": "1", "Signature": UNSIGNED})

    assert list_paths(server) == [("GET", CERTIFICATE_PATH)]


def test_without_topics_nothing_is_requested(world, now, server, signer):
    accept(world, now, source="cloudwatch_v2", body=json.dumps(build_confirmation()).encode())
    process_lane.run(world.service.id)

    assert (server.received, Event.get().suppressed) == ([], True)


def test_an_inner_address_is_not_requested(signer):
    client = amazon.AmazonClient("Amazon SNS", amazon.UserHosts(), 1.0)

    for url in ("https://127.0.0.1/SimpleNotificationService-1.pem", f"http://{HOST}/?Action=x"):
        with pytest.raises(UnusableAddress):
            client.request("GET", url)
