"""What a message says, in plain words for a person who was just woken up. Each channel formats it.

Texts come from unknown senders, so those who build a content clean and shorten each of them again.
"""

from dataclasses import dataclass

from models.domain.enums import IncidentStatus
from pipeline.sources.reading.cleaning import clean_line

# Mail programs on phones show about 40 characters of a subject, others about 100.
MAX_TITLE = 120
MAX_NAME = 40
# The actions that a message offers for an incident: the new status, and the statuses in which the action is
# offered.
ACTIONS = {
    "acknowledge": (IncidentStatus.ACKNOWLEDGED, {IncidentStatus.TRIGGERED}),
    "resolve": (IncidentStatus.RESOLVED, {IncidentStatus.TRIGGERED, IncidentStatus.ACKNOWLEDGED}),
}
# The digit for each action, where a person can only press or send one.
CHOICES = {"1": "acknowledge", "2": "resolve"}


@dataclass(frozen=True, slots=True)
class Recipient:
    """The reader of the message. `zone` is the name of a time zone, as the person gave it."""

    name: str
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A fact with its label, for example "Where"."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A button: an entry of ACTIONS, and the token that names the incident and the user.

    `notification` is the row number of the notification, for a channel whose provider says who pressed it.
    """

    name: str
    token: str
    notification: int = 0


@dataclass(frozen=True, slots=True)
class LabelledLink:
    """A link with its text. In a message about several incidents each has one, with its details in `note`."""

    text: str
    url: str
    note: str = ""
    actions: tuple[Action, ...] = ()
    # What a button with this link says, where the text is too long.
    button: str = ""


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """The facts of an incident in words, for templates. What is not known is empty.

    `what` is never empty in a message about incidents; in another message all are. In a message about several
    incidents, only `what`, `where` and `link` (of the first incident) are set.
    """

    what: str = ""
    where: str = ""
    how_bad: str = ""
    since: str = ""
    since_short: str = ""
    why: str = ""
    who_else: str = ""
    next_step: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class MessageContent:
    """What a message says. Each channel formats it: as an e-mail, as 160 characters, or with buttons.

    `title` says in one line what happened; a channel with little space can send only the title. `lines`,
    `details`, `links`, `closing` and `foot` follow in this order. All texts are clean; only `closing` and
    `foot` have line breaks.

    - `subject`: the subject of a mail, the same in all mails about an incident, so that mail programs show
      them as one thread. Empty: the title.
    - `state`: what the title says more than the subject, for mails; empty: nothing.
    - `heading`: the one of `lines` that is a heading; empty if none is.
    - `threads`: the unique_ids of the incidents to which the message belongs.
    - `is_urgent`: an incident of high urgency needs the reader.
    - `facts`: the same facts as in `details`, by name.
    """

    title: str
    lines: tuple[str, ...]
    details: tuple[LabelledText, ...] = ()
    links: tuple[LabelledLink, ...] = ()
    closing: str = ""
    foot: str = ""
    heading: str = ""
    threads: tuple[str, ...] = ()
    is_urgent: bool = False
    facts: KeyFacts = KeyFacts()
    subject: str = ""
    state: str = ""


def list_offered(content: MessageContent) -> list[str]:
    """Return the names of the actions that a message offers for any of its incidents."""
    names = {action.name for link in content.links for action in link.actions}
    return [name for name in ACTIONS if name in names]


def write_plain_text(content: MessageContent) -> str:
    """Return the content without its title as plain text, in paragraphs that a fixed-width font aligns."""
    width = max([8, *(len(detail.label) + 1 for detail in content.details)])
    paragraphs = [
        content.state,
        "\n".join(content.lines),
        "\n".join(f"{f'{detail.label}:':{width}} {detail.text}" for detail in content.details),
        *("\n".join(_list_lines(link)) for link in content.links),
    ]
    return "\n\n".join(filter(None, [*paragraphs, content.closing, content.foot])) + "\n"


def _list_lines(link: LabelledLink) -> list[str]:
    return [link.text, f"  {link.note}", f"  {link.url}"] if link.note else [link.text, link.url]


def shorten_clean(text: str, limit: int = 1_000) -> str:
    """Return one line of at most `limit` characters. A shortened text ends with "..."."""
    clean = clean_line(text, limit + 1)
    return clean if len(clean) <= limit else f"{clean[: limit - 3].rstrip()}..."


def get_service_name(service: str | None) -> str:
    return shorten_clean(service or "", 200) or "(service deleted)"
