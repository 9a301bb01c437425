"""Tests of who is on call by a schedule at a moment, and who is next."""

import pytest

from models.domain.facts import ForwardingFacts, OnCallConfig, PersonFacts
from schedules.escalation.current import find_current
from schedules.oncall.shifts import find_handoff, list_current, list_joined_shifts
from tests.support.schedules.facts import DAY, HOUR, WEEK, at, daily, layer, override, schedule

PEOPLE = {name: PersonFacts(row, name, name) for row, name in enumerate(("alice", "bob", "charlie"), start=1)}
NOW = at("2026-03-28 12:00")
BERLIN = {"time_zone": "Europe/Berlin", "by_local_time": True}


def find(of, now=NOW, people=PEOPLE, **options):
    return find_current(of, OnCallConfig(people=people, schedules={of.unique_id: of}), now, **options)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(schedule(layer(length=HOUR)), id="in an hour"),
        pytest.param(schedule(layer(**daily(("22:00", 8 * HOUR))), **BERLIN), id="tonight"),
        pytest.param(schedule(layer(length=WEEK)), id="in some days"),
        pytest.param(schedule(layer(length=4 * WEEK)), id="in some weeks"),
        pytest.param(schedule(layer(length=365 * DAY)), id="after the lookahead"),
        pytest.param(schedule(layer("alice")), id="never"),
        pytest.param(schedule(layer("")), id="nobody"),
        pytest.param(schedule(layer(start="2026-04-20 09:00")), id="not begun"),
        pytest.param(
            schedule(layer("alice"), overrides=[override("bob", "2026-04-05 09:00", "2026-04-06 09:00")]),
            id="an override",
        ),
        pytest.param(schedule(layer("alice bob", length=WEEK), layer("bob alice", length=WEEK)), id="swap"),
    ],
)
def test_the_answer_is_that_of_the_whole_lookahead(of):
    """The handoff is looked for in short times first."""
    found = find(of)

    whole = list_joined_shifts(of, NOW, found.until, PEOPLE)
    assert found.until == NOW + 30 * DAY
    assert found.handoff == find_handoff(whole, NOW, found.until)
    assert found.shifts == list_current(of, NOW, whole, found.until)


def test_the_people_after_the_handoff_are_named():
    found = find(
        schedule(layer("alice bob", start="2026-03-27 21:00", **daily(("22:00", 8 * HOUR))), **BERLIN)
    )

    assert (found.shifts, found.handoff) == ([], at("2026-03-28 21:00"))
    assert [person.username for person in found.next_people] == ["bob"]


def test_the_person_who_is_notified_instead_is_named():
    to_charlie = ForwardingFacts(NOW, NOW + HOUR, PEOPLE["charlie"])
    people = {**PEOPLE, "alice": PersonFacts(1, "alice", "alice", forwarding=(to_charlie,))}
    of = schedule(layer("alice"))

    assert find(of, people=people).recipients == {"alice": PEOPLE["charlie"]}
    assert find(of, people=people).list_rows() == {3}
    assert find(of, NOW + HOUR, people).recipients == {}


def test_a_large_schedule_is_searched_for_a_shorter_time():
    of = schedule(*(layer("alice", length=HOUR) for _ in range(50)))

    assert find(of).until == NOW + 30 * DAY / 4
    assert find(of, most=100_000).until == NOW + 30 * DAY
