"""Undo all changes of random writes, the newest first: the configuration is as before."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.tables.changes import Change
from tests.support.changes.configuration import compare_rows, read_configuration
from tests.support.changes.random_writes import KINDS, keep_restored, remember_database, send
from tests.support.contract.samples import samples
from tests.support.scenarios.combinations import TEST_ALL
from web.oncall.overrides import Overrides

__all__ = ["samples"]

WRITES = st.lists(
    st.tuples(
        st.integers(0, len(KINDS) - 1), st.integers(0, 3), st.integers(0, 6), st.integers(0, 20)
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def undo_all(ask, first):
    """Undo all changes after this row, the newest first, and return the answers that refused."""
    refused = []
    for change in list(
        Change.select().where(Change.id > first, Change.kind != "").order_by(Change.id.desc())
    ):
        answer = ask("POST", f"/api/tocsin/changes/{change.unique_id}/undo/")
        if answer.status_code != 200 or answer.json["left"]:
            refused.append((change.kind, change.action, change.fields, answer.status_code, answer.json))
    return refused


def test_undoing_all_changes_in_reverse_order_gives_the_rows_of_before(ask, world, samples, monkeypatch):
    monkeypatch.setattr(Overrides, "rate_limits", ())
    before = keep_restored(read_configuration())
    sent = []

    with remember_database() as restore:

        @settings(
            max_examples=150 if TEST_ALL else 20, suppress_health_check=list(HealthCheck), derandomize=True
        )
        @given(WRITES)
        def check(writes):
            restore()
            last = Change.select().order_by(Change.id.desc()).get().id
            for write in writes:
                answer = send(ask, world, *write)
                sent.append(answer is not None and answer.status_code < 300)

            assert undo_all(ask, last) == []
            assert compare_rows(before, keep_restored(read_configuration())) == []

        check()
    # Most of the writes are valid.
    assert sum(sent) > len(sent) / 2
