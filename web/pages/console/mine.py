"""What concerns the person who is signed in: contacts, notification rules, shifts, time zone and colours."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from zoneinfo import available_timezones

from flask import Response, request

from models.domain.channels import CHANNELS
from models.domain.enums import Urgency, Verification
from models.load.schedules import load_schedule_facts
from models.tables.accounts import User
from schedules.oncall.feed import get_overrides_since, list_calendar_shifts
from schedules.oncall.local_time import is_known_zone
from schedules.oncall.shifts import find_endless, is_endless
from web.account.contact_codes import enter_code, send_code
from web.account.contact_test import send_test
from web.account.contacts import create_contact, create_link, find_missing_setting, list_contacts
from web.account.members import MEMBERS
from web.account.message_settings import change_settings, get_settings
from web.account.notification_preferences import CONTACTS, NOTIFICATION_RULES
from web.http.auth import now, viewer
from web.http.errors import ApiError, reject
from web.oncall import calendars, swaps
from web.pages import forms
from web.pages.console.page import CHANNEL_TITLES, redirect_done, render
from web.pages.look.refusals import RefusedForm, read_refused_form
from web.pages.theme import THEME, THEMES, get_theme

Form = Mapping[str, str]
PATH = "/mine/"
CODE_STEP = "Within 10 minutes, enter the code that Tocsin sends to this contact."
NEW_CODE_STEP = "No code is valid now. Get one with the button Send a code."
LINK_STEP = "Get a code with the button New code, and send it to Tocsin in the chat."
MAX_SHIFTS = 10
MONTHS = 3
THEME_COOKIE_S = 365 * 24 * 3600


def show() -> Response:
    """Show what concerns the person."""
    return _render(forms.read_done())


def _render(done: str, refused: RefusedForm | None = None, code: int = 200) -> Response:
    username = viewer().user.username
    contacts = [{**each, "next_step": _write_next_step(each)} for each in list_contacts(viewer(), username)]
    return render(
        "mine.html",
        code,
        refused=refused,
        # The address of the calendar.
        has_secret=True,
        user=viewer().user,
        contacts=contacts,
        names={contact["unique_id"]: _name_contact(contact) for contact in contacts},
        rules=NOTIFICATION_RULES.show_rows(viewer(), username=username),
        channels=[(number, spec.title) for number, spec in CHANNELS.items() if _can_be_added(number)],
        urgencies=[(each.value, each.name.lower()) for each in reversed(Urgency)],
        shifts=_list_shifts(),
        swaps=swaps.list_asked(viewer().user),
        zones=_list_zones(),
        themes=[("", "as the device"), *((theme, theme) for theme in THEMES)],
        chosen_theme=get_theme(),
        recovery_mails=get_settings(viewer(), username)["recovery_mails"],
        calendar=calendars.get_calendar(viewer(), {})["url"],
        done=done,
    )


def _name_contact(contact: Mapping[str, object]) -> str:
    channel = str(contact["channel"])
    return f"{contact['name']} ({CHANNEL_TITLES.get(channel, channel)})"


@lru_cache(maxsize=1)
def _list_zones() -> list[str]:
    """Return the names of the time zones that this host knows; it reads some hundred files."""
    return sorted(available_timezones())


def _can_be_added(number: int) -> bool:
    """Return whether a person can add a contact of this channel here: the operator has configured it."""
    is_made_here = CHANNELS[number].verification is not Verification.BROWSER
    return is_made_here and find_missing_setting(number) is None


def _write_next_step(contact: Mapping[str, object]) -> str:
    """Return what verifies a contact on this page. The operation names requests of the interface instead."""
    if contact["is_verified"] or contact["verification"] == Verification.BROWSER:
        return str(contact["next_step"])
    if contact["verification"] == Verification.LINK:
        return str(contact["next_step"]) if contact.get("link_code") else LINK_STEP
    return CODE_STEP if contact["expires_at"] else NEW_CODE_STEP


def _list_shifts() -> list[dict[str, object]]:
    """Return the next shifts of the person in all schedules. One without an end is shown once."""
    rows = {row.unique_id: row for row in calendars.select_own_schedules(viewer().user)}
    facts = load_schedule_facts(list(rows.values()), get_overrides_since(now()))
    found = list_calendar_shifts(tuple(facts), now(), MONTHS, viewer().user.username)
    endless = {each.row: find_endless(each) for each in facts}
    shown: list[dict[str, object]] = []
    known = set()
    for schedule, shift in found.shifts:
        has_end, key = not is_endless(shift, endless[schedule.row]), (schedule.row, shift.key)
        if shift.end <= now() or (not has_end and key in known):
            continue
        if not has_end:
            known.add(key)
        shown.append(
            {
                "schedule": rows[schedule.unique_id],
                "start": shift.start,
                "end": shift.end if has_end else None,
                "is_now": shift.start <= now(),
            }
        )
    return shown[:MAX_SHIFTS]


def _take(form: Form, *names: str) -> dict[str, str]:
    return {name: form.get(name, "") for name in names}


def _name_me() -> dict[str, str]:
    """Return the id of the person in paths."""
    return {"username": viewer().user.username}


def _name_row(form: Form) -> dict[str, str]:
    """Return the ids of the contact of the form in paths."""
    return {**_name_me(), CONTACTS.id_arg: form.get("row", "")}


def _add_contact(form: Form) -> str:
    body = _take(form, "name", "contact_type", "value")
    return _say_next(create_contact(viewer(), viewer().user.username, body))


def _link_contact(form: Form) -> str:
    return _say_next(create_link(viewer(), **_name_row(form)))


def _say_next(contact: Mapping[str, object]) -> str:
    return _write_next_step(contact) or "Done."


def _send_code(form: Form) -> str:
    return send_code(viewer(), **_name_row(form))["message"]


def _enter_code(form: Form) -> str:
    enter_code(viewer(), _take(form, "code"), **_name_row(form))
    return "The contact is verified."


def _send_test(form: Form) -> str:
    return send_test(viewer(), **_name_row(form))["message"]


def _remove_contact(form: Form) -> str:
    CONTACTS.delete_row(viewer(), **_name_row(form))
    return "The contact was removed."


def _add_rule(form: Form) -> str:
    NOTIFICATION_RULES.create_row(viewer(), _take(form, "contact", "start_delay", "urgency"), **_name_me())
    return "The rule was added."


def _remove_rule(form: Form) -> str:
    ids = {**_name_me(), NOTIFICATION_RULES.id_arg: form.get("row", "")}
    NOTIFICATION_RULES.delete_row(viewer(), **ids)
    return "The rule was removed."


def _set_messages(form: Form) -> str:
    body = {"recovery_mails": form.get("recovery_mails") == "yes"}
    change_settings(viewer(), viewer().user.username, body)
    return "Stored."


def _renew_calendar(form: Form) -> str:
    calendars.renew_calendar(viewer(), viewer().user.username)
    return "The calendar has a new address. The old one ends."


def act() -> Response:
    """Do what a form of the page asks for."""
    name = request.form.get("act", "")
    try:
        done = _act(name)
    except ApiError as error:
        return _render("", read_refused_form(error, "Nothing was changed"), error.status)
    # The code that links a chat must not be in an address: proxies write addresses into their logs.
    return _render(done) if _shows_code(name) else redirect_done(PATH, done)


def _shows_code(name: str) -> bool:
    """Return whether the answer to this action has the code that links a chat."""
    linked = {str(number) for number, spec in CHANNELS.items() if spec.verification is Verification.LINK}
    return name == "link" or (name == "add" and request.form.get("contact_type") in linked)


def _act(name: str) -> str:
    """Do an action of the page. Return what happened as a sentence."""
    action = ACTIONS.get(name)
    if action is None:
        reject("act", "This action does not exist.")
    return action(request.form)


def _set_time_zone(form: Form) -> str:
    """Set the time zone of the person: of all times that pages and messages show."""
    zone = form.get("time_zone", "")
    if not 0 < len(zone) <= User.time_zone.max_length or not is_known_zone(zone):
        reject("time_zone", "Must be the name of a time zone, for example Europe/Berlin.")
    MEMBERS.change_row(viewer(), {"time_zone": zone}, **_name_me())
    return f"All times are now in {zone}."


def _set_theme(form: Form) -> str:
    """Set the colours in this browser."""
    theme = form.get("theme", "")
    if theme not in ("", *THEMES):
        reject("theme", f"Must be {' or '.join(THEMES)}, or empty.")
    forms.set_cookie(THEME, theme, THEME_COOKIE_S)
    return "Stored for this browser."


ACTIONS: dict[str, Callable[[Form], str]] = {
    "add": _add_contact,
    "send_code": _send_code,
    "link": _link_contact,
    "verify": _enter_code,
    "test": _send_test,
    "remove": _remove_contact,
    "add_rule": _add_rule,
    "remove_rule": _remove_rule,
    "messages": _set_messages,
    "renew_calendar": _renew_calendar,
    "time_zone": _set_time_zone,
    "theme": _set_theme,
}
