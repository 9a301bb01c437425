"""Translate the query builder's tree of groups and rules to JSON Logic.

A rule of the tree with an unknown field, operator or value must not make the condition match. Such a rule
counts as false. Inside a `not`, it counts as true, so that the `not` gives false. A note says so. A group
without children is true; a rule without field and operator is ignored.
"""

from collections.abc import Iterator, Mapping

from pipeline.rules.conditions import catalogue, guards, literals, paths
from pipeline.rules.conditions.bad import BadRule, quote
from pipeline.rules.conditions.catalogue import Logic, Operator

GROUP, RULE = "group", "rule"

# The builder has AND, OR and a `not`; its menu shows the others by name.
CONJUNCTIONS = {
    "AND": ("and", False),
    "OR": ("or", False),
    "NOT": ("and", True),
    "NAND": ("and", True),
    "NOR": ("or", True),
}


class UnknownElement(ValueError):
    """A rule of the tree contains something unknown."""


def is_tree(value: Mapping[str, object]) -> bool:
    """Return whether a JSON object is a tree; otherwise it is JSON Logic."""
    return "children1" in value or value.get("type") in (GROUP, RULE)


class Translator:
    """The translation of one tree to JSON Logic. `notes` collects the unknown parts."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._nodes = 0

    def translate(self, node: object, depth: int = 1, negated: bool = False) -> Logic:
        """Return a node as JSON Logic.

        Raises BadRule for a tree that is too large or malformed, and for a pattern that cannot be used.
        `negated`: a `not` around the node reverses its verdict.
        """
        self._count(depth)
        if not isinstance(node, Mapping):
            raise BadRule("each node of the tree must be an object")
        kind = node.get("type")
        try:
            if kind == RULE:
                return _translate_leaf(_get_properties(node))
            if kind == GROUP or (kind is None and "children1" in node):
                return self._translate_group(node, depth, negated)
            raise UnknownElement(f"a node of type {quote(kind)} is not known")
        except UnknownElement as unknown:
            self.notes.append(str(unknown))
            return negated

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth > guards.MAX_DEPTH:
            raise BadRule(f"groups may be nested {guards.MAX_DEPTH} deep")
        if self._nodes > guards.MAX_NODES:
            raise BadRule(f"a condition may have {guards.MAX_NODES} groups and rules")

    def _translate_group(self, node: Mapping[str, object], depth: int, negated: bool) -> Logic:
        operator, is_negated = _get_conjunction(_get_properties(node))
        inner = [
            self.translate(child, depth + 1, negated != is_negated)
            for child in _get_children(node)
            if not _is_blank(child)
        ]
        if not inner:
            return True
        return {"!": [{operator: inner}]} if is_negated else {operator: inner}


def _get_properties(node: Mapping[str, object]) -> Mapping[str, object]:
    properties = node.get("properties")
    if properties is None:
        return {}
    if not isinstance(properties, Mapping):
        raise BadRule("properties must be an object")
    return properties


def _get_children(node: Mapping[str, object]) -> Iterator[object]:
    children = node.get("children1")
    if isinstance(children, Mapping):
        return iter(children.values())
    if isinstance(children, list | None):
        return iter(children or ())
    raise BadRule("children1 must be an object or an array")


def _get_conjunction(properties: Mapping[str, object]) -> tuple[str, bool]:
    name = properties.get("conjunction")
    known = CONJUNCTIONS.get(str(name or "AND").strip().upper())
    if known is None:
        raise UnknownElement(f"the conjunction {quote(name)} is not known")
    operator, is_negated = known
    return operator, is_negated != (properties.get("not") is True)


def _is_blank(node: object) -> bool:
    """Return whether the node is an empty line of the builder: a rule with neither field nor operator."""
    if not isinstance(node, Mapping) or node.get("type") != RULE:
        return False
    properties = _get_properties(node)
    return not properties.get("field") and not properties.get("operator")


def _translate_leaf(properties: Mapping[str, object]) -> Logic:
    field = properties.get("field")
    operator = properties.get("operator")
    if not isinstance(field, str):
        raise UnknownElement(f"the field {quote(field)} is not known")
    if not isinstance(operator, str):
        raise UnknownElement(f"the operator {quote(operator)} of {quote(field)} is not known")
    sources = properties.get("valueSrc") or []
    if any(source not in ("value", None) for source in (sources if isinstance(sources, list) else [sources])):
        raise UnknownElement(f"{quote(field)}: only plain values can be compared")
    name, values = catalogue.normalize_field(field), _flatten(properties.get("value"))
    if name == catalogue.PAYLOAD:
        return _translate_payload(operator.strip().lower(), values, properties.get("operatorOptions"))
    known = catalogue.FIELDS.get(name)
    if known is None:
        raise UnknownElement(f"the field {quote(field)} is not known")
    return _build_comparison(
        field, _find_operator(known.operators, operator, field), {"var": name}, values, known.read
    )


def _flatten(value: object) -> list[object]:
    """Return a flat list: multiple choices come as a list inside the list of values."""
    items = value if isinstance(value, list) else [value]
    return [inner for item in items for inner in (item if isinstance(item, list) else [item])]


def _find_operator(operators: Mapping[str, Operator], name: str, field: str) -> Operator:
    known = operators.get(name.strip().lower())
    if known is None:
        raise UnknownElement(f"the operator {quote(name)} of {quote(field)} is not known")
    return known


def _build_comparison(
    field: str, operator: Operator, read: Logic, values: list[object], reader: literals.Reader
) -> Logic:
    needed = values if operator.value_count is None else values[: operator.value_count]
    if len(needed) < (operator.value_count or 0) or (operator.value_count is None and not needed):
        raise UnknownElement(f"{quote(field)}: a value is missing")
    try:
        parsed = [reader(value) for value in needed]
    except ValueError as error:
        raise UnknownElement(f"{quote(field)}: {error}") from None
    if operator.build is catalogue.MATCHES.build:
        guards.check_pattern(str(parsed[0]))
    return operator.build_logic(read, parsed)


def _translate_payload(operator: str, values: list[object], options: object) -> Logic:
    found = {"val": ["found", _get_path(values)]}
    if "key" in operator:
        return {"!": [found]} if "not" in operator else {"!!": [found]}
    operator_name = options.get("ploperator") if isinstance(options, Mapping) else None
    if operator_name is None:
        operator_name = "equal" if operator == catalogue.PAYLOAD_SEARCH else operator
    known = _find_operator(catalogue.PAYLOAD_OPERATORS, str(operator_name), catalogue.PAYLOAD)
    # Any value at the path can match. A negative operator requires that none of them matches.
    positive = Operator(known.build, known.value_count)
    reader = literals.read_text
    any_match = {
        "some": [found, _build_comparison(catalogue.PAYLOAD, positive, {"var": ""}, values[1:], reader)]
    }
    return {"!": [any_match]} if known.negated else any_match


def _get_path(values: list[object]) -> str:
    path = values[0] if values else None
    if not isinstance(path, str) or not path.strip():
        raise UnknownElement("payload: a path is missing")
    try:
        paths.parse(path)
    except paths.BadPath as error:
        raise UnknownElement(f"payload: {error}") from None
    return path
