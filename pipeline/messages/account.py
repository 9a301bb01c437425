"""Build messages about the account of a person: tests, codes, sign-in links, new browsers and invitations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from models.domain.enums import MessageKind
from pipeline.messages.content import (
    MAX_NAME,
    LabelledLink,
    LabelledText,
    MessageContent,
    Recipient,
    shorten_clean,
)
from pipeline.messages.incidents import MAX_LISTED
from pipeline.messages.times import format_time


@dataclass(frozen=True, slots=True)
class InvitationDetails:
    """An invitation, with all names in words. `link` leads to the page on which the person joins."""

    account: str
    teams: Sequence[str]
    inviter: str
    link: str


def build_test_content(requested_by: str, recipient: Recipient, now: datetime) -> MessageContent:
    """Return a message that only shows whether messages arrive."""
    lines = (
        f"Hello {shorten_clean(recipient.name)},",
        "",
        "this is a test message of Tocsin. Nothing has happened. If you can read this, then this is a way to",
        "reach you when something does.",
    )
    details = (
        LabelledText("Sent", format_time(now, recipient.zone)),
        LabelledText("Because", f"{shorten_clean(requested_by)} asked for a test message."),
    )
    return MessageContent("[Tocsin] Test message", lines, details)


def build_code_content(code: str, requested_by: str, recipient: Recipient) -> MessageContent:
    """Return a message with the code that verifies the address to which it is sent."""
    member = shorten_clean(requested_by, MAX_NAME)
    lines = (
        f"Hello {shorten_clean(recipient.name)},",
        "",
        f"{member} added this address to Tocsin, which notifies people when their",
        "services are in trouble. Enter this code within 10 minutes, and Tocsin can notify you here.",
    )
    closing = (
        "If you did not expect this, ignore this message. Without the code, Tocsin sends you nothing else."
    )
    return MessageContent(f"[Tocsin] Code {code}", lines, (LabelledText("Code", code),), closing=closing)


def build_sign_in_content(account: str, link: str, minutes: int, recipient: Recipient) -> MessageContent:
    """Return a message with a link that signs the reader in once."""
    lines = (
        f"Hello {shorten_clean(recipient.name)},",
        "",
        f"somebody asked for a link with which you sign in to {shorten_clean(account, MAX_NAME)} on Tocsin.",
    )
    links = (LabelledLink(f"Sign in here (once, within {minutes} minutes):", link, button="Sign in"),)
    closing = "If it was not you, ignore this message. Without the link, nobody can sign in with it."
    return MessageContent("[Tocsin] Sign in", lines, (), links, closing)


@dataclass(frozen=True, slots=True)
class SwapDetails:
    """The shifts of a swap as its reader sees them: start and end of the one given and the one taken."""

    schedule: str
    given: tuple[datetime, datetime]
    taken: tuple[datetime, datetime]


def _list_shifts(swap: SwapDetails | None, zone: str) -> tuple[LabelledText, ...]:
    """Return the schedule and the shifts; nothing if they are not known any more."""
    if swap is None:
        return ()
    shifts = {"You give": swap.given, "You take": swap.taken}
    spans = (
        LabelledText(label, f"{format_time(start, zone, names_zone=False)} to {format_time(end, zone)}")
        for label, (start, end) in shifts.items()
    )
    return (LabelledText("Schedule", shorten_clean(swap.schedule, 200)), *spans)


def build_swap_content(asker: str, swap: SwapDetails, link: str, recipient: Recipient) -> MessageContent:
    """Return a message about a colleague who asks to swap shifts."""
    name = shorten_clean(asker, MAX_NAME)
    lines = (
        f"Hello {shorten_clean(recipient.name)},",
        "",
        f"{name} asks you to swap shifts. Nothing changes until you accept.",
    )
    links = (LabelledLink("See the shifts, accept or decline here:", link, button="See the shifts"),)
    shifts = _list_shifts(swap, recipient.zone)
    return MessageContent(f"[Tocsin] {name} asks to swap shifts", lines, shifts, links)


# What became of a request to swap shifts: title and sentence. {name} decided it.
SWAP_RESULTS = {
    MessageKind.SWAP_ACCEPTED: (
        "{name} accepted the swap",
        "{name} accepted your request: you have the shift of {name}, who has yours.",
    ),
    MessageKind.SWAP_AGREED: (
        "{name} agreed to swap shifts",
        "{name} agreed to swap shifts. Nothing changes until somebody who may change the schedule confirms.",
    ),
    MessageKind.SWAP_CONFIRMED: (
        "{name} confirmed the swap",
        "{name} confirmed your swap of shifts: you have the shift of the other person, who has yours.",
    ),
    MessageKind.SWAP_DECLINED: (
        "{name} declined the swap",
        "{name} declined your request to swap shifts. You keep your shift.",
    ),
    MessageKind.SWAP_PASSED: (
        "A request to swap shifts has passed",
        "The first of the shifts has begun, and the swap was not agreed and confirmed before. You keep your"
        " shift.",
    ),
}


def build_swap_result_content(
    kind: MessageKind, decided_by: str, swap: SwapDetails | None, link: str, recipient: Recipient
) -> MessageContent:
    """Return a message about what became of a request to swap shifts."""
    title, sentence = SWAP_RESULTS[kind]
    name = shorten_clean(decided_by, MAX_NAME)
    lines = (f"Hello {shorten_clean(recipient.name)},", "", sentence.replace("{name}", name))
    links = (LabelledLink("See your shifts here:", link, button="See your shifts"),)
    shifts = _list_shifts(swap, recipient.zone)
    return MessageContent(f"[Tocsin] {title.replace('{name}', name)}", lines, shifts, links)


def build_browser_content(browser: str, recipient: Recipient, now: datetime) -> MessageContent:
    """Return a message about a new browser that gets the reader's messages."""
    lines = (
        f"Hello {shorten_clean(recipient.name)},",
        "",
        "a browser was added to your contacts, with the button on a page of Tocsin. Your messages go there",
        "too.",
    )
    details = (
        LabelledText("Contact", shorten_clean(browser, MAX_NAME)),
        LabelledText("Added", format_time(now, recipient.zone)),
    )
    closing = "If it was not you, delete this contact, and do not forward the links in your messages."
    return MessageContent("[Tocsin] A browser was added", lines, details, closing=closing)


