"""The page on which people manage how they sign in: password, passkeys and sessions."""

from flask import Response, current_app, request

from models.domain.identity import is_uuid
from models.sign_in import attempts, audit, passkeys, passwords, sessions
from models.sign_in.attempts import TooMany
from models.store.store import store
from models.tables.accounts import User
from web.http.auth import now, viewer
from web.http.errors import NotFound
from web.pages import password_checks, signed_in
from web.pages.base import redirect_to, render_page
from web.pages.sign_in.by_link import OWN_SIGN_IN
from web.pages.sign_in.passkey_paths import build_paths, find_obstacle


def show() -> Response:
    """Show the ways to sign in of the person, and the sessions."""
    return _render(200)


def set_password() -> Response:
    """Set a new password. All other sessions of the person end."""
    user, session = viewer().user, signed_in.get_session()
    new = request.form.get("new", "")
    needs_current = _needs_current(user)
    if not needs_current and not signed_in.is_recent():
        return signed_in.ask_again(OWN_SIGN_IN)
    problem = passwords.find_problem(new, user)
    if not problem and needs_current:
        problem = _find_problem_of_current(user)
    if problem:
        return _render(400, problem=problem)
    with password_checks.of_known.take():
        hashed = passwords.make_hash(new)
    with store().write_transaction():
        # A change of the password by another request has ended this session.
        signed_in.require_current()
        passwords.store_hash(user, hashed, now(), except_session=session.id)
        audit.record(user, "password_changed", now(), client=signed_in.get_browser().client)
    return redirect_to(f"{OWN_SIGN_IN}?done=password")


def end_session(session_id: str) -> Response:
    """End one session of the person, or all others."""
    user, session = viewer().user, signed_in.get_session()
    if session_id != "others" and not is_uuid(session_id):
        raise NotFound
    if session_id == session.unique_id:
        return signed_in.sign_out()
    with store().write_transaction():
        if session_id == "others":
            ended = sessions.end_all(user, except_row=session.id)
        else:
            ended = int(sessions.end(user, session_id))
        if ended:
            audit.record(user, "session_ended", now(), client=signed_in.get_browser().client)
    return redirect_to(f"{OWN_SIGN_IN}?done=session")


def _find_problem_of_current(user: User) -> str:
    """Return why the current password of the form is refused; "": it is right."""
    client = signed_in.get_browser().client
    try:
        # Nobody else is signed in as this person, so that strangers cannot use this limit up.
        attempts.count([(attempts.PASSWORD_OF_BROWSER, user.username)], now())
    except TooMany:
        return "There were too many attempts. Try again later, or sign in in another way."
    current = request.form.get("current", "")
    with password_checks.of_known.take():
        is_right = passwords.verify(user, current)
    if is_right:
        return ""
    with store().write_transaction():
        audit.record(user, "sign_in_failed", now(), client=client)
    return "The current password is wrong."


def _needs_current(user: User) -> bool:
    """Return whether a new password needs the current one: a stranger at an open browser does not know it.

    A person who has just signed in by a link or a passkey may have forgotten the password.
    """
    may_have_forgotten = signed_in.is_recent() and signed_in.get_session().method != "password"
    return not may_have_forgotten and passwords.exists(user)


CONFIRMATIONS = {
    "password": "The password is set. All other sessions have ended.",
    "session": "The session has ended.",
    "passkey": "The passkey is added.",
    "removed": "The passkey is removed.",
}


# Words of the header User-Agent and their names. The first that occurs counts: most browsers name others too.
BROWSERS = {"Edg": "Edge", "OPR": "Opera", "Firefox": "Firefox", "Chrom": "Chrome", "Safari": "Safari"}
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Mac OS": "macOS",
    "Windows": "Windows",
    "Linux": "Linux",
}
UNKNOWN_BROWSER_LIMIT = 40


def describe_browser(user_agent: str) -> str:
    """Return the name of a browser and its system; what it says of itself if it is not known."""
    browser = next((name for word, name in BROWSERS.items() if word in user_agent), "")
    system = next((name for word, name in SYSTEMS.items() if word in user_agent), "")
    if not browser:
        return user_agent[:UNKNOWN_BROWSER_LIMIT] or "Unknown browser"
    return f"{browser} on {system}" if system else browser


def _render(code: int, problem: str = "") -> Response:
    user, current = viewer().user, signed_in.get_session()
    obstacle = find_obstacle(current_app.config["SETTINGS"].public_url)
    listed = [
        {
            "id": session.unique_id,
            "is_current": session.id == current.id,
            "browser": describe_browser(session.user_agent),
            "method": session.method,
            "since": session.creation_date,
            "seen": session.last_seen_at,
        }
        for session in sessions.list_sessions(user, now())
    ]
    return render_page(
        "sign_in/own.html",
        code,
        user=user,
        sessions=listed,
        problem=problem,
        passkeys=None if obstacle else build_paths("create", "/me/passkeys/"),
        obstacle=obstacle,
        known=[
            {
                "id": each.unique_id,
                "name": each.name,
                "since": each.creation_date,
                "used": each.last_used_at,
            }
            for each in passkeys.list_own(user)
        ],
        is_admin=viewer().is_admin,
        confirmation=CONFIRMATIONS.get(request.args.get("done", ""), ""),
        needs_current=_needs_current(user),
        is_recent=signed_in.is_recent(),
        min_length=passwords.MIN_LENGTH,
    )
