"""The page that the link in an invitation opens: for the invited person, without login.

GET changes nothing, since mail scanners follow links. POST joins the account once and shows the person's API
token. The page works without JavaScript and loads nothing; its only script adds the browser to the
person's contacts (web/pages/browser_push.py).
"""

from datetime import timedelta

from flask import Response, request

from models.contacts import invitations
from models.contacts.contact_codes import find_own_contacts, verify_contacts
from models.contacts.messages import create_test_message
from models.domain.channels import USER_EMAIL_CHANNEL
from models.links import signed_links
from models.people import provisioning
from models.sign_in import audit, passwords
from models.store.store import store
from models.tables.accounts import User, get_display_name
from web.account.message_limits import count_message
from web.http import serialization
from web.http.auth import now
from web.http.errors import Forbidden, NotFound
from web.http.openapi import document
from web.pages import forms, password_checks, signed_in
from web.pages.base import render_page
from web.pages.browser_push import FRESH, build_paths, subscribe
from workers import queue

# A person who never uses the token should not have it for ever. Others create one of their own.
TOKEN_LIFETIME = timedelta(days=90)

# Problem of a link -> HTTP status of the page.
ERROR_STATUSES = {"unknown": 404, "expired": 410, "used": 410}


def show(token: str) -> Response:
    """Show the invitation of a link."""
    found = _find_invited(token)
    return found if isinstance(found, Response) else _render("invited", 200, found)


def join(token: str) -> Response:
    """Join the account and show a new token. A link works only once.

    With a password, the person is also signed in to the pages. Afterwards, the only use of the link is the
    button that sends the person a test message.
    """
    if request.form.get("act") == "test":
        return _send_test(token)
    found = _find_invited(token)
    if isinstance(found, Response):
        return found
    password = request.form.get("password", "")
    problem = passwords.find_problem(password, found) if password else ""
    if problem:
        return _render("invited", 400, found, problem=problem)
    hashed = _make_hash(password)
    with store().write_transaction():
        if not invitations.join(found):
            return _render_error("used")
        verify_contacts(found.id, found.email)
        audit.record(found, "joined", now(), client=signed_in.get_browser().client)
        if hashed:
            passwords.store_hash(found, hashed, now())
        expires_at = now() + TOKEN_LIFETIME
        new_token = provisioning.issue_token(found, "joined", now(), expires_at)
    # The form of another host can join for nobody: it signs nobody in here.
    is_signed_in = bool(hashed) and forms.has_valid_token()
    if is_signed_in:
        signed_in.start(found, "invitation", lambda: passwords.is_current(found, hashed))
    addresses = {
        "docs": serialization.build_url(f"{document.DOCS}/"),
        "tokens": serialization.build_url("/api/tocsin/tokens/"),
        "until": f"{expires_at:%-d %B %Y}",
    }
    return _render("joined", 200, found, path=token, token=new_token, is_signed_in=is_signed_in, **addresses)


def _make_hash(password: str) -> str:
    """Return the hash of a password; "" for none."""
    if not password:
        return ""
    with password_checks.of_strangers.take():
        return passwords.make_hash(password)


def _send_test(token: str) -> Response:
    """Send a test message to the contact with the invited address, and say so."""
    user = _read_link(token)
    if isinstance(user, Response):
        return user
    contact = next(iter(find_own_contacts(user.id, user.email)), None)
    if not user.is_verified or contact is None:
        return _render_error("unknown")
    with store().write_transaction():
        count_message(user, USER_EMAIL_CHANNEL, contact.value)
        message = create_test_message(contact, get_display_name(user), now())
    queue.enqueue_delivery(message.channel)
    return _render("tested", 200, user, path=token)


def add_browser(token: str) -> dict[str, str]:
    """Let a person who has joined receive messages in the browser that shows the page."""
    user = _read_link(token)
    if isinstance(user, Response) or not user.is_verified:
        raise NotFound
    if now() - signed_links.get_reader().get_invitation_signing_time(token) > FRESH:
        raise Forbidden(detail="This link is older than a day. Use the link of a newer message.")
    return subscribe(user)


def _find_invited(token: str) -> User | Response:
    """Return the invited user of a link, or the page that explains why the person cannot join with it."""
    user = _read_link(token)
    return _render_error("used") if isinstance(user, User) and user.is_verified else user


def _read_link(token: str) -> User | Response:
    """Return the user of a link, who may have joined, or the page that explains why it is not valid."""
    try:
        invitation = signed_links.get_reader().read_invitation(token, now())
    except signed_links.ExpiredLink:
        return _render_error("expired")
    except signed_links.BadLink:
        return _render_error("unknown")
    user = invitations.find_invited(invitation.user)
    if user is None or signed_links.Invitation.for_user(user) != invitation:
        return _render_error("unknown")
    return user


def _render_error(state: str) -> Response:
    return render_page("join.html", ERROR_STATUSES[state], state=state)


def _render(state: str, code: int, user: User, *, path: str = "", **values: object) -> Response:
    """Render the page of a state. `path`: the token of the link, if the browser can be added now."""
    push = build_paths(f"/join/{path}/browser/") if path else None
    names = invitations.list_teams(user)
    return render_page(
        "join.html", code, state=state, user=user, name=get_display_name(user), account=user.account.name,
        teams=names, push=push, min_length=passwords.MIN_LENGTH, **values,
    )  # fmt: skip
