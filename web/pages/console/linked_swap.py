"""The page that the link in a mail about a swap of shifts opens: for the person who is asked, without login.

GET changes nothing, since mail scanners follow links. POST accepts or declines once, in the name of this
person, and redirects to the page. The link works until the first of the shifts begins.
"""

from flask import Response, g, request

from models.domain.enums import SwapState, Way
from models.links import signed_links
from models.tables.accounts import get_display_name
from models.tables.schedules import ShiftSwap
from pipeline.messages.times import format_time
from web.http.auth import Viewer, now, viewer
from web.http.errors import ApiError, Forbidden, NotFound, describe_refusal
from web.oncall import swaps
from web.oncall.schedule_overview import access_schedule
from web.pages.base import redirect_to, render_page

# What a link can do; the page of the schedule also confirms and withdraws.
CHOICES = ("accept", "decline")


def show(token: str) -> Response:
    """Show the shifts of a request, with a button to accept and one to decline."""
    found = _open_link(token)
    return found if isinstance(found, Response) else _render(found, 200)


def act(token: str) -> Response:
    """Accept or decline a request that nobody has answered. Afterwards, do nothing."""
    swap = _open_link(token)
    if isinstance(swap, Response):
        return swap
    answer = request.form.get("act", "")
    if answer in CHOICES and swap.state == SwapState.ASKED:
        try:
            swaps.answer(viewer(), swap.schedule.unique_id, swap.unique_id, answer)
        except ApiError as error:
            return _render(swap, error.status, describe_refusal(error))
    # After the redirect, a reload of the page is a GET.
    return redirect_to(request.path)


def _open_link(token: str) -> ShiftSwap | Response:
    """Return the request of a link, or the page that says why the link is not valid.

    The person of the link is then the viewer, with the right to read the schedule, as on its page.
    """
    try:
        link = signed_links.get_reader().read_swap(token, now())
    except signed_links.ExpiredLink:
        return render_page("swap.html", 410, state="passed")
    except signed_links.BadLink:
        return render_page("swap.html", 404, state="unknown")
    swap = swaps.find(link.swap)
    if swap is None or swap.partner_id != link.user or swap.partner.removed_at is not None:
        return render_page("swap.html", 404, state="unknown")
    g.viewer = Viewer(swap.partner, swap.partner.account, "schedule_read", way=Way.LINK)
    try:
        access_schedule(swap.schedule.unique_id)
    except (Forbidden, NotFound):
        return render_page("swap.html", 404, state="unknown")
    return swap


def _render(swap: ShiftSwap, code: int, problems: list[str] | None = None) -> Response:
    zone = swap.partner.time_zone
    shifts = {
        "You give": (swap.returned_start, swap.returned_end),
        "You take": (swap.asked_start, swap.asked_end),
    }
    return render_page(
        "swap.html",
        code,
        state=SwapState(swap.state).name.lower(),
        asker=get_display_name(swap.asker),
        reader=get_display_name(swap.partner),
        schedule=swap.schedule.name,
        shifts=[
            (label, f"{format_time(start, zone)} to {format_time(end, zone)}")
            for label, (start, end) in shifts.items()
        ],
        problems=problems or [],
    )
