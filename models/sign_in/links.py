"""Links that sign a person in once: printed in a terminal, or sent by mail.

models/links/signed_links.py makes the token of a link from its unique_id.
"""

from datetime import datetime, timedelta

from models.store.ids import digest, make_uuid
from models.tables.accounts import Account, User
from models.tables.sign_in import SignInLink

# The operator opens the link of the terminal at once; the first start of an installation may take longer.
TERMINAL_LIFE = timedelta(hours=1)
MAIL_LIFE = timedelta(minutes=15)
# A person who asks again and again has a few links that work; the oldest end. Anybody can ask for mails, so
# they end no link of the operator.
MAX_LINKS = 5


def create(user: User, now: datetime, life: timedelta) -> SignInLink:
    """Create a link for a person. Needs a write transaction."""
    _delete_oldest(user, life)
    link: SignInLink = SignInLink.create(
        unique_id=make_uuid(), creation_date=now, user=user, address=digest(user.email), ends_at=now + life
    )
    return link


def find(unique_id: str) -> SignInLink | None:
    """Return a link with its person, also if it has expired. None: it was used, or the address is another."""
    link: SignInLink | None = (
        SignInLink.select(SignInLink, User, Account)
        .join(User)
        .join(Account)
        .where(SignInLink.unique_id == unique_id, User.removed_at.is_null())
        .first()
    )
    return link if link is not None and link.address == digest(link.user.email) else None


def use(link: SignInLink) -> bool:
    """Delete the link; return whether this request was the one that used it. Needs a write transaction."""
    return bool(SignInLink.delete().where(SignInLink.id == link.id).execute())


def _delete_oldest(user: User, life: timedelta) -> None:
    """Delete the oldest links of a person that were made in the same way as one with this life."""
    links = SignInLink.select().where(SignInLink.user == user).order_by(SignInLink.id.desc())
    same = [each for each in links if _is_mailed(each.ends_at - each.creation_date) == _is_mailed(life)]
    for each in same[MAX_LINKS - 1 :]:
        SignInLink.delete().where(SignInLink.id == each.id).execute()


def _is_mailed(life: timedelta) -> bool:
    return life <= MAIL_LIFE
