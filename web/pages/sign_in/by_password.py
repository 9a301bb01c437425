"""The sign-in page, and the sign-in with address and password."""

from flask import Response, current_app, request

from models.sign_in import attempts, audit, passwords
from models.sign_in.attempts import TooMany
from models.sign_in.people import find_people, has_verified_address
from models.store.store import store
from models.tables.accounts import User
from web.http.auth import now
from web.pages import forms, signed_in
from web.pages.base import redirect_to, render_page
from web.pages.password_checks import limit_checks
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
    client = signed_in.get_browser().client
    try:
        attempts.count(
            [(attempts.PASSWORD_OF_ADDRESS, address), (attempts.PASSWORD_OF_CLIENT, client)], now()
        )
    except TooMany as many:
        return render_too_many(many, path)
    people = find_people(address)
    user, hashed = _find_match(people, password)
    if user is None:
        _record_failure(people, address, client)
        return render(400, path, problem=WRONG, address=address)
    if len(people) == 1 and has_verified_address(user):
        # Nobody else can end the limit of this address with a password of their own.
        with store().write_transaction():
            attempts.forget(attempts.PASSWORD_OF_ADDRESS, address)
    signed_in.start(user, "password", lambda: passwords.is_current(user, hashed))
    return redirect_to(path)


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


def _find_match(people: list[User], password: str) -> tuple[User | None, str]:
    """Return the first of these people whose password this is, and the hash that was checked."""
    if len(password) > passwords.MAX_LENGTH:
        password = ""
    candidates: list[User | None] = [*people] or [None]
    with limit_checks():
        for user in candidates:
            if hashed := passwords.verify(user, password):
                return user, hashed
    return None, ""


def _record_failure(people: list[User], address: str, client: str) -> None:
    with store().write_transaction():
        attempts.touch(attempts.PASSWORD_OF_ADDRESS, address, now())
        # Anybody can enter the address of somebody else, and would read of that person's attempts.
        for user in filter(has_verified_address, people):
            audit.record(user, "sign_in_failed", now(), actor="somebody", client=client)
