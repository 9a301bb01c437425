"""The page on which people manage their API tokens, with the operations of the interface."""

from datetime import timedelta

from flask import Response, request

from models.store.store import store
from web.account import tokens
from web.http.auth import now, viewer
from web.http.errors import BadRequest
from web.pages import signed_in
from web.pages.base import redirect_to, render_page

PATH = "/me/tokens/"
NAME_LIMIT = 255
# Days until a token ends, as the form offers them; "": never.
LIVES = ("30", "90", "365", "")


def show() -> Response:
    """Show the valid tokens of the person."""
    return _render(200)


def create() -> Response:
    """Create a token, and show it once."""
    if not signed_in.is_recent():
        return signed_in.ask_again(PATH)
    name, days = request.form.get("name", "").strip(), request.form.get("days", "90")
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        return _render(400, problem=f"Name: write what the token is for, in at most {NAME_LIMIT} characters.")
    if days not in LIVES:
        return _render(400, problem="Days: choose one of the list.")
    expires_at = now() + timedelta(days=int(days)) if days else None
    try:
        with store().write_transaction():
            signed_in.require_current()
            made = tokens.create_for(viewer().user, {"name": name, "expires_at": expires_at})
    except BadRequest as error:
        return _render(400, problem=" ".join(str(text) for texts in error.fields.values() for text in texts))
    return _render(201, token=str(made["token"]))


def revoke(token_id: str) -> Response:
    """Revoke a token of the person."""
    tokens.TOKENS.destroy(username=viewer().user.username, token_id=token_id)
    return redirect_to(PATH)


def _render(code: int, *, problem: str = "", token: str = "") -> Response:
    user = viewer().user

    listed = [
        {
            "id": each.unique_id,
            "name": each.name,
            "created": each.created_at,
            "ends": each.expires_at,
            "used": each.last_used_at,
        }
        for each in tokens.TOKENS.select_rows(user).order_by(tokens.Token.id.desc())
    ]
    return render_page(
        "sign_in/tokens.html", code, tokens=listed, problem=problem, token=token, lives=LIVES,
        is_recent=signed_in.is_recent(),
    )  # fmt: skip
