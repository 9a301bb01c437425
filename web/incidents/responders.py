"""Responders, who are asked to help with an incident: contract sections 3.8 and 4.4, row 7."""

from collections.abc import Iterable, Mapping
from typing import Any

import peewee
from marshmallow import fields

from models.domain.effects import Effect
from models.domain.enums import ResponseStatus
from models.domain.facts import IncidentContext
from models.domain.reasons import Reason, make_reason
from models.load.lane import lock_incident
from models.load.oncall_config import load_people
from models.store.ids import make_short_id
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident, IncidentResponder
from models.tables.teams import EscalationPolicy
from models.write.notifications import cancel_by_key
from schedules.escalation.responders import ResponderRequest, build_key_prefix, request_responders
from web.http.auth import now, viewer
from web.http.errors import NotFound, reject
from web.http.fields import Choice, Moment, Number, Reference, Schema, Text, Username, explain
from web.http.writing import Writing
from web.incidents.schemas import Summary
from web.incidents.sub_resource import (
    IncidentResource,
    build_viewer_author,
    change_as_viewer,
    get_author_name,
    log_change,
)
from web.services.services import get_usable_policy
from web.teams.teams import get_account_member


class ResponderSchema(Schema):
    """A responder: either a person, or an escalation policy whose people are asked to help."""

    unique_id = Text(dump_only=True)
    incident = Number(attribute="incident.incident_number", dump_only=True)
    user = Username(
        metadata=explain(
            "The username of the person who is asked to help; null: the people of `escalation_policy`."
        )
    )
    user_name = fields.Function(
        lambda row: get_display_name(row.user) if row.user else None,
        metadata=explain("The full name of the person; null without a person."),
    )
    subject = Summary(allow_none=True, metadata=explain("The subject of the request; null: none."))
    message = Summary(allow_none=True, metadata=explain("The text of the request; null: none."))
    escalation_policy = Reference(
        metadata=explain("The unique_id of the policy whose people are asked to help; null: only `user`.")
    )
    escalation_policy_name = Text(
        attribute="escalation_policy.name",
        dump_only=True,
        dump_default=None,
        allow_none=True,
        metadata=explain("The name of the policy; null without a policy."),
    )
    response_status = Choice(
        ResponseStatus,
        metadata=explain("The answer to the request; first 3. An update changes only this field."),
    )
    creation_date = Moment(dump_only=True)


def _describe_response(status: ResponseStatus, responder: str, by: str) -> Reason:
    match status:
        case ResponseStatus.ACCEPTED:
            return make_reason("responder_accepted", responder=responder, by=by)
        case ResponseStatus.DECLINED:
            return make_reason("responder_declined", responder=responder, by=by)
    return make_reason("responder_pending", responder=responder, by=by)


class Responders(IncidentResource[IncidentResponder]):
    """The responders of an incident, each once. Only the status of their response can be changed."""

    model = IncidentResponder
    noun = "incident responder"
    schema = ResponderSchema()
    parent_field = IncidentResponder.incident
    id_arg = "responder_id"

    def select_rows(self, parent: Incident) -> "peewee.ModelSelect[IncidentResponder]":
        return (
            IncidentResponder.select(IncidentResponder, User, EscalationPolicy)
            .join(User, peewee.JOIN.LEFT_OUTER)
            .join_from(IncidentResponder, EscalationPolicy, peewee.JOIN.LEFT_OUTER)
            .where(IncidentResponder.incident == parent)
        )

    def add(self, parent: Incident, values: dict[str, object], writing: Writing) -> IncidentResponder:
        """Ask a person or the people of a policy to help, and notify them."""
        checked = self.check_values(values, parent, None)
        user, policy = checked["user"], checked["escalation_policy"]
        unique_id = make_short_id()

        def decide(context: IncidentContext) -> Iterable[Effect]:
            self._require_new(parent, checked)
            person = next(iter(load_people([user.username]).values()), None) if user else None
            found = context.config.policies.get(policy.id) if policy else None
            if not (person or found):
                reject("user", "The user or escalation policy no longer exists.")
            request = ResponderRequest(
                unique_id, person, found, checked.get("subject"), checked.get("message")
            )
            return request_responders(context, [request])

        change_as_viewer(parent, decide, policies=[policy.id] if policy else [])
        return self.find_by_id(parent, unique_id)

    def check_values(
        self, values: dict[str, Any], parent: Incident, row: IncidentResponder | None
    ) -> dict[str, Any]:
        if row is not None:
            return {name: values[name] for name in values if name == "response_status"}
        given_fields = [name for name in ("user", "escalation_policy") if values.get(name)]
        if len(given_fields) != 1:
            reject("user", "Give either a user or an escalation policy.")
        if given_fields == ["user"]:
            target: User | EscalationPolicy = get_account_member(viewer().account, values["user"], "user")
        else:
            target = get_usable_policy(parent.team, values["escalation_policy"], "escalation_policy")
        return {**values, "user": None, "escalation_policy": None, given_fields[0]: target}

    def _require_new(self, incident: Incident, values: dict[str, Any]) -> None:
        """Raise BadRequest if this responder exists already. Call it under the lock of the incident."""
        for name in ("user", "escalation_policy"):
            same_target = getattr(IncidentResponder, name) == values[name]
            if values[name] and self.select_rows(incident).where(same_target).exists():
                reject(name, "This responder was already asked to help.")

    def _lock_row(self, row: IncidentResponder, values: Mapping[str, object]) -> IncidentResponder:
        """Lock the incident before the row, in the same order as all other code."""
        if lock_incident(row.incident_id, build_viewer_author(), now()) is None:
            raise NotFound
        return super()._lock_row(row, values)

    def change(self, row: IncidentResponder, values: dict[str, Any]) -> None:
        """Change the status of a response and cancel the pending notifications to the responder."""
        status = ResponseStatus(values.get("response_status", row.response_status))
        if status == row.response_status:
            return
        super().change(row, values)
        self._cancel_pending(row, _describe_response(status, _get_name(row), get_author_name()))

    def remove(self, row: IncidentResponder) -> None:
        self._lock_row(row, {})
        super().remove(row)
        self._cancel_pending(
            row, make_reason("responder_removed", responder=_get_name(row), by=get_author_name())
        )

    def _cancel_pending(self, row: IncidentResponder, why: Reason) -> None:
        """Cancel the pending notifications to a responder and record the reason in the timeline."""
        cancel_by_key(row.incident_id, build_key_prefix(row.incident.unique_id, row.unique_id), now(), why)
        log_change(row.incident, "called", why)


def _get_name(row: IncidentResponder) -> str:
    if row.user:
        return get_display_name(row.user)
    return f"policy {row.escalation_policy.name if row.escalation_policy else '(deleted)'}"


RESPONDERS = Responders()
