"""Options that a sender requests are applied if the team has them; others are ignored, and a reason says
so.
"""

import pytest

from models.domain.facts import Reference, References
from pipeline.rules import requested_options
from pipeline.rules.actions import MAX_TAGS
from tests.support.facts import alert

KNOWN = References(
    policies={"policy-2": Reference(2, "Database")},
    slas={"sla-1": Reference(11, "Gold")},
    priorities={"priority-1": Reference(21, "P1")},
    tags={"tag-1": Reference(31, "Disk"), "tag-2": Reference(32, "Night")},
)


def apply_options(**requested):
    changed, expected_reason = requested_options.apply_requested(alert(requested_options=requested), KNOWN)
    return changed.options, expected_reason


@pytest.mark.parametrize(
    ("requested", "expected", "expected_reason"),
    [
        (
            {"escalation_policy": "policy-2"},
            {"escalation_policy": 2},
            "its sender asked for escalation_policy; ",
        ),
        ({"sla": "GOLD"}, {"sla": 11}, "its sender asked for sla; "),
        ({"priority": " p1 "}, {"team_priority": 21}, "its sender asked for team_priority; "),
        ({"tags": ["tag-2", "disk", "Disk"]}, {"tags": (32, 31)}, "its sender asked for tags; "),
        ({"tags": "Disk"}, {"tags": (31,)}, "its sender asked for tags; "),
        ({"sla": "gone"}, {}, "ignored as unknown: sla; "),
        (
            {"sla": ["sla-1"], "priority": 5, "tags": {"a": 1}},
            {},
            "ignored as unknown: sla, tags, team_priority; ",
        ),
        (
            {"tags": ["gone", None, 7, "Disk"]},
            {"tags": (31,)},
            "its sender asked for tags; ignored as unknown: 3 of the tags; ",
        ),
        (
            {"sla": "Gold", "priority": "x"},
            {"sla": 11},
            "its sender asked for sla; ignored as unknown: team_priority; ",
        ),
        ({"stakeholders": {"emails": ["a@example.org"]}, "stakeholder_comms": {"subject": "x"}}, {}, ""),
        ({}, {}, ""),
    ],
    ids=str,
)
def test_a_requested_option_is_applied_or_ignored_and_the_reason_says_so(
    requested, expected, expected_reason
):
    options, reason = apply_options(**requested)

    assert {name: getattr(options, name) for name in expected} == expected
    assert options == alert().with_options(**expected).options
    assert reason == expected_reason


def test_only_the_first_of_very_many_tags_are_looked_up():
    options, _ = apply_options(tags=["x"] * MAX_TAGS + ["Disk"])

    assert options.tags == ()
