"""Add passkeys, and sign in with them (WebAuthn).

The browser signs a challenge together with the origin of the page, so a page of another host cannot use it.
A passkey is the only factor: the device must check its person (user verification).
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Response, current_app, request

from models.domain.identity import is_uuid
from models.sign_in import attempts, audit, passkeys, steps
from models.sign_in.attempts import Limit, TooMany
from models.store.store import store
from models.tables.accounts import User, get_display_name
from models.tables.sign_in import Passkey
from web.http import serialization
from web.http.auth import now, viewer
from web.http.errors import Forbidden, NotFound, Throttled, reject
from web.pages import clients, forms, signed_in
from web.pages.base import build_url, redirect_to
from web.pages.sign_in.by_link import OWN_SIGN_IN

if TYPE_CHECKING:
    from web.pages.sign_in.passkey_checks import Begun, NewPasskey

# The purpose of the cookie with the secret of the step.
COOKIE = "step"
REGISTER, SIGN_IN = "register", "passkey"
MAX_PASSKEYS = 20
# As the column. An id has at most 1,023 bytes (WebAuthn, section 4).
MAX_ID = 1_400
NAME_LIMIT = 120
# What browsers send is mostly below 2 KB.
BODY_LIMIT = 16 * 1024
REFUSED = "This passkey was refused. Sign in in another way, and add it again."


def begin_registration() -> Response:
    """Return what the browser needs to make a passkey."""
    # Not at the start of the process: see passkey_checks.py.
    from web.pages.sign_in import passkey_checks

    user = viewer().user
    _require_recent()
    _count((attempts.PASSKEY_OF_PERSON, user.username))
    known = passkeys.list_own(user)
    begun = passkey_checks.begin_registration(
        _get_host(), user.username, user.email, get_display_name(user), [row.credential_id for row in known]
    )
    return _begin(REGISTER, begun, user=user.username)


def register() -> dict[str, str]:
    """Store the passkey that the browser made."""
    from web.pages.sign_in.passkey_checks import Asked, check_registration

    user = viewer().user
    _require_recent()
    body = _read_body()
    name = str(body.get("name") or "Passkey").strip()[:NAME_LIMIT]
    if not name.isprintable():
        reject("name", "Write a name without control characters.")
    values = _finish(REGISTER)
    if values is None or values["user"] != user.username:
        reject("credential", "It took too long. Try again.")
    asked = Asked(values["challenge"], _get_host(), _get_origin())
    made = check_registration(_get_object(body.get("credential")), asked)
    if made is None:
        reject("credential", "The passkey could not be checked. Try again, or use another device.")
    _store(user, name, made)
    return {"next": build_url(f"{OWN_SIGN_IN}?done=passkey")}


def _require_recent() -> None:
    if not signed_in.is_recent():
        raise Forbidden(detail="You signed in some time ago. Sign in again, then add the passkey.")


def _store(user: User, name: str, made: "NewPasskey") -> None:
    if len(made.credential_id) > MAX_ID:
        reject("credential", "This passkey has an id that is too long.")
    with store().write_transaction():
        signed_in.require_current()
        if passkeys.count_own(user) >= MAX_PASSKEYS:
            reject("credential", f"You have {MAX_PASSKEYS} passkeys. Remove one of them first.")
        if passkeys.is_known(made.credential_id):
            reject("credential", "This passkey was added before.")
        passkeys.add(
            user,
            name,
            now(),
            credential_id=made.credential_id,
            public_key=made.public_key,
            sign_count=made.sign_count,
        )
        audit.record(user, "passkey_added", now(), client=signed_in.get_browser().client, detail=name)


def remove(passkey_id: str) -> Response:
    """Remove a passkey of the person."""
    user = viewer().user
    if not is_uuid(passkey_id):
        raise NotFound
    with store().write_transaction():
        signed_in.require_current()
        if not passkeys.remove(user, passkey_id):
            raise NotFound
        audit.record(user, "passkey_removed", now(), client=signed_in.get_browser().client)
    return redirect_to(f"{OWN_SIGN_IN}?done=removed")


def begin_sign_in() -> Response:
    """Return the challenge that a passkey signs. The browser knows which passkeys it has for this host."""
    from web.pages.sign_in import passkey_checks

    _count(*clients.list_attempts(attempts.STEP_OF_CLIENT))
    return _begin(SIGN_IN, passkey_checks.begin_sign_in(_get_host()))


def sign_in() -> dict[str, str]:
    """Sign in the person whose passkey signed the challenge."""
    _count(*clients.list_attempts(attempts.STEP_OF_CLIENT))
    body = _read_body()
    values = _finish(SIGN_IN)
    if values is None:
        reject("credential", "It took too long. Try again.")
    passkey = _verify(body.get("credential"), values)
    if passkey is None:
        reject("credential", REFUSED)
    detail = f"passkey {passkey.name}"
    signed_in.start(passkey.user, "passkey", lambda: passkeys.exists(passkey), detail=detail)
    text = body.get("next")
    return {"next": build_url(forms.find_next(text if isinstance(text, str) else None))}


def _verify(credential: object, values: Mapping[str, str]) -> Passkey | None:
    """Return the passkey that signed the challenge of these values; None: there is none."""
    from web.pages.sign_in.passkey_checks import Asked, check_sign_in

    passkey = _find(credential)
    if passkey is None:
        return None
    asked = Asked(values["challenge"], _get_host(), _get_origin())
    sign_count = check_sign_in(_get_object(credential), asked, passkey.public_key, passkey.sign_count)
    if sign_count is None:
        return None
    with store().write_transaction():
        return passkey if passkeys.record_use(passkey, sign_count, now()) else None


def _find(credential: object) -> Passkey | None:
    """Return the stored passkey of a credential, with its current person."""
    name = credential.get("id") if isinstance(credential, dict) else None
    if not isinstance(name, str) or not name.isascii() or not name.isprintable():
        return None
    return passkeys.find(name)


def _get_object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _count(*counted: tuple[Limit, str]) -> None:
    """Count a step of this client or person, or raise Throttled."""
    try:
        attempts.count(counted, now())
    except TooMany as many:
        raise Throttled(many.retry_after_s) from None


def _begin(kind: str, begun: "Begun", **values: str) -> Response:
    with store().write_transaction():
        secret = steps.begin(kind, {"challenge": begun.challenge, **values}, now())
    forms.set_cookie(COOKIE, secret, int(steps.LIFE.total_seconds()))
    return Response(begun.options, mimetype=serialization.JSON)


def _finish(kind: str) -> dict[str, str] | None:
    forms.set_cookie(COOKIE, "", 0)
    with store().write_transaction():
        return steps.finish(forms.read_cookie(COOKIE), kind, now())


def _read_body() -> dict[str, object]:
    request.max_content_length = BODY_LIMIT
    try:
        body = json.loads(serialization.read_bytes())
    except (ValueError, RecursionError):
        reject("body", "This is not JSON.")
    if not isinstance(body, dict):
        reject("body", "Send an object.")
    return body


def _get_host() -> str:
    return urlsplit(current_app.config["SETTINGS"].public_url).hostname or ""


def _get_origin() -> str:
    url = urlsplit(current_app.config["SETTINGS"].public_url)
    return f"{url.scheme}://{url.netloc}"
