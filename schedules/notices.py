"""What a person is owed of an incident: a notice for each way in which they want to be told.

Contract section 4.4, rows 6, 8, 9 and 11.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from models.effects import IncidentState, NoticeState
from models.enums import OPEN, ContactType, IncidentStatus, NoticeKind
from models.facts import Directory, PersonFacts, RuleFacts, TellingFacts

MINUTE = timedelta(minutes=1)
# What has waited for longer than this is not told to those who were to be told when it came.
LATE = MINUTE
# Somebody may be given an incident that another has acknowledged, or be asked to help with it.
# What an SLA promises about its end has nothing to do with an acknowledgement.
WHILE_OPEN = {NoticeKind.ASSIGNMENT, NoticeKind.RESPONDER, NoticeKind.SLA_RESOLVE}


def owed_for(incident: str, kind: NoticeKind, occasion: str) -> str:
    """What the keys of all notices begin with that an incident owes for one reason."""
    return f"{incident}:{kind}:{occasion}:"


def why_void(kind: NoticeKind, status: IncidentStatus) -> str | None:
    """Why a notice of this kind is told no more of an incident that has this status by now; None if it is."""
    living = OPEN if kind in WHILE_OPEN else {IncidentStatus.TRIGGERED}
    return None if status in living else f"incident is {status.name.lower()}"


def told_at(directory: Directory, at: datetime) -> datetime:
    """The moment that counts for who is told of what happened at a moment: its own or, where that has waited,
    the one at which it is worked on."""
    worked_at = directory.worked_at
    return worked_at if worked_at is not None and worked_at - at > LATE else at


def recipient(person: PersonFacts, at: datetime) -> PersonFacts:
    """Who is told in the place of a person, by the forwarding that is in force when the person is named; of
    several, by the one that began last. Forwarding is not followed any further."""
    holding = [each for each in person.forwarding if each.start <= at < each.end]
    return max(holding, key=lambda each: each.start).to if holding else person


def named(person: PersonFacts, directory: Directory, at: datetime) -> str:
    """A person's name for people, and who is told instead."""
    told = recipient(person, told_at(directory, at))
    return person.name if told is person else f"{person.name} (forwarded to {told.name})"


def notices_for(
    incident: IncidentState,
    person: PersonFacts,
    kind: NoticeKind,
    occasion: str,
    reason: str,
    directory: Directory,
    now: datetime,
) -> list[NoticeState]:
    """What is owed where a person is named: a notice per notification rule of the incident's urgency.

    Somebody without such a rule is told at the address of the account, at once. `occasion` tells one reason
    of this kind from the next (the chain and step).
    """
    told, reason = _told_instead(person, reason, directory, now)
    return _by_urgency(incident, told, kind, occasion, reason, now)


def notices_anew(
    incident: IncidentState, tellings: Iterable[TellingFacts], *, raised: bool, why: str, now: datetime
) -> Iterator[NoticeState]:
    """What is owed of an incident that has another urgency from now on: whoever was still to be told is told
    by the rules of this one; if it was `raised` and nobody has answered, so is whoever was told last that it
    is theirs.

    Where it was lowered, no contact is told again.
    """
    known: dict[tuple[NoticeKind, str, int], list[TellingFacts]] = {}
    for one in tellings:
        known.setdefault((one.kind, one.occasion, one.person.row), []).append(one)
    last = _last_step(incident, known)
    for (kind, occasion, _), some in known.items():
        is_waiting = not all(one.is_sent for one in some)
        if is_waiting or (raised and _is_asked(incident, kind, occasion, last)):
            person, reason = some[0].person, f"{some[0].reason}; {why}"
            told = set() if raised else {one.contact for one in some if one.is_sent}
            begins = _begins(incident, some, now)
            anew = _by_urgency(incident, person, kind, occasion, reason, begins)
            # Who was told already needs no last resort.
            yield from (notice for notice in anew if not told or notice.contact not in {*told, None})


