"""Swap two shifts of a schedule: a person asks another one, whose consent changes the overrides.

An override needs the permission to change the schedule. One of the two people must have it when the swap is
made; else somebody with the permission confirms the swap.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import peewee

from models.contacts.messages import create_message
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind, SwapState
from models.domain.facts import ScheduleFacts
from models.load.schedules import load_schedule_facts
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.schedules import Schedule, ScheduleOverride, ShiftSwap
from schedules.oncall.shifts import EARLIEST, NEVER, estimate_work, extend_shifts
from schedules.oncall.swaps import HeldShift, find_limit, find_obstacle
from web.http import access, rate_limit
from web.http.auth import Viewer, now, operation, viewer
from web.http.errors import Forbidden, reject
from web.http.limits.places import hold_place
from web.http.resource import config_transaction, lock_row
from web.http.writing import raise_number
from web.oncall.overrides import OVERRIDES, describe_override, record_override
from web.oncall.schedule_overview import access_schedule
from web.oncall.schedule_problems import ScheduleView
from web.teams.teams import get_account_member

OPEN = (SwapState.ASKED, SwapState.AGREED)
# Open requests of a schedule. Its page lists all of them.
MAX_OPEN = 50
# Requests of a person, and answers. A request sends a mail, and both compute shifts.
RATE_LIMITS = ((20, 3600.0),)
# Turns and restrictions in the time of both shifts: a fifth of a second of processor time.
MAX_WORK = 20_000


def list_choices(shifts: Iterable[HeldShift]) -> tuple[list[HeldShift], list[HeldShift]]:
    """Return the shifts that can be swapped: the person's own, and those of others."""
    found = [each for each in shifts if find_limit(each, now()) is None]
    me = viewer().user.username
    return [each for each in found if each.username == me], [each for each in found if each.username != me]


def list_open(row: Schedule) -> list[dict[str, object]]:
    """Return the open requests of a schedule, each with what the person may do."""
    may_change = has_permission(viewer().user, row, "schedule_write")
    return [
        {
            "row": swap,
            "asker": get_display_name(swap.asker),
            "partner": get_display_name(swap.partner),
            "is_agreed": swap.state == SwapState.AGREED,
            "acts": [name for name, each in ACTS.items() if each.is_possible(swap, may_change=may_change)],
        }
        for swap in select_open(now()).where(ShiftSwap.schedule == row).limit(MAX_OPEN)
    ]


def list_asked(user: User) -> list[dict[str, object]]:
    """Return the requests that this person can answer."""
    asked = select_open(now()).where(ShiftSwap.partner == user, ShiftSwap.state == SwapState.ASKED)
    return [{"row": swap, "asker": get_display_name(swap.asker)} for swap in asked.limit(MAX_OPEN)]


def find(row: int) -> ShiftSwap | None:
    """Return a request by its row number, with its schedule and both people; None: it was withdrawn."""
    found: ShiftSwap | None = select().where(ShiftSwap.id == row).first()
    return found


def select() -> "peewee.ModelSelect[ShiftSwap]":
    """Return a query of requests with their schedules and both people."""
    partner = User.alias()
    found: peewee.ModelSelect[ShiftSwap] = (
        ShiftSwap.select(ShiftSwap, Schedule, User, partner)
        .join(Schedule)
        .join_from(ShiftSwap, User, on=ShiftSwap.asker)
        .join_from(ShiftSwap, partner, on=(ShiftSwap.partner == partner.id), attr="partner")
    )
    return found


def select_open(at: datetime) -> "peewee.ModelSelect[ShiftSwap]":
    """Return a query of open requests about shifts that have not begun, the oldest first."""
    later = (ShiftSwap.asked_start > at) & (ShiftSwap.returned_start > at)
    return select().where(ShiftSwap.state.in_(OPEN), later).order_by(ShiftSwap.id)


def has_permission(user: User, row: Schedule, permission: str) -> bool:
    """Return whether a person has this permission for a schedule now."""
    return bool(access.may(Viewer(user, viewer().account, permission), permission, row.team_id))


