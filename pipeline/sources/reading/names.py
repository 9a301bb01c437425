"""Read fields whose names people write in snake_case or in camelCase."""

import re

from pipeline.sources.reading.fields import Fields

# Before a capital after a small letter or a digit.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def to_snake_case(data: Fields) -> Fields:
    """Return the fields of an object by their names in snake_case. A name that is so already comes first."""
    renamed = {_HUMP.sub("_", name).lower(): value for name, value in data.value.items()}
    return Fields({**renamed, **data.value})
