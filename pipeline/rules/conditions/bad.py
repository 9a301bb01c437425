"""The error for a bad condition, in words for people."""


class BadRule(ValueError):
    """A rule_json cannot be stored. `field` is the place, `problem` says what is wrong, for people."""

    def __init__(self, problem: str, field: str = "rule_json") -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


MAX_SHOWN_LENGTH = 100


def quote(value: object) -> str:
    """Return a value for the text of an error: short, and without the contents of a list or object."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value[: MAX_SHOWN_LENGTH + 1]) if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "..."
