"""Sign in at an OpenID provider: the browser goes there, and comes back with a code.

A person with the same address in several accounts chooses one of them.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import structlog
from flask import Response, current_app, request

from models.contacts.contact_codes import verify_contacts
from models.sign_in import attempts, identities, sessions, steps
from models.sign_in.attempts import TooMany
from models.sign_in.identities import ProvenIdentity
from models.store.store import store
from models.tables.accounts import User
from runtime.settings import Settings
from web.http.auth import now
from web.http.errors import Busy, NotFound
from web.pages import clients, forms, signed_in
from web.pages.base import redirect_away, redirect_to, render_page
from web.pages.sign_in.by_password import render, render_too_many
from web.pages.sign_in.provider import CLOCK_SKEW_S, ProviderError

log = structlog.get_logger()

# The purpose of the cookie with the secret of the step, and the kinds of steps.
COOKIE = "step"
KIND, CHOICE = "provider", "account"
# A provider that hangs must not occupy all threads of the process.
MAX_REQUESTS = 4
_requests = threading.BoundedSemaphore(MAX_REQUESTS)
OUTDATED = "This sign-in took too long, or was begun elsewhere. Try again."
UNKNOWN = "No member of this Tocsin has your identity. Ask an admin to invite your address."
CLOCK_SKEW = timedelta(seconds=CLOCK_SKEW_S)
# A query that is longer is no answer of a provider.
QUERY_LIMIT = 8_000


def begin() -> Response:
    """Send the browser to the provider."""
    # Not at the start of the process: see provider_client.py.
    from web.pages.sign_in.provider_client import ProviderClient

    settings = _get_settings()
    path = forms.find_next(request.args.get("next"))
    try:
        attempts.count(clients.list_attempts(attempts.STEP_OF_CLIENT), now())
        with _limit_requests():
            start = ProviderClient(settings).begin(is_again=request.args.get("again") == "1")
    except TooMany as many:
        return render_too_many(many, path)
    except ProviderError as error:
        return _refuse(error, path)
    _begin_step(KIND, {**start.values, "next": path})
    return redirect_away(start.url)


def finish() -> Response:
    """Sign in the person whom the provider names, or ask for the account."""
    from web.pages.sign_in.provider_client import ProviderClient

    settings = _get_settings()
    values = _finish_step(KIND)
    if values is None or len(request.query_string) > QUERY_LIMIT:
        return render(400, "/", problem=OUTDATED)
    path = values["next"]
    try:
        with _limit_requests():
            identity = ProviderClient(settings).finish(request.args, values, now().timestamp())
    except ProviderError as error:
        return _refuse(error, path)
    people = identities.list_people(identity)
    if not people:
        return render(403, path, problem=UNKNOWN)
    if len(people) > 1:
        return _ask_for_account(people, identity, path)
    return _sign_in(people[0], identity, path)


def choose_account() -> Response:
    """Sign in the person in the account that was chosen."""
    _get_settings()
    values = _finish_step(CHOICE)
    if values is None:
        return render(400, "/", problem=OUTDATED)
    identity = _load(values["identity"])
    chosen = request.form.get("person", "")
    user = next((each for each in identities.list_people(identity) if each.username == chosen), None)
    if user is None:
        return render(403, values["next"], problem=UNKNOWN)
    return _sign_in(user, identity, values["next"])


def _ask_for_account(people: Sequence[User], identity: ProvenIdentity, path: str) -> Response:
    _begin_step(CHOICE, {"identity": _dump(identity), "next": path})
    listed = [{"person": user.username, "account": user.account.name} for user in people]
    return render_page("sign_in/accounts.html", 200, people=listed)


def _sign_in(user: User, identity: ProvenIdentity, path: str) -> Response:
    settings = _get_settings()
    with store().write_transaction():
        if identities.link(user, identity, now()):
            # The provider has verified the address that a contact may have too.
            verify_contacts(user.id, user.email)
        # The member may have changed since it was found, and then has no link with this identity.
        if sessions.lock_person(user) and identities.is_linked(user, identity):
            identities.join_teams(user, identity.groups, settings.oidc_groups, now())
    signed_in.start(
        user,
        "provider",
        lambda: identities.is_linked(user, identity),
        detail=settings.oidc_name,
        proof_age=_find_proof_age(identity, now()),
    )
    return redirect_to(path)


def _find_proof_age(identity: ProvenIdentity, at: datetime) -> timedelta | None:
    """Return how long ago the person proved to the provider who it is; None: not known.

    A time in the future says nothing, except within the usual difference of two clocks.
    """
    if identity.signed_in_at is None:
        return None
    age = at - datetime.fromtimestamp(identity.signed_in_at, UTC)
    return max(age, sessions.JUST_NOW) if age >= -CLOCK_SKEW else None


def _dump(identity: ProvenIdentity) -> str:
    """Return an identity as text, with the groups that have a team."""
    named = {group for group, _ in _get_settings().oidc_groups}
    groups = tuple(group for group in identity.groups if group in named)
    return json.dumps(asdict(replace(identity, groups=groups)))


def _load(text: str) -> ProvenIdentity:
    values = json.loads(text)
    return ProvenIdentity(**{**values, "groups": tuple(values["groups"])})


def _begin_step(kind: str, values: dict[str, str]) -> None:
    with store().write_transaction():
        secret = steps.begin(kind, values, now())
    forms.set_cookie(COOKIE, secret, int(steps.LIFE.total_seconds()))


def _finish_step(kind: str) -> dict[str, str] | None:
    forms.set_cookie(COOKIE, "", 0)
    with store().write_transaction():
        return steps.finish(forms.read_cookie(COOKIE), kind, now())


def _get_settings() -> Settings:
    """Return the settings. NotFound if they name no provider."""
    settings: Settings = current_app.config["SETTINGS"]
    if not settings.oidc_issuer:
        raise NotFound
    return settings


def _refuse(error: ProviderError, path: str) -> Response:
    # The texts are ours, and the names of errors have no data of people.
    log.warning("sign-in at the provider failed", reason=str(error), cause=type(error.__cause__).__name__)
    return render(502 if "reached" in str(error) else 403, path, problem=str(error))


@contextmanager
def _limit_requests() -> Iterator[None]:
    if not _requests.acquire(timeout=1.0):
        raise Busy
    try:
        yield
    finally:
        _requests.release()
