"""No value of a secret, a key or an address is in the history, not even encrypted parts of it."""

from models.store.ids import make_uuid
from models.store.peewee_internals import get_table_name
from models.store.store import db
from models.tables.changes import Change
from models.tables.users import ContactMethod
from tests.support.changes.requests import add_samples, list_requests
from tests.support.contract.samples import samples

__all__ = ["samples"]

NUMBERS = ("+46701234567", "+46709876543")


def dump_changes() -> str:
    rows = db.execute_sql(f'select * from "{get_table_name(Change)}"').fetchall()
    return repr(rows)


def list_stored_secrets() -> set[str]:
    """Return all addresses, keys and secrets in the database."""
    found: set[str | None] = set()
    for table, column in (
        ("user", "email"), ("contact_method", "value"), ("contact_secret", "secret"), ("token", "digest"),
        ("source_setup", "secret"), ("outbound_target", "url"), ("outbound_target", "secret"),
        ("integration", "integration_key"), ("global_router", "integration_key"),
        ("stakeholder_address", "email"), ("user", "calendar_key"), ("push_subscription", "endpoint"),
    ):  # fmt: skip
        found |= {value for (value,) in db.execute_sql(f'select {column} from "{table}"').fetchall()}
    return {each for each in found if each}


def test_no_value_of_a_secret_is_recorded(ask, samples, world):
    add_samples(ask, samples, world)
    contacts = f"/api/account/users/{world.bob.username}/contacts/"
    for number in NUMBERS:
        row = ContactMethod.create(
            unique_id=make_uuid(),
            user=world.bob,
            name="Phone",
            contact_type=2,
            value=number,
            creation_date=world.account.creation_date,
        )
        assert ask("PATCH", f"{contacts}{row.unique_id}/", {"name": "Mobile"}).status_code == 200
        assert ask("DELETE", f"{contacts}{row.unique_id}/").status_code == 204
    secrets, answered = list_stored_secrets() | set(NUMBERS), set()
    person = f"/api/account/users/{world.bob.username}/"
    for address in ("robert@home.example.org", "bob@example.org"):
        assert ask("PATCH", person, {"email": address}).status_code == 200
        secrets |= list_stored_secrets()
    for request in list_requests(ask, samples):
        answer = ask(request.key[0], request.path, request.body)
        assert answer.status_code == request.status, (request, answer.text)
        if isinstance(answer.json, dict):
            answered |= {answer.json.get(name) for name in ("token", "secret", "integration_key", "url")}
        secrets |= list_stored_secrets()

    secrets |= {each for each in answered if each}
    stored = dump_changes()
    assert len(secrets) > 30
    assert [each for each in sorted(secrets) if each in stored] == []
    assert Change.select().where(Change.removed.is_null(False)).count() > 20
