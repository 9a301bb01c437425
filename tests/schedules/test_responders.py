"""Calls for help: whom each reaches, and that none is made twice."""

import pytest

from models.effects import Actor, AddResponder, OweNotice, RecordLog
from models.enums import ActorKind, IncidentStatus, NoticeKind
from schedules.responders import Call, call_responders
from tests.facts import ALICE, BOB, MINUTE, NOON, directory, incident

ACTOR = Actor(ActorKind.USER, "Alice", user=ALICE.row)


def called(*calls, book=None, **changes):
    return call_responders(incident(**changes), calls, book or directory(), ACTOR, NOON)


def owed(effects):
    return [effect.notice for effect in effects if isinstance(effect, OweNotice)]


def said(effects):
    return [effect.reason for effect in effects if isinstance(effect, RecordLog)]


def test_a_person_is_told_by_each_of_their_rules():
    effects = called(Call("call-1", person=BOB))

    assert effects[0] == AddResponder("incident-1", "call-1", NOON, user=BOB.row)
    assert [(n.user, n.not_before, n.kind) for n in owed(effects)] == [
        (BOB.row, NOON, NoticeKind.RESPONDER),
        (BOB.row, NOON + 5 * MINUTE, NoticeKind.RESPONDER),
    ]
    assert said(effects) == ["Bob asked to help by Alice"]


def test_a_policy_is_the_people_of_its_first_step_that_has_any():
    book = directory((0, "gone"), (5, "bob", "alice"), (9, "charlie"))

    effects = called(Call("call-1", policy=book.policies[1]), book=book)

    assert effects[0] == AddResponder("incident-1", "call-1", NOON, escalation_policy=1)
    assert {notice.user for notice in owed(effects)} == {ALICE.row, BOB.row}
    assert said(effects) == ["policy Default (Bob, Alice) asked to help by Alice"]


@pytest.mark.parametrize(
    ("managers", "told", "whom"),
    [(["bob"], BOB.row, "the team's managers"), ([], ALICE.row, "the account's owner")],
)
def test_a_policy_that_reaches_nobody_tells_the_managers_or_else_the_owner(managers, told, whom):
    book = directory((0, "gone"), managers=managers, owner="alice")

    effects = called(Call("call-1", policy=book.policies[1]), book=book)

    assert {notice.user for notice in owed(effects)} == {told}
    assert said(effects) == [f"policy Default reaches nobody: {whom} asked to help by Alice"]


@pytest.mark.parametrize(
    ("status", "told"),
    [(IncidentStatus.TRIGGERED, 2), (IncidentStatus.ACKNOWLEDGED, 2), (IncidentStatus.RESOLVED, 0)],
)
def test_nobody_is_told_of_what_is_over(status, told):
    assert len(owed(called(Call("call-1", person=BOB), status=status))) == told


def test_the_same_call_owes_the_same_and_another_owes_anew():
    first, again, other = (owed(called(Call(name, person=BOB))) for name in ("a", "a", "b"))

    assert first == again
    assert {notice.key for notice in first}.isdisjoint(notice.key for notice in other)
