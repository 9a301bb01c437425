"""A team with its rows, created through the published client."""

from functools import cached_property
from typing import Any

from zenduty.apiV2.accounts.members import AccountMemberClient
from zenduty.apiV2.accounts.members.models import AccountMember
from zenduty.apiV2.client import APIException, ZendutyClient
from zenduty.apiV2.events import EventClient
from zenduty.apiV2.incidents import IncidentClient
from zenduty.apiV2.incidents.models import Incident
from zenduty.apiV2.teams import TeamsClient
from zenduty.apiV2.teams._models import Team
from zenduty.apiV2.teams.escalation_policies.models import EscalationPolicy
from zenduty.apiV2.teams.priorities.models import Priority
from zenduty.apiV2.teams.services.integrations.models import Integration
from zenduty.apiV2.teams.services.models import Service
from zenduty.apiV2.teams.sla.models import SLA

from models.domain.applications import GENERIC
from tests.support.polling import wait_until


class ClientTeam:
    """Rows are created on first access. The team has the name of the test."""

    def __init__(self, client: ZendutyClient, name: str) -> None:
        self.client = client
        self.name = name
        self.teams = TeamsClient(client)
        self.incidents = IncidentClient(client)

    @cached_property
    def team(self) -> Team:
        return self.teams.create_team(self.name)

    @property
    def owner(self) -> str:
        return str(self.team.owner)

    @cached_property
    def policy(self) -> EscalationPolicy:
        """Return the policy of a new team, which notifies the owner at once."""
        return self.teams.get_escalation_policy_client(self.team).get_all_policies()[0]

    @cached_property
    def sla(self) -> SLA:
        return self.teams.get_sla_client(self.team).create_sla("Gold", [], acknowledge_time=60)

    @cached_property
    def priority(self) -> Priority:
        return self.teams.get_priority_client(self.team).create_priority("P1", "All is down", "red")

    @cached_property
    def service(self) -> Service:
        services = self.teams.get_service_client(self.team)
        of_policy, of_sla, of_priority = (one.unique_id for one in (self.policy, self.sla, self.priority))
        return services.create_service("Search", of_policy, of_sla, of_priority)

    @cached_property
    def integration(self) -> Integration:
        services = self.teams.get_service_client(self.team)
        return services.get_integration_client(self.service).create_intg("Probe", "", GENERIC)

    @cached_property
    def incident(self) -> Incident:
        return self.incidents.create_incident("Disk full", self.service.unique_id)

    def colleague(self, name: str) -> AccountMember:
        """Create another member of the account and the team."""
        members = AccountMemberClient(self.client)
        address = f"{name}@{self.team.unique_id}.example.org"
        return members.invite(self.team.unique_id, address, name.title(), "Doe", 3)

    def open_by_alert(self, message: str) -> dict[str, Any]:
        """Open an incident with a critical alert, and return it as in the list of incidents."""
        EventClient(self.client).create_event("", message, "critical", self.integration.integration_key)
        mine = {"service_ids": [str(self.service.unique_id)], "status": 0, "page_size": 100}
        (client_class,) = wait_until(
            lambda: [one for one in self.incidents.get_all_incidents(**mine) if one["title"] == message]
        )
        return dict(client_class)


def get_refusal(attempt: Any, *arguments: Any) -> tuple[int, str]:
    """Return the status and the text of a refused call."""
    try:
        attempt(*arguments)
    except APIException as error:
        return error._code, error._message
    raise AssertionError("not refused")
