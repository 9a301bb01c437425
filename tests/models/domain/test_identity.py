"""IDs have the forms of contract section 1.5."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from models.domain import identity


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_that_of_the_standard_library(data):
    text = identity.format_uuid(data)

    assert text == str(uuid.UUID(bytes=data, version=4))
    assert identity.is_uuid(text)


def test_a_derived_id_stays_the_same_in_all_versions():
    """Repeated work, also that of a later version, must create the same ids again."""
    assert identity.make_attachment_id("event", "urls", 0) == "e1e8fb90-794d-4883-909e-6c3de86dd26b"
    assert identity.make_event_id("trace", 0, 1) == "gCkUYHagzsupd4t6zPKiBH"
