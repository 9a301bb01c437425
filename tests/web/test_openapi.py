"""The interface describes itself from the routes that serve it."""

from openapi_spec_validator import OpenAPIV31SpecValidator


def test_the_description_is_valid(ask):
    described = ask("GET", "/api/openapi.json", who=None)

    assert described.status_code == 200
    OpenAPIV31SpecValidator(described.json).validate()


def test_it_carries_the_version_and_the_scheme_of_the_interface(ask):
    described = ask("GET", "/api/openapi.json", who=None).json

    assert described["info"]["version"] == "1.1.0"
    assert described["components"]["securitySchemes"]["bearerAuth"] == {"type": "http", "scheme": "bearer"}
    assert described["paths"]["/api/events/{integration_key}/"]["post"]["deprecated"] is True


def test_who_needs_a_token_is_told(ask):
    paths = ask("GET", "/api/openapi.json", who=None).json["paths"]

    assert paths["/api/alert/status/{trace_id}/"]["get"]["security"] == [{"bearerAuth": []}]
    assert paths["/api/events/{integration_key}/"]["post"]["security"] == []


def test_names_of_operations_are_unique(ask):
    paths = ask("GET", "/api/openapi.json", who=None).json["paths"]
    names = [operation["operationId"] for operations in paths.values() for operation in operations.values()]

    assert len(names) == len(set(names))


def test_the_page_that_shows_it_loads_nothing_from_elsewhere(ask):
    page = ask("GET", "/api/docs/", who=None, headers={"Host": 'evil"></script>'})

    assert page.status_code == 200
    assert "/api/openapi.json" in page.text
    assert "://" not in page.text.replace("http://www.w3.org", "")
    with ask("GET", "/api/docs/swagger-ui-bundle.js", who=None) as script:
        assert script.status_code == 200
