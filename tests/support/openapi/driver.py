"""Drive one operation with schemathesis, and list its findings.

The application runs in this process. Requests come from the description that it serves, with two changes:
paths contain the ids of existing objects, and references in bodies name existing objects. Otherwise nearly
all requests would end at the first unknown id.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import marshmallow
import schemathesis
from hypothesis import strategies
from schemathesis.engine import events, from_schema

from tests.support.openapi.judge import CHECKS_OFF, JSON, Judge
from tests.support.openapi.tolerance import resolve
from web.http import fields

BASE = "http://localhost"

# Valid values of formats that only this interface has.
ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu"]
schemathesis.openapi.format("time-zone", strategies.sampled_from(ZONES))
schemathesis.openapi.format(
    "json-logic", strategies.sampled_from(["", "{}", '{"==": [{"var": "payload.kind"}, 1]}'])
)

# A unique_id or a username.
_ID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    title: str
    request: str
    body: str
    answer: str
    message: str

    def __str__(self) -> str:
        return "\n    ".join(
            (f"{self.check}: {self.title}", self.request, self.body, self.answer, self.message)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """How to drive an operation: phases, formats of bodies, number of random requests, and the seed."""

    phases: tuple[str, ...]
    formats: tuple[str, ...]
    examples: int
    seed: int


class Driver:
    """Drives operations of one application as one viewer.

    `ids` has the existing objects by the names of path parameters.
    """

    def __init__(
        self, app: Any, document: dict[str, Any], ids: Mapping[str, str], authorization: str
    ) -> None:
        self.app, self.document, self.ids, self.authorization = app, document, ids, authorization

    def find(self, route: Any, sample: Any, plan: Plan) -> list[Finding]:
        """Return what schemathesis finds in an operation. `sample` is a valid body for it, or None."""
        path = re.sub("<([a-z_]+)>", r"{\1}", route.path)
        document = self._build_document(path, route, sample, plan)
        schema = schemathesis.openapi.from_dict(document, config=self._build_config(plan, route))
        schema.app = self.app
        judge = Judge(self.document, route, self.authorization)
        # The library sets attributes on the hook, which a method cannot have.
        schema.hooks.hook("filter_failure")(
            lambda context, failure, case, response: judge.is_finding(failure, case, response)
        )
        return list(_list_findings(from_schema(schema.include(path=path, method=route.method)).execute()))

    def _build_document(self, path: str, route: Any, sample: Any, plan: Plan) -> dict[str, Any]:
        """Return the description with only this path, in which references in the body have valid values."""
        kept = deepcopy(self.document["paths"][path])
        described_operation = kept[route.method.lower()]
        # A generated number is never that of the object: tests/contract/test_numbers.py sends such.
        described_operation["parameters"] = [
            each for each in described_operation["parameters"] if each["name"] != "If-Match"
        ]
        body, components = route.body or route.doc_body, self.document["components"]
        if body is not None:
            described = kept[route.method.lower()]["requestBody"]["content"]
            for kind in described.keys() - set(plan.formats):
                del described[kind]
            for content in described.values():
                content["schema"] = insert_references(content["schema"], components["schemas"], body, sample)
                # The examples of the description name objects that do not exist here.
                content.pop("examples", None)
            described[JSON]["example"] = sample
        return {**self.document, "paths": {path: kept}, "components": deepcopy(components)}

    def _build_config(self, plan: Plan, route: Any) -> Any:
        off = [name for name, bodies in CHECKS_OFF.items() if (route.body or route.doc_body) in bodies]
        every = ("examples", "coverage", "fuzzing", "stateful")
        return schemathesis.Config.from_dict(
            {
                "seed": plan.seed,
                "base-url": BASE,
                "headers": {"Authorization": self.authorization},
                "continue-on-failure": True,
                "cache": {"enabled": False},
                "parameters": {f"path.{name}": value for name, value in self.ids.items()},
                "generation": {
                    "max-examples": plan.examples,
                    "deterministic": True,
                    "no-shrink": True,
                    "database": "none",
                    # The header is always sent; without a token there is nothing but 401.
                    "with-security-parameters": False,
                },
                "phases": {phase: {"enabled": phase in plan.phases} for phase in every},
                "checks": {"enabled": True, **{name: {"enabled": False} for name in off}},
            }
        )


def insert_references(schema: Any, components: Mapping[str, Any], body: Any, sample: Any) -> dict[str, Any]:
    """Return a copy of the schema of a body in which each reference must have the value that the sample has.

    A reference that the sample does not have is removed.
    """
    copied = deepcopy(resolve(schema, components))
    properties = copied.get("properties", {})
    for name, field in body.load_fields.items():
        key = field.data_key or name
        value = sample.get(key) if isinstance(sample, dict) else None
        if key not in properties:
            continue
        changed = _change_field(properties[key], components, field, value)
        if changed is None and key not in copied.get("required", ()):
            del properties[key]
        elif changed is not None:
            properties[key] = changed
    return copied


def _change_field(schema: Any, components: Mapping[str, Any], field: Any, value: Any) -> Any:
    """Return the schema of a field with valid references; None if the sample has no value for a reference."""
    if isinstance(field, fields.Reference):
        return None if value is None else {"enum": [value]}
    if isinstance(field, marshmallow.fields.String) and isinstance(value, str) and is_id(value):
        return {"enum": [value]}
    if isinstance(field, marshmallow.fields.Nested):
        return _change_nested(schema, components, field, value)
    if isinstance(field, marshmallow.fields.List):
        return _change_list(schema, components, field, value)
    return schema


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _change_nested(schema: Any, components: Mapping[str, Any], field: Any, value: Any) -> Any:
    objects = resolve(schema, components).get("anyOf", [schema])
    changed = [
        one if one.get("type") == "null" else insert_references(one, components, field.schema, value)
        for one in objects
    ]
    return changed[0] if len(changed) == 1 else {"anyOf": changed}


def _change_list(schema: Any, components: Mapping[str, Any], field: Any, value: Any) -> Any:
    resolved = resolve(schema, components)
    first = value[0] if isinstance(value, list) and value else None
    items = _change_field(resolved.get("items", {}), components, field.inner, first)
    return {**resolved, "maxItems": 0} if items is None else {**resolved, "items": items}


def _list_findings(stream: Iterable[Any]) -> Iterator[Finding]:
    for event in stream:
        if isinstance(event, events.NonFatalError):
            yield Finding("error", event.info.title, "", "", "", event.info.message)
        if not isinstance(event, events.ScenarioFinished):
            continue
        scenario = event.recorder
        for case_id, nodes in scenario.checks.items():
            for node in nodes:
                if node.failure_info is not None:
                    yield _describe(node, scenario.cases[case_id].value, scenario.interactions.get(case_id))


def _describe(node: Any, case: Any, interaction: Any) -> Finding:
    request = (
        f"{interaction.request.method} {interaction.request.uri}" if interaction else case.operation.label
    )
    answer = interaction and interaction.response
    shown = f"{answer.status_code} {answer.content[:300].decode(errors='replace')}" if answer else ""
    failure = node.failure_info.failure
    return Finding(
        node.name, failure.title, request, f"{case.media_type} {case.body!r:.600}", shown, failure.message
    )
