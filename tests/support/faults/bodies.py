"""Bodies that no sender would send: mutated ones, and a stored one that cannot be read."""

import json
import random
from http.client import HTTPConnection
from urllib.parse import urlsplit

from bench.servers.instance import Instance
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.events import Receipt
from models.tables.services import Integration, Service
from models.tables.teams import Team

_ALERT = {
    "message": "Disk 93 % full",
    "summary": "/var has 12 GiB left",
    "alert_type": "critical",
    "entity_id": "mutated",
    "payload": {"host": "db1", "values": [1, 2.5, None, True], "labels": {"team": "payments"}},
    "urls": [{"link_url": "https://example.org", "link_text": "Dashboard"}],
}
_TOKENS = (
    b"null",
    b"[]",
    b"{}",
    b"-1e999",
    b'"\\ud800"',
    b"\x00",
    b"\xff",
    b"1" * 400,
    b"[" * 200,
    b'"' * 3,
    b",",
)


def send_mutated(instance: Instance, count: int, chance: random.Random) -> None:
    """Send mutated alerts. Fail if an answer is a 5xx, or if there is none."""
    url = urlsplit(instance.credentials()["webhook_urls"]["generic"][1])
    asked = HTTPConnection(url.hostname or "", url.port, timeout=30)
    try:
        for _ in range(count):
            body = mutate(json.dumps(_ALERT).encode(), chance)
            asked.request("POST", url.path, body, {"Content-Type": "application/json"})
            answer = asked.getresponse()
            answer.read()
            assert answer.status < 500, (answer.status, body)
    finally:
        asked.close()


def mutate(body: bytes, chance: random.Random) -> bytes:
    """Change a body at up to four places: delete, repeat, exchange or insert bytes."""
    mutated = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(mutated) + 1)
        length = chance.randint(0, 12)
        match chance.randrange(4):
            case 0:
                del mutated[at : at + length]
            case 1:
                mutated[at:at] = mutated[at : at + length]
            case 2:
                mutated[at : at + length] = chance.choice(_TOKENS)
            case 3:
                mutated[at : at + length] = chance.randbytes(length)
    return bytes(mutated)


def insert_broken_receipt() -> None:
    """Store a receipt whose body is no JSON, as after a fault of the disk."""
    with connection(), store().write_transaction():
        integration = (
            Integration.select(Integration, Service, Team)
            .join(Service)
            .join(Team)
            .order_by(Integration.id)
            .get()
        )
        Receipt.create(
            trace_id=make_uuid(),
            account=integration.service.team.account_id,
            integration=integration.id,
            service=integration.service_id,
            source="generic",
            body=b"\x00 no alert",
            received_at=store().now(),
        )
