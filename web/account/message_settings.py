"""Which messages a person gets besides notifications of open incidents (under /api/tocsin/)."""

from models.store.store import store
from models.tables.accounts import User
from web.http import access, serialization
from web.http.auth import viewer
from web.http.fields import Boolean, Schema, explain


class MessageSettingsSchema(Schema):
    """Which messages a person gets."""

    recovery_mails = Boolean(
        metadata=explain(
            "true (default): a mail when an incident is resolved of which the person was notified."
        )
    )


MESSAGE_SETTINGS = MessageSettingsSchema()


def show(username: str) -> dict[str, object]:
    """Get which messages a person gets besides notifications of open incidents."""
    return _show(access.access_user(viewer(), username))


def change(username: str) -> dict[str, object]:
    """Update which messages a person gets besides notifications of open incidents."""
    return write(access.access_user(viewer(), username), serialization.read_body())


def write(user: User, values: dict[str, bool]) -> dict[str, object]:
    """Change which messages a person gets, and return it."""
    # An admin must not change how the owner is notified.
    access.require_rank(viewer(), user.role)
    if "recovery_mails" in values:
        with store().write_transaction():
            User.update(recovery_mails=values["recovery_mails"]).where(User.id == user.id).execute()
    return _show(User.get_by_id(user.id))


def _show(user: User) -> dict[str, object]:
    return {"recovery_mails": user.recovery_mails}
