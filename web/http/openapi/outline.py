"""What the documentation page shows, read from the OpenAPI description: sections, operations, and fields."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

JSON = "application/json"

# Limits: the keys of the smallest and the largest value in a schema, and the word for what they count.
_RANGES = (
    ("min_length", "max_length", "character"),
    ("minimum", "maximum", ""),
    ("min_items", "max_items", "item"),
)


class _Schema(msgspec.Struct, frozen=True, rename="camel"):
    """A schema of the description: a reference, alternatives, or a type."""

    ref: str = msgspec.field(default="", name="$ref")
    all_of: list["_Schema"] = []
    any_of: list["_Schema"] = []
    one_of: list["_Schema"] = []
    type: str | list[str] = ""
    format: str = ""
    description: str = ""
    properties: dict[str, "_Schema"] = {}
    required: list[str] = []
    items: "_Schema | None" = None
    read_only: bool = False
    write_only: bool = False
    enum: list[str | int | None] = []
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    pattern: str = ""


class _Reference(msgspec.Struct, frozen=True):
    ref: str = msgspec.field(name="$ref")


class _Content(msgspec.Struct, frozen=True):
    schema: _Schema
    examples: dict[str, _Reference] = {}


class _Answer(msgspec.Struct, frozen=True):
    ref: str = msgspec.field(default="", name="$ref")
    description: str = ""
    content: dict[str, _Content] = {}


class _Body(msgspec.Struct, frozen=True):
    content: dict[str, _Content]


class _Parameter(msgspec.Struct, frozen=True, rename={"place": "in"}):
    name: str
    place: str
    schema: _Schema
    description: str = ""
    required: bool = False
    example: str = ""


class _Operation(msgspec.Struct, frozen=True, rename="camel"):
    operation_id: str
    summary: str
    description: str
    tags: list[str]
    parameters: list[_Parameter]
    responses: dict[str, _Answer]
    security: list[dict[str, list[str]]]
    request_body: _Body | None = None
    deprecated: bool = False


class _Example(msgspec.Struct, frozen=True):
    value: object


class _Components(msgspec.Struct, frozen=True):
    schemas: dict[str, _Schema]
    responses: dict[str, _Answer]
    examples: dict[str, _Example]


class _Info(msgspec.Struct, frozen=True):
    version: str = msgspec.field(name="x-tocsin-version")
    description: str


class _Tag(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


class _Description(msgspec.Struct, frozen=True):
    info: _Info
    tags: list[_Tag]
    paths: dict[str, dict[str, _Operation]]
    components: _Components


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a body or answer, or a parameter. `fields` are the members of its objects."""

    name: str
    type: str
    text: str
    limits: str
    example: str
    is_required: bool = False
    fields: "tuple[Field, ...]" = ()


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    method: str
    path: str
    summary: str
    text: str
    is_deprecated: bool
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    # An example of a request, as a command.
    command: str
    status: str
    # Empty if the answer has no body.
    answer_type: str
    answer_text: str
    answer: tuple[Field, ...]
    # The statuses of refusals.
    refusals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    text: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    version: str
    text: str
    sections: tuple[Section, ...]
    # Status of a refusal -> what it means.
    refusals: Mapping[str, str]


def build(description: bytes) -> Outline:
    """Build the outline of an OpenAPI description in JSON."""
    read = msgspec.json.decode(description, type=_Description)
    reader = _Reader(read.components)
    operations = [
        (operation, reader.read_operation(path, method, operation))
        for path, methods in read.paths.items()
        for method, operation in methods.items()
    ]
    sections = tuple(
        Section(
            tag.name, tag.description, tuple(built for each, built in operations if tag.name in each.tags)
        )
        for tag in read.tags
    )
    refusals = {
        status: reader.find_answer(answer).description
        for operation, _ in operations
        for status, answer in operation.responses.items()
        if answer.ref
    }
    return Outline(read.info.version, read.info.description, sections, dict(sorted(refusals.items())))


