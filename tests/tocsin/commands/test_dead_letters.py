"""`tocsin dead-letters`: seen, taken up again and dropped, from a terminal."""

import json

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from models.domain.enums import WorkState
from models.reports import dead_letters as kept
from models.store.base import db
from models.tables.events import Event, Receipt
from tests.support.dead_letters import ERROR, add_dead_letter_alert, add_dead_letter_body
from tests.support.processes import tocsin
from tests.support.stores import get_settings
from tocsin.commands import dead_letters as command
from tocsin.commands.dead_letters import dead_letters

UNKNOWN = "00000000-0000-4000-8000-999999999999"


@pytest.fixture
def run(world, home, monkeypatch):
    """The command inside this process, on the store of the test: without bells, for a Redis that is not
    there, and without a log.
    """
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(command, "open_store", lambda *_: None)
    monkeypatch.setattr(command.logs, "configure", lambda *_: None)
    monkeypatch.setattr(command.queue, "connect", lambda url: None)
    with capture_logs():
        yield lambda *arguments, **options: CliRunner().invoke(dead_letters, arguments, **options)


@pytest.fixture
def enqueued(monkeypatch):
    lanes_enqueued = []
    monkeypatch.setattr(command.queue, "enqueue_lane", lambda *lane: lanes_enqueued.append(lane))
    return lanes_enqueued


def test_a_list_is_aligned_with_the_newest_last_and_says_how_many(world, now, run):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    result = run()

    assert result.output.splitlines() == [
        f"2026-03-04 12:00:00  {body.trace_id}  whole body    Checkout / Probe  {ERROR}",
        f"2026-03-04 12:00:00  {alert.receipt.trace_id}  alert 1 of 1  Checkout / Probe  {ERROR}",
        "2 set aside",
    ]
    assert result.exit_code == 0


def test_only_the_last_are_shown_and_it_says_so(world, now, run):
    for _ in range(3):
        last = add_dead_letter_body(world, now)
    lines = run("--limit", "1").output.splitlines()

    assert last.trace_id in lines[0]
    assert lines[1:] == ["the last 1 of 3 set aside"]


@pytest.mark.parametrize(("name", "count"), [("Checkout", 1), ("Search", 0)])
def test_a_list_may_be_of_one_service(world, now, run, name, count):
    add_dead_letter_body(world, now)

    assert json.loads(run("--service", name, "--json").output)["count"] == count


def test_nothing_is_set_aside(run):
    result = run()

    assert (result.exit_code, result.output) == (0, "nothing is set aside\n")


def test_one_is_shown_with_its_road_and_without_its_body(world, now, run):
    alert = add_dead_letter_alert(world, now, stage="rules")
    result = run("show", alert.receipt.trace_id)

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "set aside: ZeroDivisionError at rules",
        f"alert 1 of 1, trace_id {alert.receipt.trace_id}, unique_id {alert.unique_id}",
        "accepted 2026-03-04 12:00:00 UTC (generic) for Checkout / Probe",
        f"body of {len(alert.receipt.body)} bytes with 1 alert",
        "message: poison",
        "  normalize  critical, entity_id given",
    ]


def test_the_body_comes_alone_as_it_was_sent(world, now, run):
    receipt = add_dead_letter_body(world, now)

    assert run("show", receipt.trace_id, "--body").stdout_bytes == bytes(receipt.body)


@pytest.mark.parametrize("words", [("show",), ("replay",), ("drop", "--yes")], ids=str)
def test_what_is_not_set_aside_is_one_clear_line(world, run, words):
    result = run(*words, UNKNOWN)

    assert result.exit_code == 1
    assert result.output == f"Error: nothing is set aside of {UNKNOWN}\n"


def test_one_is_taken_up_again_and_its_lane_is_rung(world, now, run, enqueued):
    receipt = add_dead_letter_body(world, now)
    add_dead_letter_body(world, now)
    result = run("replay", receipt.trace_id)

    assert (result.exit_code, result.stdout) == (0, "1 taken up again\n")
    assert enqueued == [(world.service.id, "normalize")]
    assert Receipt.get_by_id(receipt.id).state == WorkState.PENDING
    assert kept.count() == 1


def test_all_are_taken_up_again_in_pieces_and_long_work_says_how_far_it_is(
    world, now, run, enqueued, monkeypatch
):
    monkeypatch.setattr(kept, "CHANGE_BATCH", 2)
    monkeypatch.setattr(command, "PROGRESS_EVERY_S", 0.0)
    for _ in range(5):
        add_dead_letter_body(world, now)
    result = run("replay", "--all", "--service", "Checkout", "--json")

    assert json.loads(result.stdout) == {"done": 5, "ownerless": 0, "conflicts": 0}
    assert [line for line in result.stderr.splitlines() if "..." in line] == ["2 of 5 ...", "4 of 5 ..."]
    assert kept.count() == 0


def test_what_came_in_by_what_was_deleted_stays_and_says_so(world, now, run, enqueued):
    add_dead_letter_body(world, now)
    world.integration.delete_instance()
    result = run("replay", "--all")

    assert (result.exit_code, result.stdout) == (1, "0 taken up again\n")
    assert "1 came in by what was deleted since: they can only be dropped" in result.stderr
    assert enqueued == []


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("", 1, 1)])
def test_dropping_asks_first(world, now, run, answer, code, left):
    add_dead_letter_alert(world, now)
    result = run("drop", "--all", input=answer)

    assert (result.exit_code, kept.count()) == (code, left)


def test_dropping_asks_not_when_told_so(world, now, run):
    alert = add_dead_letter_alert(world, now)
    result = run("drop", alert.unique_id, "--yes")

    assert (result.exit_code, result.stdout) == (0, "1 dropped\n")
    assert Event.get().reasons[-1] == ["aside", "dropped by the command line"]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("replay",), id="neither one nor all"),
        pytest.param(("replay", UNKNOWN, "--all"), id="one and all"),
        pytest.param(("drop", UNKNOWN, "--service", "Checkout"), id="a scope for one"),
        pytest.param(("--service", "Checkout", "replay", "--all"), id="a scope before the command"),
    ],
)
def test_words_that_do_not_go_together_do_nothing(world, now, run, words):
    add_dead_letter_body(world, now)

    assert run(*words).exit_code == 2
    assert kept.count() == 1


def test_the_command_as_it_is_called_with_a_log_that_holds_nothing_of_users(world, now, home):
    receipt = add_dead_letter_body(world, now, message="secret")
    db.close_all()
    done = tocsin(home, "dead-letters", "drop", receipt.trace_id, "--yes", **get_settings(home))

    assert (done.returncode, done.stdout) == (0, "1 dropped\n")
    assert json.loads(done.stderr)["ids"] == [receipt.trace_id]
    assert "secret" not in done.stderr
