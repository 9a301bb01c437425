"""Send a sign-in link by mail. The answer is the same whether or not a member has the address.

The mail is written in another thread, so that the time of the answer does not say it either.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import structlog
from flask import Response, current_app, request

from models.changes.record import Actor
from models.contacts.messages import create_sign_in_message
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import Way
from models.sign_in import attempts, audit, links
from models.sign_in.attempts import TooMany
from models.sign_in.people import find_people, has_verified_address
from models.store.store import connection, store
from models.tables.accounts import User
from web.account import message_limits
from web.http.auth import now
from web.http.errors import Busy, Throttled
from web.pages import clients, forms, signed_in
from web.pages.sign_in.by_password import render, render_too_many
from workers import queue

log = structlog.get_logger()

# One thread, and so many addresses for it. Each takes some milliseconds.
MAX_PENDING = 50
_thread = ThreadPoolExecutor(1, thread_name_prefix="sign-in-mail")
_pending = threading.BoundedSemaphore(MAX_PENDING)

SENT = "If a member has this address, a mail with a link is on its way. The link works once, for 15 minutes."
NO_RELAY = "Tocsin has no mail relay, so it sends no link. Sign in in another way, or ask the operator."


def send() -> Response:
    """Send a link to the members with a proven address who have joined."""
    path = forms.find_next(request.form.get("next"))
    if not current_app.config["SETTINGS"].smtp_host:
        return render(400, path, problem=NO_RELAY)
    address = request.form.get("address", "").strip()
    client = signed_in.get_browser().client
    try:
        of_client = clients.list_attempts(attempts.MAIL_OF_CLIENT)
        attempts.count([(attempts.MAIL_TO_ADDRESS, address), *of_client], now())
    except TooMany as many:
        return render_too_many(many, path)
    if not _pending.acquire(blocking=False):
        raise Busy
    _thread.submit(_write_mails, address, client, now()).add_done_callback(_log_failure)
    return render(200, path, confirmation=SENT)


def _write_mails(address: str, client: str, at: datetime) -> None:
    """Store a mail with a link for each member with this address, who has proven it."""
    try:
        with connection(), store().write_transaction():
            found = (user for user in find_people(address) if user.is_verified)
            proven = (user for user in found if has_verified_address(user))
            people = [user for user in proven if _may_get_mail(user, at)]
            for user in people:
                link = links.create(user, at, links.MAIL_LIFE)
                create_sign_in_message(user, link.unique_id, at)
                audit.record(user, "link_created", at, actor=Actor("somebody", Way.PAGE, client=client))
        if people:
            queue.enqueue_delivery(USER_EMAIL_CHANNEL)
    finally:
        _pending.release()


def _may_get_mail(user: User, at: datetime) -> bool:
    """Count the mail with the others that people request for this address. Return whether it may be sent."""
    try:
        message_limits.count_sign_in(user, at)
    except Throttled:
        return False
    return True


def _log_failure(written: "Future[None]") -> None:
    """Log that the mail was not stored. The person asks again."""
    if error := written.exception():
        log.error("a mail with a sign-in link was not stored", cause=type(error).__name__)
