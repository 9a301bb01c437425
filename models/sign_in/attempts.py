"""Limit the attempts to sign in, for each address and for each client, in all processes and hosts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from models.domain.addresses import normalize
from models.store.ids import digest
from models.store.store import store
from models.tables.sign_in import SignInRate

QUARTER_S = 15 * 60.0


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `count` attempts in `seconds`, of one value of this kind."""

    kind: str
    count: int
    seconds: float


# A person mistypes a few times; a program needs thousands. The limits of one way to sign in do not lock the
# others: a stranger who fails on purpose keeps nobody out. With a browser that a person has used before, the
# password works too: its wrong passwords count apart.
PASSWORD_OF_ADDRESS = Limit("password", 10, QUARTER_S)
PASSWORD_OF_CLIENT = Limit("password client", 60, QUARTER_S)
PASSWORD_OF_BROWSER = Limit("password browser", 10, QUARTER_S)
# The checks of passwords of all new browsers together, each 0.15 s of a core, and the part of one client:
# beyond them no password is checked. The time is short, so that nobody is kept out for long.
PASSWORD_OF_ALL = Limit("password all", 30, 10.0)
PASSWORD_BURST_OF_CLIENT = Limit("password burst", 15, 10.0)
MAIL_TO_ADDRESS = Limit("mail", 5, QUARTER_S)
MAIL_OF_CLIENT = Limit("mail client", 30, QUARTER_S)
STEP_OF_CLIENT = Limit("step client", 120, QUARTER_S)
PASSKEY_OF_PERSON = Limit("passkey", 20, QUARTER_S)


class TooMany(Exception):
    """There were too many attempts. `retry_after_s`: the seconds until the next one is possible."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(retry_after_s)
        self.retry_after_s = retry_after_s


def count(attempts: Sequence[tuple[Limit, str]], now: datetime) -> None:
    """Count an attempt for each of these values, or raise TooMany and count none."""
    now_s = now.timestamp()
    by_key = {_make_key(limit, value): limit for limit, value in attempts}
    if not by_key:
        return
    # Without a lock first, so that a client with far too many attempts does not keep others waiting.
    for row in SignInRate.select().where(SignInRate.key.in_(list(by_key))):
        _check(by_key[row.key], row.recent, now_s)
    with store().write_transaction():
        # In one order, so that two requests cannot deadlock.
        for key in sorted(by_key):
            SignInRate.insert(key=key, recent=[], used_at=now).on_conflict_ignore().execute()
            row = store().for_update(SignInRate.select().where(SignInRate.key == key)).get()
            recent = _check(by_key[key], row.recent, now_s)
            SignInRate.update(recent=[*recent, now_s], used_at=now).where(SignInRate.id == row.id).execute()


def take_back(attempts: Sequence[tuple[Limit, str]], now: datetime) -> None:
    """Do not count an attempt of this time, which was no failure. Needs a write transaction."""
    now_s = now.timestamp()
    for key in sorted(_make_key(limit, value) for limit, value in attempts):
        row = store().for_update(SignInRate.select().where(SignInRate.key == key)).first()
        if row is not None and now_s in row.recent:
            row.recent.remove(now_s)
            SignInRate.update(recent=row.recent).where(SignInRate.id == row.id).execute()


def touch(limit: Limit, value: str, now: datetime) -> None:
    """Write the row of a counted attempt again. Needs a write transaction.

    A transaction that writes nothing ends sooner than one that writes, which strangers could measure.
    """
    SignInRate.update(used_at=now).where(SignInRate.key == _make_key(limit, value)).execute()


def forget(limit: Limit, value: str) -> None:
    """Forget the attempts of a value, after one succeeded. Needs a write transaction."""
    SignInRate.delete().where(SignInRate.key == _make_key(limit, value)).execute()


def _check(limit: Limit, recent: Sequence[float], now_s: float) -> list[float]:
    counted = [moment for moment in recent if now_s - limit.seconds < moment <= now_s + 1]
    if len(counted) >= limit.count:
        raise TooMany(max(math.ceil(counted[0] + limit.seconds - now_s), 1))
    return counted


def _make_key(limit: Limit, value: str) -> str:
    return digest(f"{limit.kind}:{normalize(value)}")
