"""The documented requests of published clients and tools work as they are."""

import http.client
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from models.domain.applications import GENERIC, PROMETHEUS
from models.store.ids import make_uuid
from tests.support.clients import samples
from tests.support.clients.samples import Sample
from tests.support.polling import wait_until
from tests.support.processes import Running

# The word that a client sends before its token, and its name. Tools have no token.
CLIENTS = (
    ("Token", "", samples.OLDER_CLIENTS),
    ("token", "", samples.CHAT_BOT),
    ("token", "Go-http-client/1.1", samples.GO_AND_TERRAFORM),
    ("token", "", samples.COLLECTION),
    ("", "", samples.TOOLS),
)
SAMPLES = [
    pytest.param(scheme, agent, sample, id=sample.name)
    for scheme, agent, of_client in CLIENTS
    for sample in of_client
]
# Applications that published examples name.
API, CLOUDWATCH = "27c9800c-2856-490d-8119-790be1308dd4", "07c84d47-7e71-49ec-b781-1cc81a78086e"

Send = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def send(instance: Running) -> Send:
    """send(method, path, body, scheme, agent): the status and the JSON of an answer."""
    token = json.loads((instance.home / "credentials.json").read_text())["token"]

    def send(method: str, path: str, body: object = None, scheme="Token", agent="") -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"{scheme} {token}"} if scheme else {}
        headers |= {"User-Agent": agent} if agent else {}
        connection = http.client.HTTPConnection("127.0.0.1", instance.port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    return send


@pytest.fixture(scope="module")
def ids(send: Send) -> Mapping[str, str]:
    """The IDs of a team and its rows, by their names in the samples."""
    found = {"api": API, "cloudwatch": CLOUDWATCH, "prometheus": PROMETHEUS, "unknown": make_uuid()}

    def create(row: str, path: str, **body: object) -> dict[str, Any]:
        status, made = send("POST", fill(path, found), fill(body, found))
        assert (status, isinstance(made, dict)) == (201, True), made
        found[row] = str(made.get("unique_id"))
        return dict(made)

    found["alice"] = str(create("team", "/api/account/teams/", name="Samples")["owner"])
    create("other_team", "/api/account/teams/", name="Others")
    for name, team in (("bob", "<team>"), ("charlie", "<other_team>")):
        person = {"first_name": name, "last_name": "Doe", "email": f"{name}@<team>.example.org", "role": 3}
        made = create(name, "/api/account/api_invite/", team=team, user_detail=person)
        found[name] = str(made["user"]["username"])
    create("contact", f"{samples.USER}contacts/", name="Home", contact_type=1, value="b@<team>.example.org")
    create("custom_role", "/api/account/customroles/", name="Reader", permissions=["sla_read"])
    create("schedule", f"{samples.TEAM}schedules/", name="Days", time_zone="UTC", layers=[])
    create("policy", f"{samples.TEAM}escalation_policies/", name="Day", rules=[])
    create("priority", f"{samples.TEAM}priority/", name="P1")
    create("sla", f"{samples.TEAM}sla/", name="Bronze", escalations=[])
    create("tag", f"{samples.TEAM}tags/", name="disk")
    create("other_tag", f"{samples.TEAM}tags/", name="night")
    create("role", f"{samples.TEAM}roles/", title="Lead")
    create("template", f"{samples.TEAM}task_templates/", name="Usual")
    create("service", samples.SERVICES, name="Shop", escalation_policy="<policy>", team_priority="<priority>")
    create("other_integration", samples.INTEGRATIONS, name="Old", application=GENERIC)
    made = create("integration", samples.INTEGRATIONS, name="Probe", application=GENERIC)
    found["key"] = str(made["integration_key"])
    router = create("router", "/api/v2/account/events/router/", name="Door")
    found["account"] = str(router["account_identifier"])
    made = create("incident", "/api/incidents/", title="Disk", service="<service>")
    return {**found, "number": str(made["incident_number"])}


def fill(sample: object, ids: Mapping[str, str]) -> object:
    """Return a part of a sample with the IDs that it names."""
    if isinstance(sample, str):
        return re.sub("<([a-z_]+)>", lambda name: ids[name[1]], sample)
    if isinstance(sample, Mapping):
        return {key: fill(value, ids) for key, value in sample.items()}
    return [fill(item, ids) for item in sample] if isinstance(sample, list) else sample


def find_differences(expected: object, found: object, where: str = "answer") -> list[str]:
    """Return what the client could not read: a missing key, another value, or another type."""
    if isinstance(expected, type):
        return [] if found is None or type(found) is expected else [f"{where} is {found!r}"]
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return [
            text
            for key, value in expected.items()
            for text in (
                find_differences(value, found[key], f"{where}.{key}")
                if key in found
                else [f"{where}.{key} is missing"]
            )
        ]
    if isinstance(expected, list) and isinstance(found, list):
        # The account has other rows too, so the items are among others, in this order.
        items = iter(found)
        is_same = all(any(find_differences(one, item) == [] for item in items) for one in expected)
        return [] if is_same else [f"{where} is {found!r}"]
    return [] if type(expected) is type(found) and expected == found else [f"{where} is {found!r}"]


@pytest.mark.parametrize(("scheme", "agent", "sample"), SAMPLES)
def test_a_documented_request_works(send, ids, scheme, agent, sample: Sample):
    status, answer = send(sample.method, fill(sample.path, ids), fill(sample.body, ids), scheme, agent)

    assert status == sample.status, answer
    assert find_differences(fill(sample.answer, ids), answer) == []
    if sample.alert is not None:
        wait_until(
            lambda: any(find_differences(sample.alert, alert) == [] for alert in list_alerts(send, ids))
        )


def list_alerts(send: Send, ids: Mapping[str, str]) -> list[Any]:
    _, page = send("GET", fill(f"{samples.INTEGRATIONS}<integration>/alerts/?page=1", ids))
    return list(page["results"])
