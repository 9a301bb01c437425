"""The addresses outside the account that alerts may mail (under /api/tocsin/): contract section 4.11."""

from typing import NoReturn

import peewee

from models.tables.accounts import Account
from models.tables.stakeholders import StakeholderAddress
from web.http import access
from web.http.auth import viewer
from web.http.errors import reject
from web.http.fields import Email, Schema, Text, explain
from web.http.permissions import ADMIN, ReadWrite
from web.http.resource import LimitedResource


class StakeholderSchema(Schema):
    """An address that alerts may mail."""

    unique_id = Text(dump_only=True)
    email = Email(required=True, limit=254, metadata=explain("The address that alerts may name."))
    name = Text(required=True, metadata=explain("Shown in timelines instead of the address."))


class Stakeholders(LimitedResource[StakeholderAddress, Account]):
    """The list of addresses that owner and admins allow. Each address is in it once."""

    model = StakeholderAddress
    noun = "stakeholder"
    schema = StakeholderSchema()
    parent_field = StakeholderAddress.account
    id_arg = "stakeholder_id"
    permissions = ReadWrite(ADMIN, ADMIN)
    max_rows = 500  # more people should be members, or read a mailing list
    secrets = ("email",)
    is_configuration = False  # a mail reads the list when it is written

    def get_parent(self, **ids: str) -> Account:
        return access.access_account(viewer())

    def check_values(
        self, values: dict[str, object], parent: Account, row: StakeholderAddress | None
    ) -> dict[str, object]:
        if "email" in values:
            return {**values, "email": str(values["email"]).lower()}
        return values

    def insert(self, parent: Account, values: dict[str, object]) -> StakeholderAddress:
        try:
            return super().insert(parent, values)
        except peewee.IntegrityError:
            _refuse_address()

    def change(self, row: StakeholderAddress, values: dict[str, object]) -> None:
        try:
            super().change(row, values)
        except peewee.IntegrityError:
            _refuse_address()


def _refuse_address() -> NoReturn:
    reject("email", "The list already has this address.")


STAKEHOLDERS = Stakeholders()
