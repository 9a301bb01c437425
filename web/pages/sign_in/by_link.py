"""The page that a sign-in link opens. GET uses nothing, since mail scanners follow links; POST signs in."""

from flask import Response

from models.links import signed_links
from models.sign_in import attempts, links, passwords
from models.sign_in.attempts import TooMany
from models.tables.accounts import get_display_name
from models.tables.sign_in import SignInLink
from web.http.auth import now
from web.pages import clients, signed_in
from web.pages.base import redirect_to, render_page
from web.pages.sign_in.by_password import render_too_many

# Where people choose how they sign in from now on.
OWN_SIGN_IN = "/me/sign-in/"


def show(token: str) -> Response:
    """Show for whom the link is, and a button that signs the person in."""
    link = _find(token)
    if isinstance(link, Response):
        return link
    return render_page(
        "sign_in/link.html", 200, name=get_display_name(link.user), account=link.user.account.name
    )


def sign_in(token: str) -> Response:
    """Sign the person of the link in. A person without a password comes to the page that sets one."""
    link = _find(token)
    if isinstance(link, Response):
        return link
    try:
        attempts.count(clients.list_attempts(attempts.STEP_OF_CLIENT), now())
    except TooMany as many:
        return render_too_many(many, "/")
    try:
        signed_in.start(link.user, "link", lambda: links.use(link))
    except signed_in.WayRemoved:
        # Of two requests with the same link, the other one used it.
        return _render_gone(404)
    has_password = passwords.exists(link.user)
    return redirect_to("/" if has_password else OWN_SIGN_IN)


def _find(token: str) -> SignInLink | Response:
    try:
        link = links.find(signed_links.get_reader().read_sign_in(token))
    except signed_links.BadLink:
        link = None
    if link is None:
        return _render_gone(404)
    return link if link.ends_at > now() else _render_gone(410)


def _render_gone(code: int) -> Response:
    return render_page("sign_in/gone.html", code, is_expired=code == 410)
