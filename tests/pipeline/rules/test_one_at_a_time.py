"""Threads that evaluate many rules do it one after the other, in the order in which they asked."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pipeline.rules.conditions import Budget
from pipeline.rules.one_at_a_time import MANY_RULES, FairLock, evaluate_one_at_a_time
from pipeline.rules.rulesets import RuleSet
from tests.support.facts import NOON, alert, lane
from tests.support.polling import wait_until
from tests.support.rules import RuleAction, action, rule_facts, var


def test_threads_get_the_lock_in_the_order_in_which_they_ask():
    lock, order = FairLock(), []

    def take(number):
        with lock:
            order.append(number)

    with ThreadPoolExecutor(3) as pool, lock:
        for number in range(3):
            pool.submit(take, number)
            wait_until(lambda number=number: len(lock._turns) == number + 1)
        assert order == []

    assert order == [0, 1, 2]


def test_an_error_releases_the_lock():
    lock = FairLock()
    with suppress(ValueError), lock:
        raise ValueError

    with lock:
        pass


def test_few_rules_take_no_lock():
    with evaluate_one_at_a_time(range(MANY_RULES + 1)), evaluate_one_at_a_time(range(MANY_RULES)):
        pass


def test_threads_that_share_rules_get_the_results_of_one_thread():
    rules = [
        rule_facts(
            action(RuleAction.ADD_NOTE, f"{number} {{{{entity_id}}}}"),
            when={"==": [var("payload.host"), f"db{number % 3}"]},
        )
        for number in range(6 * MANY_RULES)
    ]
    rule_set, running = RuleSet(rules), threading.Barrier(4)

    def apply(number):
        running.wait(30)
        alerts = [alert(entity_id=f"e{number}", payload={"host": f"db{n % 3}"}) for n in range(30)]
        return [rule_set.apply(one, lane(), NOON, lambda _: None, Budget()).alert.options for one in alerts]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(apply, range(4)))

    for number, options in enumerate(found):
        expected = [
            tuple(f"{n} e{number}" for n in range(6 * MANY_RULES) if n % 3 == host) for host in range(3)
        ]
        assert [each.notes for each in options] == expected * 10
