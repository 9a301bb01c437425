"""Options that a sender requests are applied if the team has them; others are ignored, and a reason says
so.
"""

import pytest

from models.domain.facts import Reference, ReferenceMap, References
from models.domain.reasons import make_reason
from pipeline.rules import requested_options
from pipeline.rules.actions import MAX_TAGS
from tests.support.facts import alert

KNOWN = References(
    policies=ReferenceMap({"policy-2": Reference(2, "Database")}),
    slas=ReferenceMap({"sla-1": Reference(11, "Gold")}),
    priorities=ReferenceMap({"priority-1": Reference(21, "P1")}),
    tags=ReferenceMap({"tag-1": Reference(31, "Disk"), "tag-2": Reference(32, "Night")}),
)


def asked(*options):
    return make_reason("options_requested", options=options)


def ignored(*options):
    return make_reason("options_unknown", options=options)


def apply_options(**requested):
    changed, reasons = requested_options.apply_requested(alert(requested_options=requested), KNOWN)
    return changed.options, reasons


@pytest.mark.parametrize(
    ("requested", "expected", "expected_reasons"),
    [
        (
            {"escalation_policy": "policy-2"},
            {"escalation_policy": 2},
            (asked("escalation_policy"),),
        ),
        ({"sla": "GOLD"}, {"sla": 11}, (asked("sla"),)),
        ({"priority": " p1 "}, {"team_priority": 21}, (asked("team_priority"),)),
        ({"tags": ["tag-2", "disk", "Disk"]}, {"tags": (32, 31)}, (asked("tags"),)),
        ({"tags": "Disk"}, {"tags": (31,)}, (asked("tags"),)),
        ({"sla": "gone"}, {}, (ignored("sla"),)),
        (
            {"sla": ["sla-1"], "priority": 5, "tags": {"a": 1}},
            {},
            (ignored("sla", "tags", "team_priority"),),
        ),
        (
            {"tags": ["gone", None, 7, "Disk"]},
            {"tags": (31,)},
            (asked("tags"), ignored(make_reason("tags_unknown", count=3))),
        ),
        (
            {"sla": "Gold", "priority": "x"},
            {"sla": 11},
            (asked("sla"), ignored("team_priority")),
        ),
        ({"stakeholders": {"emails": ["a@example.org"]}, "stakeholder_comms": {"subject": "x"}}, {}, ()),
        ({}, {}, ()),
    ],
    ids=str,
)
def test_a_requested_option_is_applied_or_ignored_and_the_reasons_say_so(
    requested, expected, expected_reasons
):
    options, reasons = apply_options(**requested)

    assert {name: getattr(options, name) for name in expected} == expected
    assert options == alert().with_options(**expected).options
    assert reasons == expected_reasons


def test_only_the_first_of_very_many_tags_are_looked_up():
    options, _ = apply_options(tags=["x"] * MAX_TAGS + ["Disk"])

    assert options.tags == ()
