"""What people need to know to set up a monitoring tool."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guide:
    """`steps` are done in the tool, in order. `paste` is a text for it, in the language `language`.

    `entity` says what names the problem, and `notes` what else people should know.
    """

    steps: tuple[str, ...]
    entity: str
    paste: str = ""
    language: str = "json"
    notes: tuple[str, ...] = ()
