"""Leave out the placeholders of templates that a tool did not replace, such as `{label}` or `*monitorID*`."""

import re

from pipeline.sources.reading.fields import Fields


def without_placeholders(data: Fields, placeholder: re.Pattern[str]) -> Fields:
    """Return the fields of an object whose values are no placeholder: the tool had no value for these."""
    return Fields({name: value for name, value in data.value.items() if not _is_left(value, placeholder)})


def _is_left(value: object, placeholder: re.Pattern[str]) -> bool:
    return isinstance(value, str) and placeholder.fullmatch(value.strip()) is not None
