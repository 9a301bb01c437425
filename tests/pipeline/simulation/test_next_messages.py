"""Who gets the next messages about an open incident if nobody reacts."""

from datetime import timedelta

import pytest

from models.domain.effects import NotificationState
from models.domain.enums import IncidentStatus, NotificationKind
from models.domain.facts import OpenIncidentFacts
from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline.simulation.next_messages import MAX_AHEAD, find_next_messages
from tests.support.facts import ALICE, BOB, MINUTE, NOON, build_config, incident, person, service, sla


def find(config, *, reader=None, at=NOON, of=None, **options):
    of = of or incident(next_step=1, paged_someone=True)
    return find_next_messages(OpenIncidentFacts(of, service(**options), config), at, reader)


def list_found(found):
    return [((one.at - NOON) / MINUTE, one.people) for one in found.messages]


@pytest.mark.parametrize(
    ("steps", "options", "expected"),
    [
        pytest.param([(0, "alice"), (5, "bob")], {}, [(5, ("Bob",))], id="the next step"),
        pytest.param(
            [(0, "alice"), (5,), (9, "bob")], {"move_to_next": False}, [(9, ("Bob",))], id="empty step"
        ),
        pytest.param([(0, "alice"), (5,), (9, "bob")], {}, [(5, ("Bob",))], id="move_to_next"),
        pytest.param([(0, "alice"), (5,)], {}, [], id="nobody"),
        pytest.param([(0, "alice")], {}, [], id="no step"),
        pytest.param(
            [(0, "alice", "bob")],
            {"round_robin": True, "assignee_only": True, "repeat": 1},
            [(1, ("Bob",))],
            id="only the assignee",
        ),
    ],
)
def test_the_next_message_is_that_of_the_next_step_that_names_somebody(steps, options, expected):
    of = incident(next_step=1, assigned_to=BOB.row, paged_someone=True)

    assert list_found(find(build_config(*steps, **options), of=of)) == expected


def test_the_delays_of_notification_rules_count():
    slow = person(BOB.row, "Bob", 3)

    found = find(build_config((0, "alice"), (5, "bob"), people=(ALICE, slow)))

    assert list_found(found) == [(8, ("Bob",))]


def test_a_reader_is_you_and_the_first_message_to_others_follows():
    config = build_config((0, "alice"), (5, "alice"), (9, "bob"))

    found = find(config, reader=ALICE.row)

    assert list_found(found) == [(5, ("you (e-mail)",)), (9, ("Bob",))]


def test_nobody_is_next_after_the_service_resolves_the_incident():
    found = find(build_config((0, "alice"), (5, "bob")), auto_resolve_s=240)

    assert (found.messages, found.resolved_at) == ((), NOON + 4 * MINUTE)


def test_the_escalations_of_an_sla_and_its_times_count():
    config = replace(build_config((0, "alice")), slas={1: sla((1, -2, "bob"), acknowledge=10)})

    found = find(config, of=incident(next_step=1, paged_someone=True, sla=1))

    assert list_found(found) == [(8, ("Bob",))]


def test_an_acknowledged_incident_notifies_again_when_its_time_is_over():
    of = incident(next_step=1, status=IncidentStatus.ACKNOWLEDGED, acknowledged_date=NOON, escalating=False)

    found = find(build_config((0, "alice")), of=of, acknowledgement_timeout_s=1800)

    assert list_found(found) == [(30, ("Alice",))]


def test_pending_notifications_count_and_name_their_people():
    later = NotificationState(
        "key", "incident-1", 9, None, 1, None, NotificationKind.RESPONDER,
        make_reason("asked_to_help", by="Bob"), NOON + 3 * MINUTE, "group",
    )  # fmt: skip
    facts = OpenIncidentFacts(
        incident(next_step=1, paged_someone=True), None, build_config(), (later,), ((9, "Zoe"),)
    )

    assert list_found(find_next_messages(facts, NOON)) == [(3, ("Zoe",))]


def test_a_search_ends_after_a_number_of_steps_and_says_so():
    nobody = build_config((0, "alice"), *((n, "nobody") for n in range(1, 60)), move_to_next=False)

    assert not find(nobody, of=incident(next_step=1, paged_someone=True)).is_complete
    assert not find(build_config((0, "alice"), (60 * 24 * 40, "bob"))).is_complete
    assert timedelta(days=40) > MAX_AHEAD
