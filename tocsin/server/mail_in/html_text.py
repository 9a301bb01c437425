"""Return the text of HTML. Nothing is fetched and nothing runs: the HTML is read once, from front to back."""

import re
from html import unescape

# More HTML than this is not read.
MAX_CHARS = 128 * 1024

# A match ends before the next "<", so the time is proportional to the length, whatever the HTML contains.
_TAG = re.compile(r"<!--(?:-?>)?|--!?>|<(/?)([a-z][a-z0-9]*)[^<>]*>|<[!?][^<>]*>", re.IGNORECASE)
# Python refuses to read numbers of more than 4,300 digits. No character has such a number.
_LONG_NUMBER = re.compile(r"&#\d{1000,};?")
_BLANKS = re.compile(r"\s+")
# Of a head, people see what stands in none of these: browsers let the body begin there.
HIDDEN = {"script", "style", "template", "title"}
_COMMENT_ENDS = ("-->", "--!>")
BREAKS = {"br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "table", "tr", "ul"}
CELLS = {"td", "th"}


def read_html(html: str) -> str:
    """Return the text that people see, with a line for each paragraph, row and item."""
    html = html[:MAX_CHARS]
    found: list[str] = []
    # The mark that ends what is not shown; "" where the text is shown.
    until, start = "", 0
    for tag in _TAG.finditer(html):
        name = f"{tag.group(1) or ''}{(tag.group(2) or tag.group()).lower()}"
        if until:
            is_end = tag.group().endswith(_COMMENT_ENDS) if until == _COMMENT_ENDS[0] else name == until
            until = "" if is_end else until
            start = tag.end()
            continue
        found.append(_BLANKS.sub(" ", html[start : tag.start()]))
        start = tag.end()
        if name == "<!--":
            until = _COMMENT_ENDS[0]
        elif name in HIDDEN:
            until = f"/{name}"
        elif name.removeprefix("/") in BREAKS:
            found.append("\n")
        elif name in CELLS:
            found.append(" ")
    if not until:
        found.append(_BLANKS.sub(" ", html[start:]))
    lines = (
        " ".join(line.split()) for line in unescape(_LONG_NUMBER.sub("\ufffd", "".join(found))).split("\n")
    )
    return "\n".join(line for line in lines if line)