@operation("schedule_read")
def ask(who: Viewer, schedule_id: str, mine: HeldShift, theirs: HeldShift) -> User:
    """Ask another person to swap shifts of a schedule. Return this person, who answers."""
    row, me = access_schedule(schedule_id), who.user
    if mine.username != me.username:
        reject("mine", "Choose a shift of your own.")
    partner = get_account_member(viewer().account, theirs.username, "theirs")
    if not has_permission(partner, row, "schedule_read"):
        reject("theirs", "This person may not see the schedule, and so cannot agree.")
    rate_limit.enforce(RATE_LIMITS, viewer().account, f"shift_swaps {me.username}", now())
    checked = _check(row, mine, theirs)
    with store().write_transaction():
        _require_same(_lock(row), checked)
        opened = select_open(now()).where(ShiftSwap.schedule == row)
        if opened.count() >= MAX_OPEN:
            reject("theirs", f"This schedule already has {MAX_OPEN} open requests.")
        if opened.where(
            ShiftSwap.asker == me,
            ShiftSwap.asked_start == mine.start,
            ShiftSwap.returned_start == theirs.start,
        ).exists():
            reject("theirs", "You have already asked for this swap.")
        swap = ShiftSwap.create(
            unique_id=make_uuid(),
            creation_date=now(),
            schedule=row,
            asker=me,
            asked_start=mine.start,
            asked_end=mine.end,
            partner=partner,
            returned_start=theirs.start,
            returned_end=theirs.end,
        )
        _send(swap, partner, MessageKind.SWAP)
    return partner


def _send(swap: ShiftSwap, to: User, kind: MessageKind) -> None:
    """Store a mail about what this person did with a request. Nobody gets one about an own action."""
    me = viewer().user
    if to.id != me.id:
        name, columns = get_display_name(me), {"channel": USER_EMAIL_CHANNEL, "kind": kind}
        create_message(to, name, now(), group_key=swap.unique_id, **columns)


def _lock(row: Schedule) -> Schedule:
    """Load the schedule again and lock it, so that its shifts stay the same until the end."""
    locked = lock_row(row)
    locked.team = row.team
    return locked


def _check(row: Schedule, asked: HeldShift, returned: HeldShift) -> ScheduleFacts:
    """Raise BadRequest if these shifts cannot be swapped now. Return the schedule that was checked.

    This computes shifts, so it needs a place and no lock. Under the lock, `_require_same` follows.
    """
    # First the limits: they bound the time whose shifts are computed.
    problem = find_limit(asked, now()) or find_limit(returned, now())
    if problem is not None:
        reject("swap", problem)
    both = (asked, returned)
    view = ScheduleView.load(row, min(each.start for each in both), max(each.end for each in both))
    if sum(estimate_work([view.schedule], each.start, each.end) for each in both) > MAX_WORK:
        reject("swap", "The schedule is too large to compute these shifts.")
    with hold_place(viewer().account.account_identifier):
        shifts = [shift for each in both for shift in _list_shifts(view, each)]
        problem = find_obstacle(asked, returned, shifts, now())
    if problem is not None:
        reject("swap", problem)
    return view.schedule


def _require_same(locked: Schedule, checked: ScheduleFacts) -> None:
    """Raise BadRequest if the schedule has changed since it was checked."""
    (current,) = load_schedule_facts([locked], EARLIEST)
    if current != checked:
        reject("swap", "The schedule has just changed. Load the page again, and repeat it.")


def _list_shifts(view: ScheduleView, around: HeldShift) -> list[HeldShift]:
    """Return the complete shifts of a schedule that overlap this one."""
    start, end = around.start, around.end
    found = extend_shifts(view.schedule, view.list_shifts(start, end), start, end)
    # A shift without an end is swapped with no other one, but its person is on call too.
    return [HeldShift(each.shift.username, each.shift.start, each.until or NEVER) for each in found]


@operation("schedule_read")
def answer(who: Viewer, schedule_id: str, swap_id: str, name: str) -> str:
    """Do an action on a request of a schedule. Return what happened as a sentence."""
    row = access_schedule(schedule_id)
    action = ACTS.get(name)
    if action is None:
        reject("act", "This action does not exist.")
    rate_limit.enforce(RATE_LIMITS, viewer().account, f"shift_swap_answers {viewer().user.username}", now())
    swap = _find_answerable(row, swap_id, action)
    checked = _check(row, *_get_shifts(swap)) if action.needs_shifts else None
    with config_transaction():
        locked = _lock(row)
        swap = _find_answerable(row, swap_id, action)
        if checked is not None:
            _require_same(locked, checked)
        return action.run(locked, swap)


