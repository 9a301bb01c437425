"""The forms with which a person asks another one to swap shifts, and answers (web/oncall/swaps.py)."""

from datetime import datetime

from flask import Response, current_app, request

from models.contacts.contact_codes import is_same_address
from models.tables.accounts import User
from schedules.oncall.shifts import EARLIEST, LATEST
from schedules.oncall.swaps import HeldShift
from web.http.auth import viewer
from web.http.errors import ApiError, reject
from web.oncall import swaps
from web.oncall.schedule_overview import access_schedule
from web.pages.console.page import redirect_done, refuse

# More than a username and two times take.
MAX_CHOICE = 150


def write_choice(shift: HeldShift) -> str:
    """Return a shift as the value of a form."""
    return f"{shift.username} {shift.start.isoformat()} {shift.end.isoformat()}"


def _read_choice(name: str) -> HeldShift:
    text = request.form.get(name, "")
    try:
        username, start, end = text[:MAX_CHOICE].split(" ")
        shift = HeldShift(username, datetime.fromisoformat(start), datetime.fromisoformat(end))
    except ValueError:
        reject(name, "Choose a shift.")
    if shift.start.tzinfo is None or shift.end.tzinfo is None:
        reject(name, "Choose a shift.")
    if not EARLIEST <= shift.start < shift.end <= LATEST:
        reject(name, f"Choose a shift between the years {EARLIEST.year} and {LATEST.year}.")
    return shift


def ask(schedule_id: str) -> Response:
    """Ask another person to swap a shift."""
    row = access_schedule(schedule_id)
    path = f"/on-call/{row.unique_id}/"
    try:
        partner = swaps.ask(viewer(), row.unique_id, _read_choice("mine"), _read_choice("theirs"))
    except ApiError as error:
        return refuse(error, "The swap was not asked for", path)
    return redirect_done(path, _describe_request(partner))


def _describe_request(partner: User) -> str:
    """Return what happens to a request. A mail needs a relay; an address that is not verified gets few."""
    if not current_app.config["SETTINGS"].smtp_host:
        return (
            "The request is stored. Tocsin has no mail relay, so talk to the other person, who answers here."
        )
    if not is_same_address(partner.verified_email, partner.email):
        return (
            "The request is stored. The other person's address is not verified, so a mail may not arrive:"
            " talk to the person, who answers here."
        )
    return "Tocsin asks the other person by e-mail."


def act(schedule_id: str, swap_id: str) -> Response:
    """Agree to a swap, confirm, decline or withdraw it."""
    row = access_schedule(schedule_id)
    path = f"/on-call/{row.unique_id}/"
    try:
        done = swaps.answer(viewer(), row.unique_id, swap_id, request.form.get("act", ""))
    except ApiError as error:
        return refuse(error, "The swap was not changed", path)
    return redirect_done(path, done)
