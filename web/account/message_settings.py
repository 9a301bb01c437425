"""Which messages a person gets besides notifications of open incidents (under /api/tocsin/)."""

from collections.abc import Callable

from models.tables.accounts import User
from web.http import access, serialization
from web.http.auth import Viewer, operation, viewer
from web.http.fields import Boolean, Schema, explain
from web.http.permissions import OWN
from web.http.resource import CHANGING, change_transaction
from web.http.writing import Mode, NumberedAnswer, Part, Writing, begin_change, read_writing


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
    return get_settings(viewer(), username)


@operation(OWN)
def get_settings(who: Viewer, username: str) -> dict[str, object]:
    """Return which messages a person gets."""
    return _show(access.access_user(who, username))


def change(username: str) -> dict[str, object]:
    """Update which messages a person gets besides notifications of open incidents."""
    return change_settings(viewer(), username, serialization.REQUEST_BODY, lambda: read_writing(Mode.PATCH))


@operation(OWN)
def change_settings(
    who: Viewer, username: str, body: object, read: Callable[[], Writing] = lambda: CHANGING
) -> dict[str, object]:
    """Change which messages a person gets. `read` returns how, after the check of the permission."""
    user = access.access_user(who, username)
    return write(user, serialization.load(MESSAGE_SETTINGS, body), read())


def write(user: User, values: dict[str, bool], writing: Writing) -> dict[str, object]:
    """Change which messages a person gets, and return it."""
    # An admin must not change how the owner is notified.
    access.require_rank(viewer(), user.role)
    with change_transaction():
        user = begin_change(user, writing, PART)
        user.recovery_mails = values.get("recovery_mails", user.recovery_mails)
        user.save(only=[User.recovery_mails])
    return _show(user)


def _show(user: User) -> dict[str, object]:
    return NumberedAnswer(user.number, {"recovery_mails": user.recovery_mails})


PART = Part("account member", "messages", _show, write=write, permission=OWN)
