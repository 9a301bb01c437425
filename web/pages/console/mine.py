"""What concerns the person who is signed in: contacts, notification rules, shifts, time zone and colours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from web.account.contacts import find_missing_setting
from web.http.auth import now, viewer
from web.http.errors import ApiError, reject
from web.http.resource import config_transaction
from web.oncall import calendars
from web.pages import forms
from web.pages.console import swaps
from web.pages.console.operations import call
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
    contacts = [
        {**each, "next_step": _write_next_step(each)} for each in call("contacts_index", username=username)
    ]
    return render(
        "mine.html",
        code,
        refused=refused,
        # The address of the calendar.
        has_secret=True,
        user=viewer().user,
        contacts=contacts,
        names={contact["unique_id"]: _name_contact(contact) for contact in contacts},
        rules=call("index_notification_rule", username=username),
        channels=[(number, spec.title) for number, spec in CHANNELS.items() if _can_be_added(number)],
        urgencies=[(each.value, each.name.lower()) for each in reversed(Urgency)],
        shifts=_list_shifts(),
        swaps=swaps.list_asked(viewer().user),
        zones=_list_zones(),
        themes=[("", "as the device"), *((theme, theme) for theme in THEMES)],
        chosen_theme=get_theme(),
        recovery_mails=call("message_settings_show", username=username)["recovery_mails"],
        calendar=call("calendars_get_own_address")["url"],
        done=done,
    )


def _name_contact(contact: Mapping[str, str]) -> str:
    channel = contact["channel"]
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


@dataclass(frozen=True, slots=True)
class OwnAction:
    """An action on this page: its operation, and the body that its form makes.

    `row_id` is the id of a row of the person in the path of the operation. Without `done`, the page says what
    the operation answers.
    """

    operation: str
    build_body: Callable[[Form], object]
    done: str = ""
    row_id: str = ""


def _take(*names: str) -> Callable[[Form], object]:
    return lambda form: {name: form.get(name, "") for name in names}


ACTIONS = {
    "add": OwnAction("contacts_create", _take("name", "contact_type", "value")),
    "send_code": OwnAction("contact_codes_send", lambda form: None, row_id="contact_id"),
    "link": OwnAction("contacts_link", lambda form: None, row_id="contact_id"),
    "verify": OwnAction("contact_codes_verify", _take("code"), "The contact is verified.", "contact_id"),
    "test": OwnAction("contact_test_start", lambda form: None, row_id="contact_id"),
    "remove": OwnAction(
        "destroy_contact_method", lambda form: None, "The contact was removed.", "contact_id"
    ),
    "add_rule": OwnAction(
        "create_notification_rule", _take("contact", "start_delay", "urgency"), "The rule was added."
    ),
    "remove_rule": OwnAction(
        "destroy_notification_rule", lambda form: None, "The rule was removed.", "notification_rule_id"
    ),
    "messages": OwnAction(
        "message_settings_change",
        lambda form: {"recovery_mails": form.get("recovery_mails") == "yes"},
        "Stored.",
    ),
    "renew_calendar": OwnAction(
        "calendars_renew_for_user", lambda form: None, "The calendar has a new address. The old one ends."
    ),
}


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
    if name in OWN_SETTINGS:
        return OWN_SETTINGS[name](request.form)
    action = ACTIONS.get(name)
    if action is None:
        reject("act", "This action does not exist.")
    ids = {action.row_id: request.form.get("row", "")} if action.row_id else {}
    answer = call(
        action.operation, action.build_body(request.form), None, username=viewer().user.username, **ids
    )
    if action.done:
        return action.done
    if "next_step" in answer:
        return _write_next_step(answer) or "Done."
    return str(answer.get("message") or "Done.")


def _set_time_zone(form: Form) -> str:
    """Set the time zone of the person: of all times that pages and messages show."""
    zone = form.get("time_zone", "")
    if not 0 < len(zone) <= User.time_zone.max_length or not is_known_zone(zone):
        reject("time_zone", "Must be the name of a time zone, for example Europe/Berlin.")
    with config_transaction():
        User.update({"time_zone": zone, **User.raise_number()}).where(User.id == viewer().user.id).execute()
    return f"All times are now in {zone}."


def _set_theme(form: Form) -> str:
    """Set the colours in this browser."""
    theme = form.get("theme", "")
    if theme not in ("", *THEMES):
        reject("theme", f"Must be {' or '.join(THEMES)}, or empty.")
    forms.set_cookie(THEME, theme, THEME_COOKIE_S)
    return "Stored for this browser."


OWN_SETTINGS: dict[str, Callable[[Form], str]] = {"time_zone": _set_time_zone, "theme": _set_theme}
