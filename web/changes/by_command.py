"""Undo for a command, which has no request: as the owner of the account."""

from flask import Flask, g

from models.domain.enums import Way
from models.tables.accounts import User
from web.changes import changes
from web.changes.undo import UndoResult
from web.http.auth import Viewer
from web.http.permissions import ADMIN


def undo(app: Flask, owner: User, change_id: str) -> UndoResult:
    """Undo a change, or the changes of a batch, of the owner's account. Raise ApiError."""
    with app.app_context():
        g.viewer = Viewer(owner, owner.account, ADMIN, way=Way.COMMAND)
        return changes.undo(change_id)
