"""XML as the other form of the same values: <root>, and <list-item> for what stands in a list."""

import re
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import xmltodict

# What XML 1.0 cannot hold, not even escaped.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# How many levels an element of a request may be deep; ours have four.
DEEPEST = 64


def render(value: Any) -> bytes:
    parts = ['<?xml version="1.0" encoding="utf-8"?>\n']
    _element("root", value, parts)
    return "".join(parts).encode()


def _element(name: str, value: Any, parts: list[str]) -> None:
    opening = name
    if not _NAME.fullmatch(name):
        # A key of somebody's payload that is no XML name stands in an attribute instead.
        name, opening = "entry", f"entry name={quoteattr(_UNFIT.sub('', name))}"
    parts.append(f"<{opening}>")
    if isinstance(value, dict):
        for key, inner in value.items():
            _element(str(key), inner, parts)
    elif isinstance(value, list | tuple):
        for inner in value:
            _element("list-item", inner, parts)
    else:
        parts.append(_text(value))
    parts.append(f"</{name}>")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return escape(_UNFIT.sub("", str(value)))


def parse(data: bytes) -> Any:
    """The values of a document, whatever its root is called; texts stay texts, empty elements are None.

    ValueError or ExpatError when it is no XML, declares entities, or is too deep.
    """
    document = xmltodict.parse(data, xml_attribs=False, disable_entities=True, force_list=("list-item",))
    (root,) = document.values()
    return _plain(root, 0) if root is not None else {}


def _plain(node: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("too deep")
    if isinstance(node, list):
        return [_plain(inner, depth + 1) for inner in node]
    if not isinstance(node, dict):
        return node
    if set(node) == {"list-item"}:
        return _plain(node["list-item"], depth + 1)
    return {key: _plain(inner, depth + 1) for key, inner in node.items()}
