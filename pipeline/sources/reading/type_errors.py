"""Say in words for people what is wrong with the type of a field. The reader of JSON uses names of types."""

import re

NAMES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "object": "an object",
    "array": "a list",
}
OTHER = "has a value of another type"
_EXPECTED = re.compile(r"Expected `([^`]+)`(?: of length ([<>]=) (\d+))?(?:, got `([^`]+)`)?")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")
_PATH = re.compile(r" - at `\$(.*)`$", re.DOTALL)
# A place in a list, or a field of an object whose name the reader does not say.
_PLACE = re.compile(r"\[(\d+)\]")
_UNNAMED = "[...]"


def describe_type_error(error: str) -> tuple[str, str]:
    """Return the field ("" is the body itself) and its problem, from "Expected `str` - at `$.urls[0]`".

    The field is a path with dots: `urls.0`.
    """
    path = _PATH.search(error)
    return _name_field(path[1] if path else ""), _describe(error)


def _name_field(path: str) -> str:
    return _PLACE.sub(r".\1", path.replace(_UNNAMED, "")).strip(".")


def _describe(error: str) -> str:
    missing = _MISSING.match(error)
    if missing is not None:
        return f"must have the field {missing[1]}"
    found = _EXPECTED.match(error)
    if found is None:
        return OTHER
    types, comparison, length, sent = found.groups()
    if length is not None:
        bound = f"at {'most' if comparison == '<=' else 'least'} {int(length):,}"
        return f"must have {bound} {'item' if length == '1' else 'items'}"
    names = [NAMES.get(name, name) for name in types.split(" | ") if name != "null"]
    expected = " or ".join(filter(None, [", ".join(names[:-1]), names[-1] if names else NAMES["null"]]))
    return f"must be {expected}, not {NAMES.get(sent, sent)}" if sent else f"must be {expected}"
