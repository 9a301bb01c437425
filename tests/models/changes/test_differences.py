"""Which fields differ before and after a change, and what an undo writes."""

import pytest

from models.changes.differences import compare, revert


def element(unique_id, **values):
    return {"unique_id": unique_id, **values}


def undo(before, after, current):
    return revert(current, compare(before, after))


def test_only_fields_that_differ_are_kept():
    assert compare({"a": 1, "b": 2}, {"a": 1, "b": 3}) == [{"field": "b", "before": 2, "after": 3}]


def test_of_a_secret_only_the_change_is_kept():
    assert compare({"key": "x"}, {"key": "y"}, ["key"]) == [{"field": "key", "secret": True}]
    assert revert({"key": "y"}, [{"field": "key", "secret": True}]) == ({}, ["key"])


def test_a_list_of_objects_is_compared_by_element():
    before, after = [element("a", n=1), element("b", n=2)], [element("b", n=3), element("c", n=4)]

    assert compare({"rules": before}, {"rules": after}) == [
        {"field": "rules", "element": "a", "place": 0, "before": before[0], "after": None},
        {"field": "rules", "element": "b", "place": 0, "before": before[1], "after": after[0]},
        {"field": "rules", "element": "c", "place": 1, "before": None, "after": after[1]},
    ]
    assert undo({"rules": before}, {"rules": after}, {"rules": after}) == ({"rules": before}, [])


def test_a_new_order_is_kept_and_undone():
    before, after = [element("a"), element("b"), element("c")], [element("c"), element("a"), element("b")]
    assert undo({"rules": before}, {"rules": after}, {"rules": after}) == ({"rules": before}, [])


def test_a_list_of_values_is_compared_by_value():
    assert compare({"may": ["x", "y"]}, {"may": ["y", "z"]}) == [
        {"field": "may", "removed": ["x"], "added": ["z"]}
    ]
    assert undo({"may": ["x", "y"]}, {"may": ["y", "z"]}, {"may": ["y", "z", "w"]}) == (
        {"may": ["y", "w", "x"]},
        [],
    )


def test_what_somebody_changed_since_is_left():
    before, after = {"a": 1, "b": 1}, {"a": 2, "b": 2}
    assert undo(before, after, {"a": 2, "b": 3}) == ({"a": 1}, ["b"])


def test_an_element_that_somebody_changed_since_is_left_and_the_others_are_undone():
    before, after = [element("a", n=1), element("b", n=1)], [element("a", n=2), element("b", n=2)]
    current = [element("a", n=2), element("b", n=3)]
    assert undo({"r": before}, {"r": after}, {"r": current}) == (
        {"r": [element("a", n=1), element("b", n=3)]},
        ["r"],
    )


def test_a_field_that_has_its_value_of_before_needs_no_write():
    assert undo({"a": 1}, {"a": 2}, {"a": 1}) == ({}, [])


@pytest.mark.parametrize("after", [[element("new", n=2)], []])
def test_elements_that_got_other_ids_since_are_found_by_their_content(after):
    before = [element("old", n=1)]
    current = [element("other", n=each["n"]) for each in after]
    values, left = undo({"r": before}, {"r": after}, {"r": current})
    assert ([each["n"] for each in values["r"]], left) == ([1], [])


def test_a_creation_is_undone_although_the_ids_of_its_elements_changed():
    after = {"name": "x", "r": [element("new", n=2)]}
    assert undo({}, after, {"name": "x", "r": [element("other", n=2)]})[1] == []


def test_an_element_that_comes_back_is_not_taken_for_one_of_the_same_content():
    before = [element("a", n=1), element("b", n=2)]
    after = [element("c", n=3), element("d", n=1)]
    current = [element("e", n=3), element("f", n=1)]
    assert undo({"r": before}, {"r": after}, {"r": current}) == ({"r": before}, [])