def build_bounced_content(contact: str, link: str, recipient: Recipient) -> MessageContent:
    """Return a message about a contact of the reader whose mails come back."""
    name = shorten_clean(contact, MAX_NAME)
    lines = (
        f"Hello {shorten_clean(recipient.name)},",
        "",
        f"a mail server says that the address of your contact {name} does not exist. Tocsin sends nothing",
        "there until you verify it again, and notifies you by your other contacts.",
    )
    links = (LabelledLink("Correct or verify the contact here:", link, button="See your contacts"),)
    return MessageContent(f"[Tocsin] Mails to your contact {name} come back", lines, (), links)


def build_invitation_content(invitation: InvitationDetails, recipient: Recipient) -> MessageContent:
    """Return an invitation. The person must confirm it on the page to which its link leads."""
    account = shorten_clean(invitation.account, MAX_NAME)
    inviter = shorten_clean(invitation.inviter, 200)
    return MessageContent(
        f"[Tocsin] Invitation to {account}",
        (
            f"Hello {shorten_clean(recipient.name)},",
            "",
            f"{inviter} invites you to {account} on Tocsin, which notifies people when their",
            "services are in trouble.",
        ),
        tuple(LabelledText("Team", shorten_clean(name, 200)) for name in invitation.teams[:MAX_LISTED]),
        (LabelledLink("Join here (once, within 7 days):", invitation.link, button="Join"),),
        "Tocsin may notify you of incidents by e-mail, whether you join or not. If you did not expect this,\n"
        "ask the person who invites you.",
    )