def _find_answerable(row: Schedule, swap_id: str, action: "SwapAction") -> ShiftSwap:
    """Return the request, if the person may do this to it now."""
    swap: ShiftSwap = access.find(select().where(ShiftSwap.schedule == row), ShiftSwap.unique_id, swap_id)
    if not action.may(swap, has_permission(viewer().user, row, "schedule_write")):
        raise Forbidden
    if swap.state not in action.states:
        reject("act", "Somebody else was faster: this request has been answered.")
    return swap


def _accept(row: Schedule, swap: ShiftSwap) -> str:
    """Make the swap if one of the two may change the schedule now; else remember the consent."""
    if any(has_permission(user, row, "schedule_write") for user in (swap.partner, swap.asker)):
        done = _make(row, swap)
        _send(swap, swap.asker, MessageKind.SWAP_ACCEPTED)
        return done
    _set_state(swap, SwapState.AGREED)
    _send(swap, swap.asker, MessageKind.SWAP_AGREED)
    return (
        f"You agreed. Neither of you may change the schedule, so a manager of {row.team.name} must confirm."
    )


def _confirm(row: Schedule, swap: ShiftSwap) -> str:
    """Make a swap to which both people have agreed."""
    done = _make(row, swap)
    for person in (swap.asker, swap.partner):
        _send(swap, person, MessageKind.SWAP_CONFIRMED)
    return done


def _make(row: Schedule, swap: ShiftSwap) -> str:
    """Let each person be on call for the other."""
    asked, returned = _get_shifts(swap)
    row.number = raise_number(row).number
    _replace(row, asked, swap.asker, swap.partner)
    _replace(row, returned, swap.partner, swap.asker)
    _set_state(swap, SwapState.DONE)
    return "The shifts are swapped."


def _replace(row: Schedule, shift: HeldShift, before: User, after: User) -> None:
    """Let `after` be on call in this shift of `before`.

    A shift of an override gets its new person there: with a second override, both people would be on call.
    """
    values = {"user": after, "name": f"Swap with {get_display_name(before)}"[:255]}
    found = OVERRIDES.select_rows(row).where(
        ScheduleOverride.user == before,
        ScheduleOverride.start_time == shift.start,
        ScheduleOverride.end_time == shift.end,
    )
    for override in found:
        was = describe_override(override)
        ScheduleOverride.update(values).where(ScheduleOverride.id == override.id).execute()
        record_override(row, was, OVERRIDES.select_rows(row).where(ScheduleOverride.id == override.id).get())
    if not found:
        OVERRIDES.insert(row, {**values, "start_time": shift.start, "end_time": shift.end})


def _decline(row: Schedule, swap: ShiftSwap) -> str:
    _set_state(swap, SwapState.DECLINED)
    _send(swap, swap.asker, MessageKind.SWAP_DECLINED)
    return "The swap was declined."


def _withdraw(row: Schedule, swap: ShiftSwap) -> str:
    ShiftSwap.delete().where(ShiftSwap.id == swap.id).execute()
    return "The request was withdrawn."


def _get_shifts(swap: ShiftSwap) -> tuple[HeldShift, HeldShift]:
    return (
        HeldShift(swap.asker.username, swap.asked_start, swap.asked_end),
        HeldShift(swap.partner.username, swap.returned_start, swap.returned_end),
    )


def _set_state(swap: ShiftSwap, state: SwapState) -> None:
    ShiftSwap.update(state=state).where(ShiftSwap.id == swap.id).execute()


@dataclass(frozen=True, slots=True)
class SwapAction:
    """An action on a request: in which states it is possible, who may do it, and what it does.

    `may` gets the request, and whether the person may change the schedule. `needs_shifts`: the schedule must
    still have both shifts.
    """

    states: Collection[SwapState]
    may: Callable[[ShiftSwap, bool], bool]
    run: Callable[[Schedule, ShiftSwap], str]
    needs_shifts: bool = False

    def is_possible(self, swap: ShiftSwap, *, may_change: bool) -> bool:
        return swap.state in self.states and self.may(swap, may_change)


def _may_change(swap: ShiftSwap, may_change: bool) -> bool:
    return may_change


def _is_partner(swap: ShiftSwap, may_change: bool) -> bool:
    return bool(swap.partner_id == viewer().user.id)


ACTS = {
    "accept": SwapAction((SwapState.ASKED,), _is_partner, _accept, needs_shifts=True),
    "confirm": SwapAction((SwapState.AGREED,), _may_change, _confirm, needs_shifts=True),
    "decline": SwapAction(OPEN, _is_partner, _decline),
    "withdraw": SwapAction(OPEN, lambda swap, _: swap.asker_id == viewer().user.id, _withdraw),
}
