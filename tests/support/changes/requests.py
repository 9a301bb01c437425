"""A valid request of each operation that writes, in an order in which none makes the next one fail."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from models.domain.enums import OtherContactType, WorkState
from models.store.ids import make_uuid
from models.tables.changes import Change
from models.tables.events import Receipt
from models.tables.users import ContactCode, ContactMethod
from tests.support.contract.operations import OPERATIONS, Row
from tests.support.contract.requests import build_body, get_path
from tests.support.dead_letters import ERROR

# Our own operations without a row of the contract.
_CONTACT = "/api/tocsin/users/<username>/contacts/<contact_id>"
_OUTBOUND = "/api/tocsin/integrations/<outbound_id>/outbound/"
_DEAD_LETTER = "/api/tocsin/dead-letters/<dead_letter_id>/"
OWN = (
    Row("POST", "/api/tocsin/users/<username>/contacts/", 201, None, "contact"),
    Row("POST", f"{_CONTACT}/verify/", 200, None, "code"),
    Row("POST", f"{_CONTACT}/test/", 200, None),
    Row("POST", "/api/tocsin/users/<username>/contacts/<webhook_id>/secret/", 200, None),
    Row("POST", "/api/tocsin/users/<username>/invitation/", 200, None),
    Row("POST", "/api/tocsin/rules/try/", 200, None, "trial"),
    Row("POST", "/api/tocsin/drills/", 201, None, "drill"),
    Row("POST", f"{_DEAD_LETTER}replay/", 200, None),
    Row("DELETE", _DEAD_LETTER.replace("<", "<other_"), 204, None),
    Row("POST", "/api/tocsin/incidents/<incident>/snooze/", 200, None, "snooze"),
    Row("POST", "/api/tocsin/incidents/<incident>/merge/", 200, None, "incidents"),
    Row("POST", "/api/tocsin/incidents/<incident>/unmerge/", 200, None, "incidents"),
    Row("POST", f"{_OUTBOUND}secret/", 200, None),
    Row("DELETE", _OUTBOUND, 204, None),
    Row("POST", "/api/tocsin/changes/<change_id>/undo/", 200, None),
)
WRITES = [row for row in (*OPERATIONS, *OWN) if row.method != "GET"]
_ORDER = ("PUT", "PATCH", "POST", "DELETE")
# A request that ends what others need comes after them.
_LAST = ("/api/account/deleteuser/", "/api/account/regenerate_integration_key/")
# A second path leads to the same objects, or others need the object: another one is deleted.
_ANOTHER = {
    "/schedule/<schedule_id>/": ("/api/account/teams/{team_id}/schedules/", "schedule"),
    "/escalation_policies/<escalation_policy_id>/": (
        "/api/account/teams/{team_id}/escalation_policies/",
        "policy",
    ),
    "/api/incidents/<incident>/responders/<responder_id>/": (
        "/api/incidents/{incident}/responders/",
        "third_responder",
    ),
}


@dataclass(frozen=True)
class Request:
    """A request as the tests send it. `key` is the method and path of its route."""

    key: tuple[str, str]
    path: str
    body: Any
    status: int


def list_rows() -> list[Row]:
    """Return the operations in their order. What is inside another object is deleted before it."""
    return sorted(
        WRITES,
        key=lambda row: (
            _ORDER.index(row.method),
            row.path in _LAST,
            row.method == "DELETE" and (row.path[:12] != "/api/tocsin/", -row.path.count("/")),
            "policy_id>" in row.path,
        ),
    )


def add_samples(ask: Callable[..., Any], samples: Any, world: Any) -> None:
    """Add the objects that the operations of OWN need."""
    made = ask("POST", "/api/incidents/", samples.bodies["incident"]).json
    webhook = ContactMethod.create(
        unique_id=make_uuid(),
        user=world.bob,
        name="Hook",
        contact_type=OtherContactType.WEBHOOK,
        value="https://hooks.example.org/bob",
        creation_date=world.account.creation_date,
    )
    dead = Receipt.update(state=WorkState.DEAD_LETTER, error=ERROR)
    dead.where(Receipt.trace_id == samples.ids["trace_id"]).execute()
    rules = f"/api/v2/account/events/router/{samples.ids['router_id']}/rulesets/"
    ask("POST", rules, samples.bodies["router_rule"])
    samples.ids.update(
        webhook_id=webhook.unique_id,
        other_incident_id=made["unique_id"],
        other_dead_letter_id=samples.ids["trace_id"],
    )
    samples.bodies["second_responder"] = {"user": world.alice.username}
    samples.bodies["third_responder"] = {"user": world.bob.username}


def get_key(row: Row) -> tuple[str, str]:
    """Return the method and the path of the route of an operation."""
    return row.method, row.path.replace("<webhook_id>", "<contact_id>").replace("<other_", "<")


def list_requests(ask: Callable[..., Any], samples: Any) -> Iterator[Request]:
    """Yield a request of each operation. A change has other values than the object."""
    for number, row in enumerate(list_rows(), start=1):
        if row.path.endswith("/undo/"):
            last = Change.select().where(Change.action == "changed", Change.kind == "tag")
            samples.ids["change_id"] = last.order_by(Change.id.desc()).get().unique_id
        body = _build_own_body(row, samples) or build_body(row, samples)
        if row.method in ("PUT", "PATCH"):
            body = vary(row, body, number)
        path = get_path(row, samples)
        for end, (where, noun) in _ANOTHER.items():
            if row.method == "DELETE" and row.path.endswith(end):
                made = ask("POST", where.format(**samples.ids), samples.bodies[noun])
                path = f"{path.rsplit('/', 2)[0]}/{made.json.get('unique_id')}/"
        yield Request(get_key(row), path, body, row.status)


def _build_own_body(row: Row, samples: Any) -> Any:
    if row.method == "POST" and row.path.endswith("<incident>/tags/"):
        return samples.bodies["first_tag"]
    if (row.method, row.path) == ("POST", "/api/incidents/<incident>/responders/"):
        return samples.bodies["second_responder"]
    if (row.method, row.body) == ("POST", "stakeholder"):
        return {"email": "radio@example.org", "name": "Radio"}
    match row.body:
        case "code":
            contact = ContactMethod.get(ContactMethod.unique_id == samples.ids["contact_id"])
            return {"code": ContactCode.get(ContactCode.contact == contact).code}
        case "trial":
            return {"rule_json": '{"==": [1, 1]}', "payload": {}}
        case "snooze":
            return {"minutes": 30}
        case "incidents":
            return {"incidents": [samples.ids["other_incident_id"]]}
    return None


def vary(row: Row, body: Any, number: int) -> Any:
    """Return the values of an object with another value in one field."""
    match row.body:
        case "member":
            return {**body, "role": 1 if row.method == "PUT" else 2}
        case "move":
            return {**body, "position": 2}
        case "rule":
            return {**body, "start_delay": number}
        case "forwarding_rule":
            return {**body, "to_date": f"2027-01-01T00:{number % 60:02}:00Z"}
        case "grouping_policy":
            return {**body, "time_window": 1 + number % 20}
        case "outgoing_rule":
            return {**body, "rule_json": f'{{"==": [{{"var": "urgency"}}, {number}]}}'}
        case "heartbeat":
            return {**body, "every": 60 * number}
        case "source_setup":
            return {"secret": f"{body['secret']} {number}"}
        case "outbound":
            return {"url": f"{body['url']}/{number}"}
        case "schedule_checks":
            return {"double_shifts": "intended" if number % 2 else "problem"}
        case "permission":
            return {"account_permissions": ["incident_read", "team_read"][number % 2 :]}
        case "account_member":
            return {**body, "user": {**body["user"], "first_name": f"Robert {number}"}}
        case "user":
            return {**body, "first_name": f"Robert {number}"}
    field = next((each for each in ("name", "title", "description") if each in (body or {})), None)
    return {**body, field: f"{body[field]} {number}"} if field else body