def _begins(incident: IncidentState, tellings: Iterable[TellingFacts], now: datetime) -> datetime:
    """From when on somebody is told anew: what was put off until the chain begins still is."""
    chain_at = incident.chain_started_at
    is_put_off = all(one.not_before >= chain_at for one in tellings)
    return max(now, chain_at) if is_put_off else now


def _last_step(incident: IncidentState, occasions: Iterable[tuple[NoticeKind, str, int]]) -> int:
    """The last step of the chain by which anybody was named."""
    taken = (occasion.split(":") for kind, occasion, _ in occasions if kind is NoticeKind.ESCALATION)
    return max((int(step) for chain, step in taken if int(chain) == incident.chain), default=-1)


def _is_asked(incident: IncidentState, kind: NoticeKind, occasion: str, last_step: int) -> bool:
    """Whether who was told on this occasion is still waited for."""
    if incident.status is not IncidentStatus.TRIGGERED:
        return False
    chain = str(incident.chain)
    return occasion in {
        NoticeKind.ESCALATION: {f"{chain}:{last_step}"},
        # By the chain's first number, who was chosen as it was opened.
        NoticeKind.ASSIGNMENT: {chain, "0"} if incident.chain == 1 else {chain},
        NoticeKind.NOBODY_REACHED: {chain},
    }.get(kind, ())


def notices_at_once(
    incident: IncidentState,
    person: PersonFacts,
    kind: NoticeKind,
    occasion: str,
    reason: str,
    directory: Directory,
    now: datetime,
    *,
    together: str,
) -> list[NoticeState]:
    """What is owed where a person is to be told now, whatever the urgency: a notice for each contact that a
    notification rule without delay leads to (contract 4.4, row 9).

    What is owed `together` may travel in one message, of however many incidents.
    """
    told, reason = _told_instead(person, reason, directory, now)
    rules = {rule.contact: rule for rule in reversed(told.rules) if rule.start_delay_minutes == 0}
    without = "no usable rule without delay"
    every = sorted(rules.values(), key=lambda rule: rule.row)
    return _by_rules(every, without, incident, told, kind, occasion, together, reason, now)


def _by_urgency(
    incident: IncidentState, told: PersonFacts, kind: NoticeKind, occasion: str, reason: str, now: datetime
) -> list[NoticeState]:
    rules = [rule for rule in told.rules if rule.urgency is incident.urgency]
    without = f"no usable rule for {incident.urgency.name.lower()} urgency"
    return _by_rules(rules, without, incident, told, kind, occasion, occasion, reason, now)


def _told_instead(
    person: PersonFacts, reason: str, directory: Directory, now: datetime
) -> tuple[PersonFacts, str]:
    told = recipient(person, told_at(directory, now))
    return told, reason if told is person else f"{reason}; forwarded from {person.name}"


def _by_rules(
    rules: Sequence[RuleFacts],
    without: str,
    incident: IncidentState,
    told: PersonFacts,
    kind: NoticeKind,
    occasion: str,
    together: str,
    reason: str,
    now: datetime,
) -> list[NoticeState]:
    """A notice for each of these rules; `without` any, one to the account's address, which says so."""
    prefix = f"{owed_for(incident.unique_id, kind, occasion)}{told.username}"
    if not rules:
        return [
            NoticeState(
                key=f"{prefix}:account:-",
                incident=incident.unique_id,
                user=told.row,
                contact=None,
                channel=ContactType.EMAIL,
                rule=None,
                kind=kind,
                reason=f"{reason}; {without}, so the account's address",
                not_before=now,
                bundle=f"{kind}:{together}:0",
            )
        ]
    return [
        NoticeState(
            key=f"{prefix}:{rule.contact}:{rule.row}",
            incident=incident.unique_id,
            user=told.row,
            contact=rule.contact,
            channel=rule.channel,
            rule=rule.row,
            kind=kind,
            reason=reason,
            not_before=now + rule.start_delay_minutes * MINUTE,
            bundle=f"{kind}:{together}:{rule.start_delay_minutes}",
        )
        for rule in rules
    ]
