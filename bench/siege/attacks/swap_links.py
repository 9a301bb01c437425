"""Links to a swap of shifts, which need no sign-in: read, answered again and again, and invented."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import quote

from bench.siege.attacks.attack import Attack, Sizes
from bench.siege.attacks.pages import FORM
from bench.siege.attacks.requests import Request, Requests
from bench.siege.tenants import Tenant, create_tenant
from models.domain.enums import AccountRole, RestrictionType
from models.links.signed_links import SwapLink, get_signer
from models.people import provisioning
from models.store.ids import make_uuid
from models.store.store import connection, store
from models.tables.accounts import User
from models.tables.schedules import Schedule, ShiftSwap
from models.tables.teams import Team

SWAP_LINKS = "links to swaps"
# Nearly as many turns in the longest shifts as are computed for an answer.
LAYERS, TURN_S = 13, 3_600
LENGTH = timedelta(days=30)
DAY = timedelta(days=1)


def build(tenant: Tenant, sizes: Sizes) -> Iterator[Attack]:
    """Create a tenant with a request for a swap that its schedule no longer allows, and yield its links."""
    create_tenant(tenant.base_url, "swapper")
    path = _create_link("swapper@example.org")
    accept = {"body": b"act=accept", "headers": FORM}
    requests = [
        Request(path, method="GET"),
        Request(path, **accept),
        Request(path[:-1], method="GET"),
        Request(f"/swap/{quote('.' * 20_000)}", method="GET"),
        Request(f"/swap/{'x' * 60_000}", **accept),
        Request(path, b"act=accept&" + b"a&" * 500_000, FORM),
    ]
    yield Requests(
        SWAP_LINKS, tenant.base_url, lambda number: requests[number % len(requests)], threads=8, pause_s=0.1
    )


def _create_link(email: str) -> str:
    """Return the path of the link with which this person answers a colleague."""
    with connection(), store().write_transaction():
        partner, now = User.get(User.email == email), store().now()
        asker = provisioning.create_user(
            partner.account, f"asker-{email}", AccountRole.USER, now, is_verified=True
        )
        start = (now + DAY).replace(minute=0, second=0, microsecond=0)
        swap = ShiftSwap.create(
            unique_id=make_uuid(),
            creation_date=now,
            schedule=_create_schedule(Team.get(Team.account == partner.account), [asker, partner], now),
            asker=asker,
            asked_start=start,
            asked_end=start + LENGTH,
            partner=partner,
            returned_start=start + LENGTH,
            returned_end=start + 2 * LENGTH,
        )
        return f"/swap/{get_signer().sign_swap(SwapLink(swap.id, partner.id), start)}"


def _create_schedule(team: Team, people: list[User], now: datetime) -> Schedule:
    schedule: Schedule = Schedule.create(
        unique_id=make_uuid(),
        team=team,
        name="Many turns",
        layers=[_build_layer(place, people, now) for place in range(LAYERS)],
        creation_date=now,
    )
    return schedule


def _build_layer(place: int, people: list[User], now: datetime) -> dict[str, object]:
    return {
        "unique_id": make_uuid(),
        "name": f"Layer-{place + 1}",
        "shift_length": TURN_S,
        "users": [
            {"user": person.username, "position": turn, "unique_id": make_uuid()}
            for turn, person in enumerate(people, start=1)
        ],
        "rotation_start_time": (now - DAY).isoformat(),
        "rotation_end_time": None,
        "restriction_type": RestrictionType.NONE,
        "restrictions": [],
        "last_edited": None,
        "is_active": True,
    }
