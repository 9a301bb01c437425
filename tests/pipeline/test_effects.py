"""Every interpreter of effects has an entry for each class of effects; a new class needs nothing else."""

from dataclasses import dataclass
from typing import get_args, get_type_hints

import pytest

from models.domain.effects import (
    AddNote,
    Author,
    ChangeSet,
    CreateNotification,
    Effect,
    EntityState,
    EventState,
    ExpectPing,
    RecordLog,
    SaveEntity,
    SaveIncident,
)
from models.domain.enums import AuthorKind
from models.domain.facts import TimerDecision
from models.domain.reasons import describe
from models.write import apply
from models.write.notifications import NewNotification
from pipeline import lane_state
from pipeline.lane_state import LaneState
from pipeline.simulation import engine
from pipeline.simulation.simulate import simulate
from tests.support.facts import MINUTE, NOON, alert, build_config, incident, lane

# The writers ask the store whether it can work ahead.
pytestmark = pytest.mark.usefixtures("store")

EFFECTS = set(get_args(Effect))
# Classes of effects to functions that take one effect.
TABLES = {"fold": apply.FOLDS, "lane state": lane_state.UPDATES, "simulation": engine.CONSEQUENCES}
# What a writer gets instead of effects.
FOLDED = {SaveEntity: EntityState, CreateNotification: NewNotification}


@dataclass(frozen=True)
class PlaySound:
    """An effect that only these tests know."""

    incident: str = "incident-1"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_an_interpreter_has_an_entry_for_each_class_of_effects(table):
    assert set(table) == EFFECTS


def test_each_class_of_effects_and_the_events_have_a_writer():
    assert set(apply.WRITERS) == EFFECTS | {EventState}


def test_the_function_of_an_entry_takes_the_class_of_the_entry():
    wrong = [
        (table, kind)
        for table, entries in TABLES.items()
        for kind, function in entries.items()
        if not issubclass(kind, get_type_hints(function)["effect"])
    ]

    assert wrong == []


def test_a_writer_takes_what_was_folded_from_the_class_of_its_entry():
    taken = {
        kind: get_args(next(iter(get_type_hints(write).values()))) for kind, write in apply.WRITERS.items()
    }

    assert [kind for kind, kinds in taken.items() if FOLDED.get(kind, kind) not in kinds] == []


def simulate_timer(*effects):
    """Simulate an alert and a timer that decides on these effects."""
    state = LaneState(lane(build_config((0, "alice"), (5, "bob"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "decide_timer", lambda *_: TimerDecision(describe("plays a sound"), effects))
        return simulate(state, [alert()], NOON, 10 * MINUTE)


def test_a_new_effect_needs_its_class_and_its_entries_in_the_tables(monkeypatch):
    done = []
    monkeypatch.setitem(apply.FOLDS, PlaySound, apply.FOLDS[AddNote])
    monkeypatch.setitem(
        apply.WRITERS, PlaySound, lambda effects, rows: done.append(("written", effects, rows))
    )
    monkeypatch.setitem(lane_state.UPDATES, PlaySound, lambda state, effect: done.append(("updated", effect)))
    monkeypatch.setitem(
        engine.CONSEQUENCES, PlaySound, lambda engine, effect, pending: done.append(("simulated", effect))
    )

    apply.apply(ChangeSet([PlaySound()]), {"incident-1": 1})
    simulate_timer(PlaySound())

    assert done == [
        ("written", [PlaySound()], {"incident-1": 1}),
        ("updated", PlaySound()),
        ("simulated", PlaySound()),
    ]


@pytest.mark.parametrize("missing", TABLES)
def test_an_effect_without_an_entry_is_refused(missing, monkeypatch):
    for table in TABLES.keys() - {missing}:
        monkeypatch.setitem(TABLES[table], PlaySound, lambda *_: None)

    def interpret():
        apply.apply(ChangeSet([PlaySound()]))
        simulate_timer(PlaySound())

    with pytest.raises(KeyError, match="PlaySound"):
        interpret()


def test_only_the_writers_of_the_given_effects_run_in_the_order_of_the_table(monkeypatch):
    ran = []
    for kind in apply.WRITERS:
        monkeypatch.setitem(apply.WRITERS, kind, lambda *_, kind=kind: ran.append(kind))
    log = RecordLog(
        "incident-1", NOON, "opened", describe("critical alert"), Author(AuthorKind.TIMER, "timer")
    )

    apply.apply(ChangeSet([ExpectPing(7, NOON), log, SaveIncident(incident()), log]))

    assert ran == [SaveIncident, ExpectPing, RecordLog]


def test_what_later_alerts_refer_to_is_written_first_and_the_rest_once(monkeypatch):
    ran = []
    for kind in apply.WRITERS:
        monkeypatch.setitem(apply.WRITERS, kind, lambda items, _, kind=kind: ran.append((kind, len(items))))
    changes = ChangeSet([ExpectPing(7, NOON), SaveIncident(incident())])
    writer = apply.Writer()

    writer.add(changes)
    assert ran == [(SaveIncident, 1)]
    writer.finish(changes)

    assert ran == [(SaveIncident, 1), (SaveIncident, 1), (ExpectPing, 2)]
