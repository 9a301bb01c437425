"""The limits of a simulation, and the result of a simulation that exceeds them."""

import time
from contextlib import ExitStack

from models.domain.enums import AccountRole
from models.people import provisioning
from models.tables.accounts import bump_version
from tests.support.rules import action, add_rule
from tests.support.scenarios.timers import set_policy
from tests.support.web.simulate_requests import DISK, SIMULATE, simulate
from web.operations import simulate as simulate_module

__all__ = ["simulate"]


def build_body(count, **more):
    """Build a body with this number of alerts."""
    open_incident = {"status": "firing", "labels": {"alertname": "Full", "severity": "critical"}, **more}
    body = {"alerts": [{**open_incident, "fingerprint": str(number)} for number in range(count)]}
    return {"alert": None, "payload": body, "source": "prometheus"}


class Clock:
    """A CPU clock that advances one second with each call."""

    def __init__(self):
        self.now = 0

    def thread_time(self):
        self.now += 1
        return self.now


def test_a_simulation_is_truncated_after_two_seconds_of_cpu_time(simulate, monkeypatch):
    monkeypatch.setattr(simulate_module, "time", Clock())

    found = simulate(**build_body(100))

    assert found["is_truncated"]
    assert len(found["alerts"]) == 2
    assert [each["person"] for each in found["notified"]] == ["Alice"]


def test_slow_rules_are_stopped(simulate, world, monkeypatch):
    for number in range(9):
        add_rule(world, action(2, "seen"), description=str(number))
    bump_version(world.account.id)
    monkeypatch.setattr(simulate_module, "time", Clock())

    found = simulate()

    assert (found["is_truncated"], found["alerts"], found["notified"]) == (True, [], [])


def test_a_truncated_simulation_lists_all_notified_people(simulate, world, now):
    people = [
        provisioning.create_user(world.account, f"u{number}@example.org", AccountRole.USER, now)
        for number in range(30)
    ]
    set_policy(world, (0, *people))

    found = simulate(**build_body(50))

    assert (len(found["simulated_events"]), found["is_truncated"]) == (1_000, True)
    assert {each["username"] for each in found["notified"]} == {person.username for person in people}


def test_an_account_runs_one_simulation_at_a_time(ask, simulate, world):
    body = {"integration": world.integration.unique_id, "alert": DISK}
    with simulate_module.CONCURRENCY.acquire(world.account):
        refused = ask("POST", SIMULATE, body)

    assert (refused.status_code, refused.json) == (429, {"detail": "Request was throttled."})
    assert int(refused.headers["Retry-After"]) > 0
    assert simulate()["notified"]


def test_a_page_waits_for_the_simulation_of_its_account_as_the_operation_does(sign_in, world):
    browser = sign_in("alice")
    browser.get("/why/simulate/")
    form = {"integration": world.integration.unique_id, "message": "Disk full"}
    with simulate_module.CONCURRENCY.acquire(world.account):
        assert browser.post("/why/simulate/", **form).status_code == 429

    assert browser.post("/why/simulate/", **form).status_code == 200


def test_a_web_process_runs_two_simulations_at_a_time(ask, simulate, world, now):
    body = {"integration": world.integration.unique_id, "alert": DISK}
    third, _ = provisioning.create_account("Third", "third@example.net", now)
    other_accounts = (world.mallory.account, third)
    with ExitStack() as busy:
        busy.enter_context(simulate_module.CONCURRENCY.acquire(other_accounts[0]))
        assert simulate()["notified"]
        busy.enter_context(simulate_module.CONCURRENCY.acquire(other_accounts[1]))

        assert ask("POST", SIMULATE, body).status_code == 429


def test_a_refused_simulation_does_not_block_the_next(ask, simulate, world):
    assert ask("POST", SIMULATE, {"integration": world.integration.unique_id, "alert": {}}).status_code == 400

    assert simulate()["notified"]


def test_costly_actions_of_rules_are_skipped_and_their_alert_is_simulated(simulate, world):
    costly = [action(kind, "{{payload.list[*].x}}" * 200) for kind in (8, 9)]
    add_rule(world, *costly)
    started = time.thread_time()

    found = simulate(alert={**DISK, "payload": {"list": [0] * 100_000}})

    assert time.thread_time() - started < 2
    assert (found["is_truncated"], [each["person"] for each in found["notified"]]) == (False, ["Alice"])
    assert all(each["note"].startswith("Skipped: ") for each in found["alerts"][0]["rules"][0]["actions"])


def test_costly_rules_of_an_alert_do_not_leave_out_the_alerts_after_it(simulate, world):
    for number in range(60):
        add_rule(world, action(8, "{{message}} {{payload.labels.alertname}} " * 20), description=str(number))

    found = simulate(**build_body(10))

    assert (len(found["alerts"]), found["is_truncated"]) == (10, False)
