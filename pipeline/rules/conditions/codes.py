"""JSON Logic that compares fields with coded values: `{"==": [{"var": "alert_type"}, "critical"]}`.

People write "critical", 3 or "3"; a subject contains "3". A compared value is converted to the form of the
subject, with the same table as for the query builder.
"""

from collections.abc import Mapping

from pipeline.rules.conditions import catalogue, engine
from pipeline.rules.conditions.catalogue import Field, Logic
from pipeline.rules.conditions.subject import Variable, get_canonical_name

_COMPARISONS = frozenset({"==", "===", "!=", "!==", "<", "<=", ">", ">=", "in"})


def get_variable(node: Logic) -> Variable | None:
    """Return the variable that a node reads, or None.

    The node must read one variable with a constant name.
    """
    if not isinstance(node, Mapping) or len(node) != 1:
        return None
    operator, name = next(iter(node.items()))
    if operator == "var":
        name = name[0] if isinstance(name, list) and name else name
        return tuple(name.split(".")) if isinstance(name, str) and name else None
    if operator != "val":
        return None
    steps = name if isinstance(name, list) else [name]
    return tuple(steps) if steps and all(isinstance(step, str) for step in steps) else None


def convert_codes(logic: Logic) -> Logic:
    """Return the logic with coded values in the form of the subject.

    A value that cannot be read is unchanged.
    """
    if isinstance(logic, list):
        return [convert_codes(each) for each in logic]
    if not isinstance(logic, Mapping):
        return logic
    return {operator: _convert_arguments(operator, arguments) for operator, arguments in logic.items()}


def _convert_iterator(arguments: Logic) -> Logic:
    """Convert all parts except the one that runs for each item: that part does not read the alert."""
    if not isinstance(arguments, list):
        return arguments
    return [each if index == 1 else convert_codes(each) for index, each in enumerate(arguments)]


def _convert_arguments(operator: str, arguments: Logic) -> Logic:
    if operator in engine.ITERATORS:
        return _convert_iterator(arguments)
    inner = convert_codes(arguments)
    if operator not in _COMPARISONS or not isinstance(inner, list):
        return inner
    field = next((found for found in map(_find_coded_field, inner) if found is not None), None)
    return inner if field is None else [_convert_value(each, field) for each in inner]


def _find_coded_field(node: Logic) -> Field | None:
    variable = get_variable(node)
    if variable is None:
        return None
    name = get_canonical_name(variable)
    field = catalogue.FIELDS.get(name[0]) if len(name) == 1 else None
    return field if field is not None and field.coded else None


def _convert_value(value: Logic, field: Field) -> Logic:
    if isinstance(value, list):
        return [_convert_value(each, field) for each in value]
    if isinstance(value, Mapping):
        return value
    try:
        return field.read(value)
    except ValueError:
        return value
