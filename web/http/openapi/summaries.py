"""Summaries of operations in plain English: "List maintenance windows", "Get an SLA"."""

# The operations of a resource -> the start of the summary, and whether it is about several objects.
VERBS = {
    "create": ("Create", False),
    "index": ("List", True),
    "retrieve": ("Get", False),
    "update": ("Update", False),
    "change": ("Update some fields of", False),
    "destroy": ("Delete", False),
}

# Words whose article does not follow from their first letter.
ARTICLES = {"SLA": "an", "user": "a"}


def summarize(verb: str, noun: str) -> str:
    """Return the summary of an operation on objects of this kind."""
    start, is_plural = VERBS[verb]
    return f"{start} {to_plural(noun) if is_plural else with_article(noun)}"


def with_article(noun: str) -> str:
    first = noun.partition(" ")[0]
    return f"{ARTICLES.get(first, 'an' if first[0] in 'aeio' else 'a')} {noun}"


def to_plural(noun: str) -> str:
    """Return the plural of a noun: "token of a user" becomes "tokens of a user"."""
    head, preposition, rest = noun.partition(" of ")
    plural = f"{head[:-1]}ies" if head.endswith("y") else f"{head}s"
    return f"{plural}{preposition}{rest}"


def split(text: str) -> tuple[str, str]:
    """Return the first sentence without its period, and the other sentences in one line."""
    summary, _, details = " ".join(text.split()).partition(". ")
    return summary.rstrip("."), details
