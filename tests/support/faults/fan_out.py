"""Create a global router that sends each alert to two services, through the interface."""

import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from bench.servers.instance import Instance
from models.domain.applications import GENERIC

TARGETS = 2


def create_fan_out(instance: Instance) -> str:
    """Create the router, and return the address for alerts."""
    call = Interface(instance)
    team = call("GET", "/api/account/teams/")[0]["unique_id"]
    services = f"/api/account/teams/{team}/services/"
    first = call("GET", services)[0]
    policy = first["escalation_policy"]
    second = call(
        "POST", services, {"name": "Second", "escalation_policy": policy, "sla": "", "team_priority": ""}
    )
    targets = [
        call(
            "POST",
            f"{services}{service['unique_id']}/integrations/",
            {"name": "Routed", "summary": "", "application": GENERIC},
        )
        for service in (first, second)
    ]
    routers = "/api/v2/account/events/router/"
    router = call("POST", routers, {"name": "Everything", "description": ""})
    actions = [{"action_type": 0, "integration": target["unique_id"]} for target in targets]
    rule = {"name": "both", "rule_json": "", "actions": actions}
    call("POST", f"{routers}{router['unique_id']}/rulesets/", rule)
    identifier = router["account_identifier"]
    return f"{instance.url}/integration/{identifier}/generic/{router['integration_key']}/"


class Interface:
    """The HTTP interface of an instance, as its owner."""

    def __init__(self, instance: Instance) -> None:
        self._url = urlsplit(instance.url)
        self._token = instance.credentials()["token"]

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection(self._url.hostname or "", self._url.port, timeout=30)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            answered = answer.read()
        finally:
            connection.close()
        assert answer.status in (200, 201), f"{method} {path}: {answer.status} {answered[:300]!r}"
        return json.loads(answered)
