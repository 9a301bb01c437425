"""The OpenAPI description, to compare answers with."""

import re
from copy import deepcopy
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from tests.support.contract.operations import Row
from web.http.openapi.document import document
from web.routes import ROUTES


class Described:
    """The description, in which objects may not have additional keys."""

    def __init__(self) -> None:
        whole = deepcopy(document(ROUTES, "https://tocsin.example.org"))
        for schema in whole["components"]["schemas"].values():
            schema["additionalProperties"] = False
        self.paths, self.components = whole["paths"], whole["components"]
        self._checker = OAS31Validator(
            {"components": self.components}, format_checker=OAS31Validator.FORMAT_CHECKER
        )

    def schema(self, row: Any) -> Any:
        """Return the schema of a successful answer to this operation; None if it is empty."""
        operation = self.paths[re.sub("<([a-z_]+)>", r"{\1}", row.path)][row.method.lower()]
        content = operation["responses"][str(row.status)].get("content")
        return content and content["application/json"]["schema"]

    def example(self, row: Row) -> object:
        """Return the example of the body of a request in JSON."""
        operation = self.paths[re.sub("<([a-z_]+)>", r"{\1}", row.path)][row.method.lower()]
        ((_, found),) = operation["requestBody"]["content"]["application/json"]["examples"].items()
        return self.components["examples"][found["$ref"].rpartition("/")[2]]["value"]

    def find_mismatches(self, schema: Any, answer: Any) -> list[str]:
        found = self._checker.descend(answer, schema)
        return [f"{error.json_path}: {error.message[-200:]}" for error in found]


@pytest.fixture(scope="session")
def described() -> Described:
    return Described()
