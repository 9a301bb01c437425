"""The applications for integrations: those of the catalogue, and IDs that an account added to it."""

from typing import TypedDict, cast

from marshmallow import fields, validate

from models.domain.applications import APPLICATIONS, KINDS, Application, get_application
from models.domain.enums import IntegrationType
from models.services import added_applications
from models.tables.accounts import Account
from models.tables.services import AddedApplication
from web.http import access
from web.http.auth import now, viewer
from web.http.errors import reject
from web.http.fields import Choice, Moment, Schema, Text, Uuid, explain
from web.http.permissions import ADMIN, MEMBER, ReadWrite
from web.http.resource import Resource


class ApplicationSchema(Schema):
    """An application of the catalogue. Fields without a use in Tocsin are constant (contract section 6)."""

    name = Text(dump_only=True)
    icon_url = fields.Function(lambda application: "", metadata=explain("Always empty."))
    summary = Text(dump_only=True, metadata=explain("What the application sends."))
    description = Text(attribute="summary", dump_only=True, metadata=explain("The same text as `summary`."))
    unique_id = Text(dump_only=True)
    availability_plan_id = fields.Function(lambda application: 1, metadata=explain("Always 1."))
    setup_instructions = fields.Function(lambda application: "", metadata=explain("Always empty."))
    extension = Text(
        dump_only=True,
        metadata=explain("The name of the application in addresses. It selects how alerts are read."),
    )
    application_type = Choice(
        IntegrationType, dump_only=True, metadata=explain("The direction of its integrations.")
    )
    categories = Text(dump_only=True, metadata=explain("Categories, with commas between them."))
    documentation_link = fields.Function(lambda application: "", metadata=explain("Always empty."))
    is_active = fields.Function(lambda application: 1, metadata=explain("Always 1."))


class AddedApplicationValues(TypedDict):
    """What the schema reads from a request that adds an ID."""

    unique_id: str
    kind: str


class AddedApplicationSchema(Schema):
    """The id of an application that the catalogue does not have."""

    unique_id = Uuid(
        required=True, allow_none=False, metadata=explain("The id to add, which the catalogue does not have.")
    )
    kind = Text(
        required=True,
        validate=validate.OneOf(KINDS),
        metadata=explain(
            "The extension of an application of the catalogue. Integrations with this id act like it."
        ),
    )
    creation_date = Moment(dump_only=True)


class AddedApplications(Resource[AddedApplication, Account]):
    """IDs of applications that an account brings. Integrations keep the kind of an ID that is deleted."""

    model = AddedApplication
    noun = "added application"
    schema = AddedApplicationSchema()
    parent_field = AddedApplication.account
    id_arg = "application_id"
    permissions = ReadWrite(MEMBER, ADMIN)
    is_configuration = False  # lanes read the kind of integrations

    def get_parent(self, **ids: str) -> Account:
        return access.access_account(viewer()) if viewer().permission == ADMIN else viewer().account

    def insert(self, parent: Account, values: dict[str, object]) -> AddedApplication:
        try:
            return added_applications.add(parent, **cast(AddedApplicationValues, values), now=now())
        except added_applications.NotAdded as error:
            reject("unique_id", str(error))


def list_applications() -> list[Application]:
    """List the applications for integrations."""
    added = added_applications.list_added(viewer().account).order_by(AddedApplication.id)
    return [*APPLICATIONS.values(), *(get_application(row.unique_id, row.kind) for row in added)]


APPLICATION = ApplicationSchema()
ADDED_APPLICATIONS = AddedApplications()
