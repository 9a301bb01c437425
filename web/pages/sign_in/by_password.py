"""The sign-in page, and the sign-in with address and password."""

from flask import Response, current_app, request

from models.changes.record import Actor
from models.domain.addresses import is_same_address
from models.domain.enums import Way
from models.sign_in import attempts, audit, passwords, people
from models.sign_in.attempts import TooMany
from models.sign_in.people import find_people, has_verified_address
from models.store.store import store
from models.tables.accounts import User
from web.http.auth import now
from web.pages import clients, forms, password_checks, signed_in
from web.pages.base import redirect_to, render_page
from web.pages.sign_in.passkey_paths import build_paths, find_obstacle

WRONG = "The address or the password is wrong."


def show() -> Response:
    """Show the sign-in page."""
    return render(200, forms.find_next(request.args.get("next")))


def sign_in() -> Response:
    """Sign a person in with address and password.

    The answer and its time do not depend on whether the address is known.
    """
    path = forms.find_next(request.form.get("next"))
    address = request.form.get("address", "").strip()
    password = request.form.get("password", "")
    person, device = _find_known(address)
    known = _check_known(person, device, password) if person is not None else None
    if person is not None and known:
        signed_in.start(person, "password", lambda: passwords.is_current(person, known))
        return redirect_to(path)
    counted = [
        (attempts.PASSWORD_OF_ADDRESS, address),
        (attempts.PASSWORD_OF_ALL, ""),
        *clients.list_attempts(attempts.PASSWORD_OF_CLIENT, attempts.PASSWORD_BURST_OF_CLIENT),
    ]
    try:
        attempts.count(counted, now())
    except TooMany as many:
        if person is None or known is None:
            return render_too_many(many, path)
        # Strangers used the limits up, and this person may go on.
        _record_failure([person], address)
        return render(400, path, problem=WRONG, address=address)
    people = find_people(address)
    with password_checks.of_strangers.take():
        user, hashed = passwords.find_match(people, password)
    if user is None:
        _record_failure(people, address)
        return render(400, path, problem=WRONG, address=address)
    with store().write_transaction():
        attempts.take_back(counted[1:], now())
        if len(people) == 1 and has_verified_address(user):
            # Nobody else can end the limit of this address with a password of their own.
            attempts.forget(attempts.PASSWORD_OF_ADDRESS, address)
    signed_in.start(user, "password", lambda: passwords.is_current(user, hashed))
    return redirect_to(path)


def _find_known(address: str) -> tuple[User | None, str]:
    """Return the member with this address who has last signed in with this browser, and the browser's ID."""
    known = clients.find_known()
    if known is None:
        return None, ""
    username, device = known
    user = people.find_by_username(username)
    return user if user is not None and is_same_address(user.email, address) else None, device


def _check_known(person: User, device: str, password: str) -> str | None:
    """Return the hash of the person's password if this is it; "": it is not; None: too many attempts.

    What strangers do with the address neither counts here nor keeps the person waiting.
    """
    attempt = (attempts.PASSWORD_OF_BROWSER, f"{person.username} {device}")
    try:
        attempts.count([attempt], now())
    except TooMany:
        return None
    with password_checks.of_known.take():
        hashed = passwords.verify(person, password)
    if hashed is None:
        return ""
    with store().write_transaction():
        attempts.forget(*attempt)
    return hashed


def render_too_many(many: TooMany, path: str) -> Response:
    """Render the sign-in page for a client with too many attempts."""
    minutes = -(-many.retry_after_s // 60)
    problem = f"There were too many attempts. Try again in {minutes} min, or sign in in another way."
    response = render(429, path, problem=problem)
    response.headers["Retry-After"] = str(many.retry_after_s)
    return response


def render(code: int, path: str, *, problem: str = "", confirmation: str = "", address: str = "") -> Response:
    """Render the sign-in page. `path` is where the person wants to go."""
    settings = current_app.config["SETTINGS"]
    obstacle = find_obstacle(settings.public_url)
    passkeys = None if obstacle else build_paths("get", "/sign-in/passkey/", path)
    return render_page(
        "sign_in/sign_in.html",
        code,
        path=path,
        problem=problem,
        confirmation=confirmation,
        address=address,
        passkeys=passkeys,
        obstacle=obstacle,
        sends_mail=bool(settings.smtp_host),
        provider=settings.oidc_issuer and settings.oidc_name,
        is_again=request.values.get("again") == "1",
    )


def _record_failure(people: list[User], address: str) -> None:
    client = signed_in.get_browser().client
    with store().write_transaction():
        attempts.touch(attempts.PASSWORD_OF_ADDRESS, address, now())
        # Anybody can enter the address of somebody else, and would read of that person's attempts.
        for user in filter(has_verified_address, people):
            audit.record(user, "sign_in_failed", now(), actor=Actor("somebody", Way.PAGE, client=client))
