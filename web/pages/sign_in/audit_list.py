"""The audit list: sign-ins and changes of rights, for the owner and admins of the account."""

from flask import Response, request

from models.domain.audit_actions import ACTIONS
from models.sign_in import audit
from models.tables.accounts import get_display_name
from web.http.auth import viewer
from web.http.fields import MAX_INTEGER
from web.pages.base import render_page

PAGE_SIZE = 100


def show() -> Response:
    """Show the newest entries, or those before a row."""
    me = viewer()
    found = audit.list_entries(me.account, before=_read_row(), limit=PAGE_SIZE + 1)
    entries = [
        {
            "at": entry.at,
            "actor": entry.actor,
            "text": ACTIONS.get(entry.action, entry.action),
            "person": get_display_name(entry.user) if entry.user else "",
            "address": entry.user.email if entry.user else "",
            "client": entry.client,
            "detail": entry.detail,
        }
        for entry in found[:PAGE_SIZE]
    ]
    older = found[PAGE_SIZE - 1].id if len(found) > PAGE_SIZE else None
    return render_page("sign_in/audit.html", 200, entries=entries, older=older, account=me.account.name)


def _read_row() -> int | None:
    text = request.args.get("before", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 12
    return min(int(text), MAX_INTEGER) if is_number else None
