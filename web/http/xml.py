"""XML as the other form of the same values: <root>, and <list-item> for what stands in a list.

`parse(render(value))` is the value again, in so far as XML can say it: what is neither a list nor an object
is text, and "", [] and {} are an empty element like None, and read as None. The schemas make the same of
these as of their like in JSON, but for an object without any key, which is nothing here.
"""

import re
from datetime import UTC, datetime
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

# What XML 1.0 cannot hold, not even escaped.
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# A line's end is read as \n, however it was written, unless it is escaped.
_ESCAPES = {"\r": "&#13;"}

# What stands in a list.
ITEM = "list-item"
# A key that is no XML name stands in an attribute of this element.
ENTRY = "entry"
# How many levels an element of a request may be deep; ours have six.
MAX_DEPTH = 64


def render(value: Any) -> bytes:
    parts = ['<?xml version="1.0" encoding="utf-8"?>\n']
    _write_element("root", value, parts)
    return "".join(parts).encode()


def _write_element(name: str, value: Any, parts: list[str]) -> None:
    opening = name
    if not _NAME.fullmatch(name):
        name, opening = ENTRY, f"{ENTRY} name={quoteattr(_INVALID.sub('', name))}"
    children = _get_children(value)
    text = _format(value) if children is None else ""
    if text != text.strip():
        # Blanks at the ends of a text are otherwise its layout.
        opening += ' xml:space="preserve"'
    parts.append(f"<{opening}>{escape(text, _ESCAPES)}")
    for key, inner in children or ():
        _write_element(key, inner, parts)
    parts.append(f"</{name}>")


def _get_children(value: Any) -> list[tuple[str, Any]] | None:
    """What stands in a list or an object; None for what is neither."""
    if isinstance(value, dict):
        return [(str(key), inner) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return [(ITEM, inner) for inner in value]
    return None


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return _INVALID.sub("", str(value))


def parse(data: bytes, encoding: str | None = None) -> Any:
    """The values of a document, whatever its root is called. Repeated elements are a list, like <list-item>s.

    `encoding` is what the sender said outside the document. ValueError, LookupError or ExpatError when it is
    no XML, has a document type (and so entities of its own), or is too deep.
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
    """Makes values of elements as they end; `value` is that of the last one, at the end the root's."""

    def __init__(self) -> None:
        self.value: Any = None
        self._open: list[_Element] = []

    def refuse(self, *_: Any) -> None:
        raise ValueError("a document type is not taken")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == MAX_DEPTH:
            raise ValueError("too deep")
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
        self.children: dict[str, list[Any]] = {}
        self._keeps_blanks = keeps_blanks

    def value(self) -> Any:
        text = "".join(self.texts)
        if not self.children:
            return (text if self._keeps_blanks else text.strip()) or None
        if text.strip():
            raise ValueError("text between elements")
        if set(self.children) == {ITEM}:
            return self.children[ITEM]
        return {key: values if len(values) > 1 else values[0] for key, values in self.children.items()}
