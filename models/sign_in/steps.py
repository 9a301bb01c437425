"""The first step of a sign-in in two steps: what the second one must match. Each is used once."""

from datetime import datetime, timedelta

from models.store.ids import digest, make_token
from models.tables.sign_in import SignInStep

LIFE = timedelta(minutes=10)


def begin(kind: str, values: dict[str, str], now: datetime) -> str:
    """Store what the second step must match; return the secret for the browser. Needs a transaction."""
    secret = make_token()
    SignInStep.create(digest=digest(secret), kind=kind, values=values, ends_at=now + LIFE)
    return secret


def finish(secret: str | None, kind: str, now: datetime) -> dict[str, str] | None:
    """Delete the step of a secret, and return its values. None: there is none. Needs a transaction."""
    if secret is None:
        return None
    step = SignInStep.get_or_none(SignInStep.digest == digest(secret), SignInStep.kind == kind)
    if step is None or not SignInStep.delete().where(SignInStep.id == step.id).execute():
        return None
    values: dict[str, str] = step.values
    return values if step.ends_at > now else None
