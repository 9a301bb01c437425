"""What a property means, and what its numbers mean: the `description` of each property.

A field says it with `describe` (web/http/fields.py). SENTENCES is for names that mean the same everywhere.
"""

from collections.abc import Mapping

from marshmallow.fields import Field

from web.http.fields import Choice

# By the name of the field.
SENTENCES: Mapping[str, str] = {}


def describe_field(_: object, field: Field[object], **__: object) -> dict[str, object]:
    """Return the description of a field: its sentence, and the names of its numbers."""
    if isinstance(field.parent, Field):
        # The list around this item has the sentence.
        return {}
    sentence = field.metadata.get("description") or SENTENCES.get(field.name, "")
    text = " ".join(filter(None, (sentence, list_numbers(field))))
    return {"description": text} if text else {}


def list_numbers(field: Field[object]) -> str:
    """Return the numbers of an enumeration with their names as text; "" for other fields."""
    if not isinstance(field, Choice):
        return ""
    return ", ".join(f"{number} = {name}" for number, name in field.names.items()) + "."
