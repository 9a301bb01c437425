"""Shorten the content of a message to a number of characters, the most important texts first.

Texts are shortened before they are escaped, so no escape sequence is cut. Links are never cut: a link that
does not fit is left out.
"""

from dataclasses import fields

from models.domain.values import replace
from pipeline.messages.content import KeyFacts, LabelledLink, LabelledText, MessageContent

# The title keeps this many characters even if the first link then does not fit.
SHORT_TITLE = 60
ELLIPSIS = "..."
# The facts that may be shortened.
_DIVISIBLE = {"what", "where", "why", "who_else"}


class _Budget:
    """Counts the characters that are left."""

    def __init__(self, left: int) -> None:
        self.left = max(left, 0)

    def take(self, text: str) -> str:
        """Take as much of the text as fits."""
        taken = shorten_text(text, self.left)
        self.left -= len(taken)
        return taken

    def fits(self, *texts: str) -> bool:
        """Take all of these texts, or nothing."""
        length = sum(map(len, texts))
        if length > self.left:
            return False
        self.left -= length
        return True


def shorten_text(text: str, limit: int) -> str:
    """Return at most `limit` characters of the text. A shortened text ends with an ellipsis."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - len(ELLIPSIS)].rstrip()}{ELLIPSIS}" if limit > len(ELLIPSIS) else ""


def count_characters(content: MessageContent) -> int:
    """Return a number with which shorten_content() returns all of the content."""
    links = (len(link.text) + len(link.url) + len(link.note) for link in content.links)
    details = (len(detail.label) + len(detail.text) for detail in content.details)
    facts = (len(getattr(content.facts, field.name)) for field in fields(KeyFacts))
    texts = (content.title, content.heading, content.closing, content.foot, *content.lines)
    return sum(map(len, texts)) + sum(links) + sum(details) + sum(facts)


def shorten_content(content: MessageContent, limit: int, max_links: int | None = None) -> MessageContent:
    """Return content whose texts have at most `limit` characters, with at most `max_links` links.

    First the beginning of the title, then the first link, the title, lines, details in their order, other
    links, closing and foot. `facts` repeat the details, so they count only for themselves.
    """
    budget = _Budget(limit)
    reserved = min(len(content.title), SHORT_TITLE, budget.left)
    budget.left -= reserved
    first = content.links[:1]
    # A button opens the same page as its link. The words beside it explain the link, so they go first.
    kept = [_keep_link(first[0], budget)] if first and budget.fits(first[0].url) else []
    budget.left += reserved
    title = budget.take(content.title)
    facts = _shorten_facts(content.facts, budget.left, keeps_link=bool(kept) or not first)
    lines = tuple(budget.take(text) for text in content.lines)
    details = tuple(
        LabelledText(detail.label, text)
        for detail in content.details
        if budget.fits(detail.label) and (text := budget.take(detail.text))
    )
    for link in content.links[1:max_links]:
        if not budget.fits(link.url, link.text, link.note):
            break
        kept.append(link)
    left_out = sum(map(_is_incident, content.links)) - sum(map(_is_incident, content.links[: len(kept)]))
    closing = f"and {left_out} more in Tocsin" if left_out and kept else budget.take(content.closing)
    is_heading_shortened = content.heading and content.heading not in lines
    return replace(
        content,
        title=title,
        heading=lines[0] if is_heading_shortened and lines else content.heading,
        lines=tuple(filter(None, lines)),
        details=details,
        links=tuple(kept),
        closing=closing,
        foot=content.foot if budget.fits(content.foot) else "",
        facts=facts,
    )


def _is_incident(link: LabelledLink) -> bool:
    """Return whether a link leads to an incident. That of an incident in a list has a note."""
    return bool(link.actions or link.note)


def _keep_link(link: LabelledLink, budget: _Budget) -> LabelledLink:
    """Return the first link, whose address fits, with the texts that fit."""
    text = link.text if budget.fits(link.text) else (link.button if budget.fits(link.button) else "")
    return replace(link, text=text, note=link.note if budget.fits(link.note) else "")


def _shorten_facts(facts: KeyFacts, limit: int, *, keeps_link: bool) -> KeyFacts:
    """Shorten names and reasons. A time or a step is complete or left out."""
    budget = _Budget(limit)
    texts = {
        field.name: budget.take(text) if field.name in _DIVISIBLE or budget.fits(text) else ""
        for field in fields(KeyFacts)[:-1]
        for text in [getattr(facts, field.name)]
    }
    return KeyFacts(**texts, link=facts.link if keeps_link else "")