class _Reader:
    """Reads operations and follows their references."""

    def __init__(self, components: _Components) -> None:
        self._components = components

    def read_operation(self, path: str, method: str, operation: _Operation) -> Operation:
        body = operation.request_body.content[JSON] if operation.request_body else None
        sample = self._find_example(body) if body else None
        sent = self._shorten(body, sample)
        status = next(status for status, answer in operation.responses.items() if not answer.ref)
        answer = operation.responses[status]
        shown = answer.content.get(JSON)
        return Operation(
            name=operation.operation_id,
            method=method.upper(),
            path=path,
            summary=operation.summary,
            text=operation.description,
            is_deprecated=operation.deprecated,
            parameters=tuple(self._read_parameter(parameter) for parameter in operation.parameters),
            body=self._list_fields(body.schema, sample, for_request=True) if body else (),
            command=build_command(method.upper(), path, bool(operation.security), sent),
            status=status,
            answer_type=self._describe_type(shown.schema) if shown else "",
            answer_text=answer.description,
            answer=self._list_fields(shown.schema, self._find_example(shown)) if shown else (),
            refusals=tuple(sorted(status for status, answer in operation.responses.items() if answer.ref)),
        )

    def find_answer(self, answer: _Answer) -> _Answer:
        return self._components.responses[_get_name(answer.ref)] if answer.ref else answer

    def _read_parameter(self, parameter: _Parameter) -> Field:
        return Field(
            parameter.name,
            f"{self._describe_type(parameter.schema)}, in the {parameter.place}",
            parameter.description,
            _describe_limits(parameter.schema),
            parameter.example,
            parameter.required,
        )

    def _find_example(self, content: _Content) -> object:
        name = next(iter(content.examples.values())).ref
        return self._components.examples[_get_name(name)].value

    def _shorten(self, content: _Content | None, sample: object) -> object:
        """Return the required members of an example and its name, or its first member if there are none."""
        if content is None or not isinstance(sample, dict):
            return sample
        names = {*self._resolve(content.schema).required, "name"}
        return {name: sample[name] for name in sample if name in names} or dict([*sample.items()][:1])

    def _list_fields(
        self, schema: _Schema, example: object, *, for_request: bool = False, within: tuple[str, ...] = ()
    ) -> tuple[Field, ...]:
        """List the members of an object, or of the objects in a list.

        `within` are the names of the schemas around it: a schema inside itself is not repeated.
        """
        found = self._find_object(schema)
        if isinstance(example, list):
            example = example[0] if example else None
        members = example if isinstance(example, dict) else {}
        if found.ref in within:
            return ()
        return tuple(
            self._read_field(name, member, members.get(name), for_request, (*within, found.ref), found)
            for name, member in self._resolve(found).properties.items()
            if not (member.read_only if for_request else member.write_only)
        )

    def _read_field(
        self,
        name: str,
        schema: _Schema,
        example: object,
        for_request: bool,
        within: tuple[str, ...],
        parent: _Schema,
    ) -> Field:
        fields = self._list_fields(schema, example, for_request=for_request, within=within)
        return Field(
            name,
            self._describe_type(schema),
            schema.description,
            _describe_limits(schema) if for_request else "",
            "" if fields or example is None else json.dumps(example, ensure_ascii=False),
            for_request and name in self._resolve(parent).required,
            fields,
        )

    def _find_object(self, schema: _Schema) -> _Schema:
        """Return the schema of the objects that a schema allows, as a reference if it is one."""
        for inner in (*schema.all_of, *schema.any_of, *schema.one_of):
            return self._find_object(inner)
        return self._find_object(schema.items) if schema.items else schema

    def _resolve(self, schema: _Schema) -> _Schema:
        schema = self._find_object(schema)
        return self._components.schemas[_get_name(schema.ref)] if schema.ref else schema

    def _describe_type(self, schema: _Schema) -> str:
        """Describe a type in words: "string (uuid) or null", "list of objects"."""
        if schema.all_of:
            return self._describe_type(schema.all_of[0])
        if alternatives := (*schema.any_of, *schema.one_of):
            return " or ".join(map(self._describe_type, alternatives))
        if schema.items:
            types = [f"list of {_to_plural(self._describe_type(schema.items))}"]
        else:
            types = [_list_types(self._resolve(schema))[0]]
            types[0] += f" ({schema.format})" if schema.format else ""
        return " or ".join((*types, *_list_types(schema)[1:]))


def build_command(method: str, path: str, needs_token: bool, body: object) -> str:
    """Build the command that sends a request. Parameters in the path become variables of the shell."""
    url = re.sub(r"\{(\w+)\}", lambda match: f"${match[1].upper()}", path)
    start = "curl" if method == "GET" or (method == "POST" and body is not None) else f"curl -X {method}"
    parts = [f'{start} "$URL{url}"']
    if needs_token:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if body is not None:
        parts.append("-H 'Content-Type: application/json'")
        parts.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    return " \\\n  ".join(parts)


def _list_types(schema: _Schema) -> list[str]:
    return [schema.type or "object"] if isinstance(schema.type, str) else schema.type


def _to_plural(type_: str) -> str:
    first, space, rest = type_.partition(" ")
    return f"{first}s{space}{rest}"


def _get_name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _describe_limits(schema: _Schema) -> str:
    """Describe the limits of a value in words: "1 to 255 characters", "one of 1, 2, 3"."""
    return "; ".join(_list_limits(schema))


def _list_limits(schema: _Schema) -> Iterable[str]:
    for smallest, largest, unit in _RANGES:
        yield from _describe_range(getattr(schema, smallest), getattr(schema, largest), unit)
    if schema.pattern:
        yield f"pattern {schema.pattern}"
    enum = schema.enum or (schema.items.enum if schema.items else [])
    # A sentence can name the values: "1 = e-mail, 2 = SMS".
    if enum and f"{enum[0]} = " not in schema.description:
        yield f"one of {', '.join(map(str, enum))}"


def _describe_range(smallest: float | None, largest: float | None, unit: str) -> Iterable[str]:
    if smallest is None and largest is None:
        return
    if smallest is None or (unit and not smallest):
        text = f"at most {largest:.15g}"
    elif largest is None:
        text = f"at least {smallest:.15g}"
    else:
        text = f"{smallest:.15g} to {largest:.15g}"
    last = smallest if largest is None else largest
    yield f"{text} {unit}{'' if last == 1 else 's'}" if unit else text
