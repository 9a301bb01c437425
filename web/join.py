"""The page behind an invitation: for who was invited, without a login.

GET shows and never changes anything, since mail scanners follow links; POST joins, once, and shows the token
that the person speaks with from now on. Works without JavaScript and loads nothing from anywhere.
"""

from flask import Response

from models import founding, links
from models.accounts import Account, User, display_name
from models.base import store
from models.teams import Team, TeamMember
from web import openapi, wire
from web.auth import now
from web.pages import page

# What the page says of a link that leads nowhere -> its status.
ENDS = {"unknown": 404, "expired": 410, "used": 410}


def show(token: str) -> Response:
    """Show to what a link invites."""
    found = _invited(token)
    return found if isinstance(found, Response) else _page("invited", 200, found)


def join(token: str) -> Response:
    """Join the account, and get a token of one's own; nothing for a link that was used."""
    found = _invited(token)
    if isinstance(found, Response):
        return found
    with store().writing():
        joined = User.update(is_verified=True).where(
            User.id == found.id, ~User.is_verified, User.email == found.email, User.removed_at.is_null()
        )
        if not joined.execute():
            return _end("used")
        made = founding.new_token_for(found, "joined", now())
    addresses = {"profile": wire.link("/api/user/profile/"), "docs": wire.link(f"{openapi.DOCS}/")}
    return _page("joined", 200, found, token=made, **addresses)


def _invited(token: str) -> User | Response:
    """Whom the link invites, or the page that says why it does no more."""
    try:
        invitation = links.read_invitation(token, now())
    except links.ExpiredLink:
        return _end("expired")
    except links.BadLink:
        return _end("unknown")
    query = User.select(User, Account).join(Account).where(User.id == invitation.user)
    user: User | None = query.where(User.removed_at.is_null()).first()
    if user is None or links.Invitation.to(user) != invitation:
        return _end("unknown")
    return _end("used") if user.is_verified else user


def _end(state: str) -> Response:
    return page("join.html", ENDS[state], state=state)


def _page(state: str, code: int, user: User, **values: str) -> Response:
    teams = Team.select(Team.name).join(TeamMember).where(TeamMember.user == user).order_by(TeamMember.id)
    names = [team.name for team in teams]
    return page(
        "join.html", code, state=state, user=user, name=display_name(user), account=user.account.name,
        teams=names, **values,
    )  # fmt: skip
