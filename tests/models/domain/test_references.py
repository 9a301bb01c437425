"""A rule finds an object by ID, name or row number, however many objects the team has."""

import pytest

from models.domain.facts import Reference, ReferenceMap

DISK, NIGHT, OTHER_DISK = Reference(31, "Disk"), Reference(32, "Straße"), Reference(33, "DISK")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tag-2", NIGHT),
        ("TAG-2", NIGHT),
        ("STRASSE", NIGHT),
        ("disk", DISK),
        ("tag-3", OTHER_DISK),
        ("gone", None),
        ("", None),
    ],
)
def test_an_object_is_found_by_id_or_by_name_in_any_case(text, expected):
    assert ReferenceMap({"tag-1": DISK, "tag-2": NIGHT, "tag-3": OTHER_DISK}).find(text) is expected


def test_an_object_is_found_by_its_row_number():
    tags = ReferenceMap({"tag-1": DISK, "tag-2": NIGHT})
    assert [tags.get_name(31), tags.get_name(99), tags.get_name(None)] == ["Disk", None, None]


def test_the_list_of_objects_is_read_once_for_all_look_ups():
    class Tags(ReferenceMap):
        times_read = 0

        def values(self):
            self.times_read += 1
            return super().values()

    tags = Tags({f"tag-{row}": Reference(row, f"Tag {row}") for row in range(1_000)})
    for row in range(1_000):
        tags.find(f"tag {row}")
        tags.get_name(row)

    assert tags.times_read == 2, "once by name and once by row number"
