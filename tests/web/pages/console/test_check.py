"""The page with what `tocsin check` finds in the account."""

from datetime import timedelta

import pytest

from models.tables.rules import AlertRule
from models.tables.services import Service
from schedules.oncall.checks import PIECE
from tests.support.rules import add_router
from tests.support.schedules.stored import MONDAY, layer, restriction, schedule
from web.checks import rules
from web.checks.findings import Progress, run_checks
from web.pages.console import check

PATH = "/check/"


def test_the_page_lists_problems_with_their_team_and_minor_findings_apart(sign_in, world):
    Service.update(escalation_policy=None).where(Service.id == world.service.id).execute()
    days = layer(world.alice, restrictions=[restriction("09:00:00", 8 * 3600)], restriction_type=1)
    schedule(world.team, days)
    text = sign_in("alice").get(PATH).text

    problems, _, minor = text.partition("Minor findings: 1")
    assert "<b>Payments</b> the service Checkout has no escalation policy" in problems
    assert "nobody is on call by Primary" in minor


def test_findings_of_another_account_are_not_listed(sign_in, world):
    Service.update(escalation_policy=None).where(Service.id == world.service.id).execute()

    assert "Checkout" not in sign_in("mallory").get(PATH).text


def test_only_the_owner_and_admins_see_it(sign_in):
    assert sign_in("bob").get(PATH).status_code == 403
    assert "/check/" in sign_in("alice").get("/why/").text
    assert "/check/" not in sign_in("bob").get("/why/").text


def test_one_check_of_an_account_runs_at_a_time(sign_in, world):
    with check.CONCURRENCY.acquire(world.account):
        answer = sign_in("alice").get(PATH)

    assert (answer.status_code, "Somebody runs the check now" in answer.text) == (429, True)


def test_a_check_that_takes_too_long_ends(sign_in, monkeypatch):
    monkeypatch.setattr(check, "MAX_SECONDS", -1.0)
    answer = sign_in("alice").get(PATH)

    assert (answer.status_code, "so it was stopped" in answer.text) == (503, True)


def test_the_end_of_a_check_frees_its_place(sign_in, monkeypatch):
    browser = sign_in("alice")
    monkeypatch.setattr(check, "MAX_SECONDS", -1.0)
    browser.get(PATH)
    monkeypatch.undo()

    assert browser.get(PATH).status_code == 200


def stop():
    """End a check, as if the time was over."""
    raise TimeoutError


@pytest.mark.parametrize("find", [rules.find_unknown_fields, rules.find_routers_without_catch_all])
def test_the_checks_of_rules_end_with_the_time(world, find):
    AlertRule.create(
        unique_id="0" * 36,
        creation_date=MONDAY,
        integration=world.integration,
        position=1,
        rule_json='{"in": ["x", {"var": "nothing"}]}',
    )
    add_router(world)

    with pytest.raises(TimeoutError):
        list(find(world.account, stop))


def test_the_checks_of_shifts_end_with_the_time(world, now):
    """Each piece of the work with shifts that people have twice asks for the time."""
    for name in ("Days", "Nights"):
        schedule(world.team, layer(world.alice, world.bob, shift_length=600, name=name), name=name)
    calls = []
    run_checks(
        world.account, now, now + timedelta(days=30), progress=Progress(go_on=lambda: calls.append(None))
    )

    assert len(calls) > 2 * 30 * 24 * 6 / PIECE
