"""A run with a lost alert is not reported."""

import pytest

from bench.load import Accepted
from bench.run_rows import RunRows
from models.domain.enums import NotificationStatus, WorkState

ACCEPTED = [Accepted("t1", ("a",), 0.0), Accepted("t2", ("a",), 0.0)]


def kept(**changes) -> RunRows:
    """Build two alerts of one entity, one incident, one notification and one mail, with changes."""
    books = {
        "receipts": {"t1": (1, WorkState.DONE), "t2": (2, WorkState.DONE)},
        "events": {1: [("a", WorkState.DONE)], 2: [("a", WorkState.DONE)]},
        "opened": {"a": [7]},
        "opening_receipts": {7: 1},
        "open_incidents": frozenset({7}),
        "entity_incidents": {"a": 7},
        "notifications": {7: [(NotificationStatus.SENT, "m")]},
        "sent_at": {"m": 1.0},
        "arrivals": {"m": [1.0]},
    }
    return RunRows(**{**books, **changes})


def test_rows_that_match_the_accepted_alerts_have_no_fault():
    assert kept().find_faults(ACCEPTED) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        pytest.param({"receipts": {"t1": (1, WorkState.DONE)}}, "not processed", id="receipt lost"),
        pytest.param(
            {"receipts": {"t1": (1, WorkState.DONE), "t2": (2, WorkState.DEAD_LETTER)}},
            "not processed",
            id="dead letter",
        ),
        pytest.param({"events": {1: [("a", WorkState.DONE)]}}, "not processed", id="event lost"),
        pytest.param({"open_incidents": frozenset()}, "one open incident", id="incident closed"),
        pytest.param(
            {"opened": {"a": [7, 8]}, "open_incidents": frozenset({7, 8})}, "one open incident", id="two open"
        ),
        pytest.param({"notifications": {}}, "one notification", id="no notification"),
        pytest.param(
            {"notifications": {7: [(NotificationStatus.FAILED, "m")]}}, "one notification", id="failed"
        ),
        pytest.param({"arrivals": {}}, "one mail", id="no mail"),
        pytest.param({"arrivals": {"m": [1.0, 2.0]}}, "one mail", id="two mails"),
    ],
)
def test_it_finds_a_fault(changes, fault):
    assert fault in " ".join(kept(**changes).find_faults(ACCEPTED))
