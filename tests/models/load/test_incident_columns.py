"""The columns of an incident that decisions read and write are derived from its state and its table."""

from models.domain.effects import IncidentState
from models.domain.values import list_fields
from models.load.incident_states import STATE_COLUMNS
from models.tables.incidents import FIXED


def test_a_state_has_a_column_for_each_field_but_its_numbers():
    assert set(list_fields(IncidentState)) - set(STATE_COLUMNS) == {"row", "number"}


def test_the_columns_that_never_change_are_columns_of_a_state():
    assert set(STATE_COLUMNS) > FIXED
