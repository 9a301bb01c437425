"""The sessions of people who are signed in to the pages.

A cookie has the secret of a session; the store has its digest. A session ends after some days without a
request, at its absolute end, with the person, and when the ways to sign in change.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

import peewee

from models.store.ids import digest, make_token, make_uuid
from models.store.prepared import Prepared, bind, build_rows
from models.store.store import store
from models.tables.accounts import Account, CustomRole, User
from models.tables.sign_in import Session

# A person on call opens the pages at least once in a rotation, mostly of a week.
IDLE = timedelta(days=14)
ABSOLUTE = timedelta(days=60)
# A person who adds a way to sign in or a token has signed in so recently.
# A stranger at an open browser has not.
RECENT = timedelta(minutes=10)
# The age of a proof that the request itself brings: a password, a link, a passkey.
JUST_NOW = timedelta(0)
# Precision of the last use. A write for each request would cost more than the information is worth.
SEEN_RECORDED_EVERY = timedelta(minutes=5)
# Requests of other tabs are under way when a session gets a new secret. Meanwhile both secrets are valid.
PREVIOUS_VALID = timedelta(minutes=2)
# A person has a few browsers. With one more, the session that was used longest ago ends.
MAX_SESSIONS = 30
USER_AGENT_LIMIT = 120


@dataclass(frozen=True, slots=True)
class Browser:
    """What is known of the browser of a request."""

    user_agent: str = ""
    client: str = ""


def lock_person(user: User) -> bool:
    """Lock a person until the transaction ends; return whether the person is still a member.

    Sessions, passwords and passkeys change under this lock only: nobody gets a session or a passkey by a
    password that another request has just replaced.
    """
    current = User.select(User.id).where(User.id == user.id, User.removed_at.is_null())
    return store().for_update(current).first() is not None


def start(
    user: User, method: str, browser: Browser, now: datetime, *, proof_age: timedelta | None = JUST_NOW
) -> str:
    """Create a session, and return its secret. Needs a write transaction.

    `proof_age`: how long ago the person proved who it is; None: not known.
    """
    secret = make_token()
    _end_oldest(user)
    Session.create(
        unique_id=make_uuid(),
        user=user,
        digest=digest(secret),
        creation_date=now,
        last_seen_at=now,
        ends_at=now + ABSOLUTE,
        method=method,
        user_agent=browser.user_agent[:USER_AGENT_LIMIT],
        rights=describe_rights(user),
        proven_at=None if proof_age is None else now - proof_age,
    )
    return secret


def is_recent(session: Session, now: datetime) -> bool:
    """Return whether the person of the session has proven a few minutes ago who it is."""
    return session.proven_at is not None and now - session.proven_at < RECENT


def exists(session: Session) -> bool:
    """Return whether nobody has ended the session since it was loaded."""
    return bool(Session.select().where(Session.id == session.id).exists())


# A row of a session, of its person, of the account, and of the person's role of the account's own, or nulls.
# An open page asks for it every few seconds.
_SESSION = Prepared(
    lambda: (
        Session.select(Session, User, Account, CustomRole)
        .join(User)
        .join(Account)
        .join_from(User, CustomRole, peewee.JOIN.LEFT_OUTER, on=User.custom_role)
        .where(
            (Session.digest == bind("digest"))
            | ((Session.previous_digest == bind("digest")) & (Session.previous_until > bind("now"))),
            Session.ends_at > bind("now"),
            Session.last_seen_at > bind("used_after"),
            User.removed_at.is_null(),
        )
    )
)


def find(secret: str, now: datetime) -> Session | None:
    """Return the session of a secret with its person, by one query; None: it ended, or never was."""
    values = _SESSION.first(digest=digest(secret), now=now, used_after=now - IDLE)
    if values is None:
        return None
    session, user, account, role = cast(
        "tuple[Session, User, Account, CustomRole | None]",
        build_rows(values, Session, User, Account, CustomRole),
    )
    session.user, user.account, user.custom_role = user, account, role
    return session


def list_sessions(user: User, now: datetime) -> list[Session]:
    """Return the sessions that have not ended, the last used first."""
    current = Session.select().where(
        Session.user == user, Session.ends_at > now, Session.last_seen_at > now - IDLE
    )
    return list(current.order_by(Session.last_seen_at.desc(), Session.id.desc()))


def end(user: User, unique_id: str) -> bool:
    """End one session of a person; return whether it existed. Needs a write transaction."""
    return bool(Session.delete().where(Session.user == user, Session.unique_id == unique_id).execute())


def end_all(user: User | int, *, except_row: int = 0) -> int:
    """End the sessions of a person, except one; return how many. Needs a write transaction."""
    ended = Session.delete().where(Session.user == user, Session.id != except_row)
    return int(ended.execute())


def record_use(session: Session, now: datetime) -> None:
    """Store the time of the last request. Needs a write transaction."""
    Session.update(last_seen_at=now).where(Session.id == session.id).execute()


def is_use_due(session: Session, now: datetime) -> bool:
    """Return whether the stored time of the last request is too old."""
    return bool(now - session.last_seen_at >= SEEN_RECORDED_EVERY)


def describe_rights(user: User) -> str:
    """Return the rights of a person in the account: with others, the session gets a new secret."""
    return f"{user.role}:{user.custom_role_id or ''}"


def is_renewal_due(session: Session, secret: str) -> bool:
    """Return whether the rights have changed since this secret was made.

    The previous secret gets no new one, so who has stolen it can use it no longer than PREVIOUS_VALID.
    """
    return bool(session.rights != describe_rights(session.user) and session.digest == digest(secret))


def renew(session: Session, form_token: str, now: datetime) -> str | None:
    """Give a session a new secret after a change of rights. Needs a write transaction.

    Its open pages keep the token of their forms. Return None if another request did so before: its answer has
    the cookie.
    """
    secret = make_token()
    renewed = Session.update(
        digest=digest(secret),
        previous_digest=session.digest,
        previous_until=now + PREVIOUS_VALID,
        form_token=form_token,
        rights=describe_rights(session.user),
        last_seen_at=now,
    ).where(Session.id == session.id, Session.digest == session.digest)
    return secret if renewed.execute() else None


def renew_later(persons: "Collection[int] | peewee.ModelSelect[User]") -> None:
    """Let the sessions of these persons (row numbers) get a new secret with their next request.

    Rights in teams are in other tables, which a request does not read for this. Needs a write transaction.
    """
    Session.update(rights="").where(Session.user.in_(persons)).execute()


def _end_oldest(user: User) -> None:
    used = Session.select(Session.id).where(Session.user == user)
    rows = [row for (row,) in used.order_by(Session.last_seen_at.desc()).tuples()]
    for row in rows[MAX_SESSIONS - 1 :]:
        Session.delete().where(Session.id == row).execute()
