"""What is wrong with a condition, in words."""

from typing import Any


class BadRule(ValueError):
    """A rule_json that cannot be stored: `field` is where, `problem` says what, for people."""

    def __init__(self, problem: str, field: str = "rule_json") -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


MAX_SHOWN_LENGTH = 100


def quote(value: Any) -> str:
    """A value from a stranger as an error may quote it: short, and never the inside of a list or object."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value[: MAX_SHOWN_LENGTH + 1]) if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "..."
