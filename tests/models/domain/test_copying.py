"""A copy has the changed values and the other values of the original, as with `dataclasses.replace`."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from models.domain.copying import build_copier
from models.domain.effects import EntityState
from pipeline.alert import NO_OPTIONS
from tests.support.facts import alert, incident

CHANGES = [
    (alert(), {"entity_id": "db2"}),
    (alert().parsed, {"message": "", "suppressed": True}),
    (NO_OPTIONS, {"notes": ("one",), "sla": 3}),
    (incident(), {"title": "other", "row": None}),
    (EntityState(7, "db1"), {}),
]
IDS = [type(value).__name__ for value, _ in CHANGES]


@pytest.mark.parametrize(("value", "changes"), CHANGES, ids=IDS)
def test_a_copy_equals_a_replaced_value_and_is_frozen(value, changes):
    before = replace(value)

    copied = build_copier(type(value))(value, changes)

    assert copied == replace(value, **changes)
    assert value == before
    with pytest.raises(FrozenInstanceError):
        setattr(copied, fields(copied)[0].name, 1)


def test_a_copy_with_an_unknown_field_is_refused():
    with pytest.raises(KeyError):
        build_copier(EntityState)(EntityState(7, "db1"), {"nonsense": 1})
