"""API tokens of a person (under /api/tocsin/): created by the person, listed and revoked also by admins."""

from collections.abc import Mapping
from datetime import datetime
from typing import NotRequired, TypedDict, cast

import peewee
from marshmallow import fields

from models.changes.record import CREATED
from models.people import provisioning
from models.store.ids import digest
from models.tables.accounts import Token, User
from web.account.notification_preferences import UserResource
from web.http import paging, recording, serialization
from web.http.auth import now, viewer
from web.http.errors import NotFound, reject
from web.http.fields import Moment, OptionalMoment, Schema, Text, Username, explain
from web.http.permissions import OWN, ReadWrite
from web.http.resource import lock_row
from web.http.writing import NumberedAnswer

# Valid tokens of a person. More are hardly a purpose, and the lists are read as a whole.
MAX_TOKENS = 100


class TokenValues(TypedDict):
    """What the schema reads from a request that creates a token."""

    name: str
    expires_at: NotRequired[datetime | None]


class TokenSchema(Schema):
    """A token without its text."""

    unique_id = Text(dump_only=True)
    name = Text(required=True, metadata=explain("What the token is for, for example `laptop`."))
    user = Username(dump_only=True, metadata=explain("The username of the person as whom the token acts."))
    created_at = Moment(dump_only=True)
    expires_at = OptionalMoment(metadata=explain("When the token ends; null: never."))
    last_used_at = Moment(
        dump_only=True, allow_none=True, metadata=explain("When the token was used last; null: never.")
    )


class NewTokenSchema(TokenSchema):
    """A new token. Only the answer to the create shows its text."""

    token = Text(dump_only=True, metadata=explain("The token itself. Only this answer shows it."))


class TokenPageSchema(paging.PageSchema):
    results = fields.List(fields.Nested(TokenSchema), dump_only=True)


class Tokens(UserResource[Token]):
    """The valid tokens of a person. A token that has expired cannot be made valid again."""

    model = Token
    noun = "token"
    can_return = False
    title = "token of a user"
    schema = TokenSchema()
    parent_field = Token.user
    id_arg = "token_id"
    permissions = ReadWrite(OWN, OWN)
    is_configuration = False  # lanes do not read tokens
    order = ("id",)

    def select_rows(self, parent: User) -> "peewee.ModelSelect[Token]":
        return self.select_all().where(Token.user == parent)

    def select_all(self) -> "peewee.ModelSelect[Token]":
        return Token.select().where(
            Token.revoked_at.is_null(), Token.expires_at.is_null() | (Token.expires_at > now())
        )

    def find_by_id(self, parent: User, unique_id: str) -> Token:
        """Return the token with this id, or raise NotFound. A person has few tokens."""
        for token in self.select_rows(parent):
            if token.unique_id == unique_id.lower():
                return token
        raise NotFound

    def check_values(self, values: dict[str, object], parent: User, row: Token | None) -> dict[str, object]:
        expires_at = cast(TokenValues, values).get("expires_at")
        if expires_at is not None and expires_at <= now():
            reject("expires_at", "Must be in the future. To end a token now, delete it.")
        if row is not None and row.id == viewer().token_row and _is_later(values, row.expires_at):
            reject("expires_at", "A token cannot give itself a later expiry. Create another token.")
        return values

    def change(self, row: Token, values: dict[str, object]) -> None:
        super().change(row, values)
        if values.get("expires_at", row.expires_at) != row.expires_at:
            recording.record(row.user, "token_changed", row.name)

    def remove(self, row: Token) -> None:
        Token.update(revoked_at=now()).where(Token.id == row.id).execute()
        recording.record(row.user, "token_revoked", row.name)


def _is_later(values: Mapping[str, object], before: datetime | None) -> bool:
    """Return whether these values let a token with this expiry live longer."""
    if before is None or "expires_at" not in values:
        return False
    after = cast(TokenValues, values).get("expires_at")
    return after is None or after > before


TOKENS = Tokens()
NEW_TOKEN = NewTokenSchema()
PAGE = TokenPageSchema()


def create() -> dict[str, object]:
    """Create a token for yourself. The answer shows it, once."""
    return create_for(viewer().user, serialization.read_body())


def create_for(user: User, given: dict[str, object]) -> dict[str, object]:
    """Create a token of a person with these values of the schema, and return it with its text."""
    values = cast(TokenValues, TOKENS.check_values(given, user, None))
    with TOKENS.transaction():
        lock_row(user)
        if TOKENS.select_rows(user).count() >= MAX_TOKENS:
            reject("token", f"You have {MAX_TOKENS} tokens. Revoke one of them first.")
        text = provisioning.issue_token(user, values["name"], now(), values.get("expires_at"))
        row = Token.get(Token.digest == digest(text))
        recording.record(user, "token_created", values["name"])
        TOKENS.record(CREATED, user, row, {}, TOKENS.describe(row))
    row.user = user
    shown = {name: getattr(row, name) for name in TOKENS.schema.fields}
    return NumberedAnswer(row.number, {**shown, "token": text})


def index() -> dict[str, object]:
    """List valid tokens, newest first. Owners and admins get those of all members, others their own."""
    own = User.id == viewer().user.id
    shown = (User.account == viewer().account) & User.removed_at.is_null()
    tokens = TOKENS.select_all().select(Token, User).join(User).where(shown if viewer().is_admin else own)
    return paging.build_page(tokens.order_by(Token.id.desc()), paging.read_page(), list, count=tokens.count())
