"""Who was asked to help with an incident: contract sections 3.8 and 4.4, row 7."""

from typing import Any

import peewee
from marshmallow import fields

from models.accounts import User, display_name
from models.apply import apply
from models.directories import people
from models.effects import Outcome
from models.enums import ResponseStatus
from models.ids import new_short_id
from models.incidents import Incident, IncidentResponder
from models.loading import lock_incident
from models.teams import EscalationPolicy
from models.writing.notices import void_notices
from schedules.responders import Call, call_responders, owed_for
from web import wire
from web.auth import now, viewer
from web.errors import NotFound, bad
from web.incident_parts import PartOfIncident, acting, note
from web.incident_shapes import Summary
from web.services import usable_policy
from web.shapes import Choice, Moment, Number, Reference, Shape, Text, Username
from web.teams import account_member
from workers import bell


class ResponderShape(Shape):
    """A person, or an escalation policy whose people are asked; a request names one of the two."""

    unique_id = Text(dump_only=True)
    incident = Number(attribute="incident.incident_number", dump_only=True)
    user = Username()
    user_name = fields.Function(lambda row: display_name(row.user) if row.user else None)
    subject = Summary(allow_none=True)
    message = Summary(allow_none=True)
    escalation_policy = Reference()
    escalation_policy_name = Text(
        attribute="escalation_policy.name", dump_only=True, dump_default=None, allow_none=True
    )
    response_status = Choice(ResponseStatus)
    creation_date = Moment(dump_only=True)


ANSWERS = {
    ResponseStatus.ACCEPTED: "accepted",
    ResponseStatus.DECLINED: "declined",
    ResponseStatus.PENDING: "is asked still",
}


class Responders(PartOfIncident):
    """Those who were asked to help with an incident, each once. What they answer is all that changes."""

    model = IncidentResponder
    noun = "incident responder"
    schema = ResponderShape()
    parent_field = IncidentResponder.incident
    id_arg = "responder_id"

    def rows(self, parent: Incident) -> Any:
        return (
            IncidentResponder.select(IncidentResponder, User, EscalationPolicy)
            .join(User, peewee.JOIN.LEFT_OUTER)
            .join_from(IncidentResponder, EscalationPolicy, peewee.JOIN.LEFT_OUTER)
            .where(IncidentResponder.incident == parent)
        )

    def create(self, **ids: str) -> IncidentResponder:
        """Ask somebody to help, and tell them of it."""
        incident = self.parent(**ids)
        values = self.checked(wire.read(self.schema), incident, None)
        user, policy = values["user"], values["escalation_policy"]
        with self.writing():
            found = lock_incident(incident.id, [policy.id] if policy else [])
            if found is None:
                raise NotFound
            self._require_news(incident, values)
            call = Call(
                new_short_id(),
                next(iter(people([user.username]).values()), None) if user else None,
                found.directory.policies.get(policy.id) if policy else None,
                values.get("subject"),
                values.get("message"),
            )
            if not (call.person or call.policy):
                bad("user", "Nobody is left of whom to ask.")
            asked = call_responders(found.incident, [call], found.directory, acting(), now())
            written = apply(Outcome(effects=list(asked)), {incident.unique_id: incident.id})
        bell.ring_deliveries(written.channels)
        return self.named(incident, call.unique_id)

    def checked(self, values: dict[str, Any], parent: Incident, row: Any) -> dict[str, Any]:
        if row is not None:
            return {name: values[name] for name in values if name == "response_status"}
        named = [name for name in ("user", "escalation_policy") if values.get(name)]
        if len(named) != 1:
            bad("user", "Name a user or an escalation policy, one of the two.")
        if named == ["user"]:
            whom: Any = account_member(viewer().account, values["user"], "user")
        else:
            whom = usable_policy(parent.team, values["escalation_policy"], "escalation_policy")
        return {**values, "user": None, "escalation_policy": None, named[0]: whom}

    def _require_news(self, incident: Incident, values: dict[str, Any]) -> None:
        """BadRequest where the same was asked already; to be called under the incident's lock."""
        for name in ("user", "escalation_policy"):
            same = getattr(IncidentResponder, name) == values[name]
            if values[name] and self.rows(incident).where(same).exists():
                bad(name, "Was asked to help already.")

    def _locked(self, row: IncidentResponder) -> Any:
        """First the incident, as everybody locks them."""
        if lock_incident(row.incident_id) is None:
            raise NotFound
        return super()._locked(row)

    def change(self, row: IncidentResponder, values: dict[str, Any]) -> None:
        """Who has answered is not asked again."""
        status = ResponseStatus(values.get("response_status", row.response_status))
        if status == row.response_status:
            return
        super().change(row, values)
        self._leave(row, f"{_whom(row)} {ANSWERS[status]}")

    def remove(self, row: IncidentResponder) -> None:
        self._locked(row)
        super().remove(row)
        self._leave(row, f"{_whom(row)} not asked to help any more")

    def _leave(self, row: IncidentResponder, why: str) -> None:
        """What was still to be said to them is not said any more."""
        void_notices(row.incident_id, owed_for(row.incident.unique_id, row.unique_id), now(), why)
        note(row.incident, "called", why)


def _whom(row: IncidentResponder) -> str:
    if row.user:
        return display_name(row.user)
    return f"policy {row.escalation_policy.name if row.escalation_policy else '(deleted)'}"


RESPONDERS = Responders()
