"""Render and parse the XML form of the interface's values: <root>, with <list-item> for the items of a list.

`parse(render(value))` returns the value, but XML has fewer types than JSON. All values except lists and
objects become text. None, "", [] and {} become an empty element, and `parse` reads this element as None. The
schemas read such values like those of JSON. One exception: an object without keys becomes null.
"""

import re
from datetime import UTC, datetime
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

# Characters that XML 1.0 cannot contain, not even escaped.
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# Parsers read every line end as \n unless it is escaped.
_ESCAPES = {"\r": "&#13;"}

# The name of the items of a list.
ITEM = "list-item"
# An element for a key that is not a valid XML name; its attribute `name` contains the key.
ENTRY = "entry"
# Maximum depth of the elements in a request. Bodies of the interface have six levels.
MAX_DEPTH = 64


def render(value: object) -> bytes:
    parts = ['<?xml version="1.0" encoding="utf-8"?>\n']
    _write_element("root", value, parts)
    return "".join(parts).encode()


def _write_element(name: str, value: object, parts: list[str]) -> None:
    opening = name
    if not _NAME.fullmatch(name):
        name, opening = ENTRY, f"{ENTRY} name={quoteattr(_INVALID.sub('', name))}"
    children = _get_children(value)
    text = _format(value) if children is None else ""
    if text != text.strip():
        # Without this attribute, a parser may drop blanks at the start and the end of a text.
        opening += ' xml:space="preserve"'
    parts.append(f"<{opening}>{escape(text, _ESCAPES)}")
    for key, inner in children or ():
        _write_element(key, inner, parts)
    parts.append(f"</{name}>")


def _get_children(value: object) -> list[tuple[str, object]] | None:
    """Return the names and values of the children; None if the value is neither a list nor an object."""
    if isinstance(value, dict):
        return [(str(key), inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(ITEM, inner) for inner in value]
    return None


def _format(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return _INVALID.sub("", str(value))


def parse(data: bytes, encoding: str | None = None) -> object:
    """Parse a document. Its root may have any name. Repeated elements become a list, like <list-item>s.

    `encoding` is the charset of the Content-Type. ValueError, LookupError or ExpatError if the document is
    not XML, has a document type (which could define entities), or is nested too deeply.
    """
    reader = _Reader()
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.CharacterDataHandler = reader.text
    parser.EndElementHandler = reader.end
    parser.Parse(data, True)
    return {} if reader.value is None else reader.value


class _Reader:
    """Build the value of each element when it ends. `value` is that of the last one, finally of the root."""

    def __init__(self) -> None:
        self.value: object = None
        self._open: list[_Element] = []

    def refuse(self, *_: object) -> None:
        raise ValueError("a document type is not allowed")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == MAX_DEPTH:
            raise ValueError("the elements are nested too deeply")
        key = attributes.get("name", name) if name == ENTRY else name
        self._open.append(_Element(key, attributes.get("xml:space") == "preserve"))

    def text(self, text: str) -> None:
        self._open[-1].texts.append(text)

    def end(self, _: str) -> None:
        ended = self._open.pop()
        self.value = ended.value()
        if self._open:
            self._open[-1].children.setdefault(ended.key, []).append(self.value)


class _Element:
    def __init__(self, key: str, keeps_blanks: bool) -> None:
        self.key = key
        self.texts: list[str] = []
        self.children: dict[str, list[object]] = {}
        self._keeps_blanks = keeps_blanks

    def value(self) -> object:
        text = "".join(self.texts)
        if not self.children:
            return (text if self._keeps_blanks else text.strip()) or None
        if text.strip():
            raise ValueError("text between elements")
        if set(self.children) == {ITEM}:
            return self.children[ITEM]
        return {key: values if len(values) > 1 else values[0] for key, values in self.children.items()}
