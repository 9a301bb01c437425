"""`tocsin dead-letters` lists, replays and drops dead letters."""

import json

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from models.domain.enums import WorkState
from models.domain.reasons import make_reason
from models.reports import dead_letters
from models.store.store import db
from models.tables.events import Event, Receipt, list_reasons
from models.write import change_dead_letters
from tests.support.dead_letters import ERROR, add_dead_letter_alert, add_dead_letter_body
from tests.support.processes import tocsin
from tests.support.stores import get_settings
from tocsin.commands.alerts import dead_letters as command
from tocsin.commands.alerts.dead_letters import dead_letters_group

UNKNOWN = "00000000-0000-4000-8000-999999999999"


@pytest.fixture
def run(world, home, monkeypatch):
    """run(argument, ...): the command in this process with the store of the test, without Redis and log."""
    for name, value in get_settings(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(command, "open_store", lambda *_: None)
    monkeypatch.setattr(command, "configure_later", lambda *_: None)
    monkeypatch.setattr(command.queue, "connect", lambda url: None)
    with capture_logs():
        yield lambda *arguments, **options: CliRunner().invoke(dead_letters_group, arguments, **options)


@pytest.fixture
def enqueued(monkeypatch):
    lanes_enqueued = []
    monkeypatch.setattr(command.queue, "enqueue_lane", lambda *lane: lanes_enqueued.append(lane))
    return lanes_enqueued


def test_the_list_is_aligned_and_ends_with_the_newest_and_the_count(world, now, run):
    body, alert = add_dead_letter_body(world, now), add_dead_letter_alert(world, now)
    result = run()

    assert result.output.splitlines() == [
        f"2026-03-04 12:00:00  {body.trace_id}  whole body    Checkout / Probe  {ERROR}",
        f"2026-03-04 12:00:00  {alert.receipt.trace_id}  alert 1 of 1  Checkout / Probe  {ERROR}",
        "2 dead letters",
    ]
    assert result.exit_code == 0


def test_a_limit_shows_the_newest_and_the_total(world, now, run):
    for _ in range(3):
        last = add_dead_letter_body(world, now)
    lines = run("--limit", "1").output.splitlines()

    assert last.trace_id in lines[0]
    assert lines[1:] == ["the last 1 of 3 dead letters"]


@pytest.mark.parametrize(("name", "count"), [("Checkout", 1), ("Search", 0)])
def test_the_list_can_be_limited_to_one_service(world, now, run, name, count):
    add_dead_letter_body(world, now)

    assert json.loads(run("--service", name, "--json").output)["count"] == count


def test_the_list_is_empty_without_dead_letters(run):
    result = run()

    assert (result.exit_code, result.output) == (0, "no dead letters\n")


def test_a_dead_letter_is_shown_with_its_stages_and_without_its_body(world, now, run):
    alert = add_dead_letter_alert(world, now, stage="rules")
    result = run("show", alert.receipt.trace_id)

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "dead letter: ZeroDivisionError in stage rules.",
        f"alert 1 of 1, trace_id {alert.receipt.trace_id}, unique_id {alert.unique_id}",
        "accepted 2026-03-04 12:00:00 UTC (generic) for Checkout / Probe",
        f"body of {len(alert.receipt.body)} bytes with 1 alert",
        "message: poison",
        "  normalize  The level is critical. The sender gave the entity_id.",
    ]


def test_the_body_is_printed_unchanged(world, now, run):
    receipt = add_dead_letter_body(world, now)

    assert run("show", receipt.trace_id, "--body").stdout_bytes == bytes(receipt.body)


@pytest.mark.parametrize("words", [("show",), ("replay",), ("drop", "--yes")], ids=str)
def test_an_unknown_trace_id_is_an_error(world, run, words):
    result = run(*words, UNKNOWN)

    assert result.exit_code == 1
    assert result.output == f"Error: there is no dead letter {UNKNOWN}\n"


def test_a_dead_letter_is_replayed_and_its_lane_is_enqueued(world, now, run, enqueued):
    receipt = add_dead_letter_body(world, now)
    add_dead_letter_body(world, now)
    result = run("replay", receipt.trace_id)

    assert (result.exit_code, result.stdout) == (0, "1 replayed\n")
    assert enqueued == [(world.service.id, "normalize")]
    assert Receipt.get_by_id(receipt.id).state == WorkState.PENDING
    assert dead_letters.count() == 1


def test_all_dead_letters_are_replayed_in_chunks_with_progress(world, now, run, enqueued, monkeypatch):
    monkeypatch.setattr(change_dead_letters, "CHANGE_BATCH", 2)
    monkeypatch.setattr(command, "PROGRESS_EVERY_S", 0.0)
    for _ in range(5):
        add_dead_letter_body(world, now)
    result = run("replay", "--all", "--service", "Checkout", "--json")

    assert json.loads(result.stdout) == {"done": 5, "owner_deleted": 0, "conflicts": 0}
    assert [line for line in result.stderr.splitlines() if "..." in line] == ["2 of 5 ...", "4 of 5 ..."]
    assert dead_letters.count() == 0


def test_a_dead_letter_of_a_deleted_integration_is_not_replayed(world, now, run, enqueued):
    add_dead_letter_body(world, now)
    world.integration.delete_instance()
    result = run("replay", "--all")

    assert (result.exit_code, result.stdout) == (1, "0 replayed\n")
    assert (
        "1 came through a deleted service, integration or router: they can only be dropped" in result.stderr
    )
    assert enqueued == []


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("", 1, 1)])
def test_drop_asks_for_confirmation(world, now, run, answer, code, left):
    add_dead_letter_alert(world, now)
    result = run("drop", "--all", input=answer)

    assert (result.exit_code, dead_letters.count()) == (code, left)


def test_drop_with_yes_does_not_ask(world, now, run):
    alert = add_dead_letter_alert(world, now)
    result = run("drop", alert.unique_id, "--yes")

    assert (result.exit_code, result.stdout) == (0, "1 dropped\n")
    assert list_reasons(Event.get())[-1] == ("drop", make_reason("dropped", by="the command line"))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("replay",), id="neither one nor all"),
        pytest.param(("replay", UNKNOWN, "--all"), id="one and all"),
        pytest.param(("drop", UNKNOWN, "--service", "Checkout"), id="a scope for one"),
        pytest.param(("--service", "Checkout", "replay", "--all"), id="a scope before the command"),
    ],
)
def test_contradicting_options_change_nothing(world, now, run, words):
    add_dead_letter_body(world, now)

    assert run(*words).exit_code == 2
    assert dead_letters.count() == 1


@pytest.mark.processes
def test_the_log_of_the_command_contains_no_data_of_users(world, now, home):
    receipt = add_dead_letter_body(world, now, message="secret")
    db.close_all()
    done = tocsin(home, "dead-letters", "drop", receipt.trace_id, "--yes", **get_settings(home))

    assert (done.returncode, done.stdout) == (0, "1 dropped\n")
    assert json.loads(done.stderr)["ids"] == [receipt.trace_id]
    assert "secret" not in done.stderr
