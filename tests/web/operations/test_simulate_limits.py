"""How much a simulation may ask for, and what is told of one that asks for more."""

from contextlib import ExitStack

from models.domain.enums import AccountRole
from models.lifecycle import provisioning
from models.tables.accounts import Account, bump_version
from tests.support.rules import action, add_rule
from tests.web.operations.test_simulate import DISK, SIMULATE, simulate
from tests.workers.timers.test_fire import set_policy
from web.operations import simulate as simulate_web

__all__ = ["simulate"]


def build_body(count, **more):
    """A body of so many alerts."""
    open_incident = {"status": "firing", "labels": {"alertname": "Full", "severity": "critical"}, **more}
    body = {"alerts": [{**open_incident, "fingerprint": str(number)} for number in range(count)]}
    return {"alert": None, "payload": body, "source": "prometheus"}


class Clock:
    """A processor's time, of which each look at it takes a second."""

    def __init__(self):
        self.now = 0

    def thread_time(self):
        self.now += 1
        return self.now


def test_it_ends_after_two_seconds_of_work_and_says_so(simulate, monkeypatch):
    monkeypatch.setattr(simulate_web, "time", Clock())

    found = simulate(**build_body(100))

    assert found["is_truncated"]
    assert len(found["alerts"]) == 2
    assert [each["person"] for each in found["notified"]] == ["Alice"]


def test_rules_that_take_long_are_left_in_the_middle(simulate, world, monkeypatch):
    for number in range(9):
        add_rule(world, action(2, "seen"), description=str(number))
    bump_version(world.account.id)
    monkeypatch.setattr(simulate_web, "time", Clock())

    found = simulate()

    assert (found["is_truncated"], found["alerts"], found["notified"]) == (True, [], [])


def test_whoever_is_told_is_named_though_not_all_that_happens_is(simulate, world, now):
    people = [
        provisioning.create_user(world.account, f"u{number}@example.org", AccountRole.USER, now)
        for number in range(30)
    ]
    set_policy(world, (0, *people))

    found = simulate(**build_body(50))

    assert (len(found["simulated_events"]), found["is_truncated"]) == (1_000, True)
    assert {each["username"] for each in found["notified"]} == {person.username for person in people}


def test_an_account_asks_for_one_at_a_time(ask, simulate, world):
    body = {"integration": world.integration.unique_id, "alert": DISK}
    with simulate_web.CONCURRENCY.acquire(world.account):
        refused = ask("POST", SIMULATE, body)

    assert (refused.status_code, refused.json) == (429, {"detail": "Request was throttled."})
    assert int(refused.headers["Retry-After"]) > 0
    assert simulate()["notified"]


def test_a_web_process_does_two_at_a_time(ask, simulate, world):
    body = {"integration": world.integration.unique_id, "alert": DISK}
    other_accounts = (world.mallory.account, Account(id=0))
    with ExitStack() as busy:
        busy.enter_context(simulate_web.CONCURRENCY.acquire(other_accounts[0]))
        assert simulate()["notified"]
        busy.enter_context(simulate_web.CONCURRENCY.acquire(other_accounts[1]))

        assert ask("POST", SIMULATE, body).status_code == 429


def test_what_is_refused_keeps_nobody_from_asking_again(ask, simulate, world):
    assert ask("POST", SIMULATE, {"integration": world.integration.unique_id, "alert": {}}).status_code == 400

    assert simulate()["notified"]
