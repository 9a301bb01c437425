"""A misspelt query parameter is refused by our own operations, and ignored by those of the specification."""

import pytest

from web.http.errors import BadRequest
from web.http.limits import query_names


def test_a_misspelt_filter_is_named_with_the_right_name(ask):
    answer = ask("GET", "/api/tocsin/incidents/?statsu=1&service_id=x&page=1")

    assert answer.status_code == 400
    assert answer.json["errors"] == {
        "statsu": ["No such parameter; did you mean status?"],
        "service_id": ["No such parameter; did you mean service_ids?"],
    }


def test_all_filters_and_pages_are_known(ask):
    assert ask("GET", "/api/tocsin/incidents/?status=1&service_ids=x&page=1&page_size=5").status_code == 200


def test_an_operation_without_parameters_says_so(ask):
    answer = ask("GET", "/api/tocsin/drills/x/?verbose=1")

    assert answer.json["errors"] == {"verbose": ["This operation has no query parameters."]}


def test_operations_of_the_specification_ignore_what_they_do_not_know(ask):
    assert ask("GET", "/api/incidents/?statsu=1").status_code == 200
    assert ask("GET", "/api/account/teams/?verbose=1").status_code == 200


def test_an_error_names_some_unknown_parameters_and_the_beginning_of_each():
    with pytest.raises(BadRequest) as raised:
        query_names.require_known([f"{number}{'x' * 500}" for number in range(200)], ["page"])

    assert len(raised.value.fields) == query_names.MAX_UNKNOWN
    assert {len(name) for name in raised.value.fields} == {query_names.MAX_SHOWN}
