"""Contacts are verified by a code, and strangers get few messages."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from models.domain.enums import MessageKind
from models.store.store import store
from models.tables.accounts import RateLimit, User
from models.tables.notifications import Message
from models.tables.users import ContactCode, ContactMethod
from tests.support import stores
from tests.support.polling import PATIENCE_S
from web.account import message_limits
from web.http.resource import lock_row


@pytest.fixture
def contacts(world):
    return f"/api/account/users/{world.bob.username}/contacts/"


@pytest.fixture
def add(ask, contacts, world):
    """add(value): create a contact of Bob by the contract's operation. Return our path of it."""

    def add(value="bob@home.example.org", status=201) -> str:
        body = {"name": "Home", "contact_type": 1, "value": value}
        answer = ask("POST", contacts, body, who="bob")
        assert answer.status_code == status
        return f"/api/tocsin/users/{world.bob.username}/contacts/{answer.json.get('unique_id')}/"

    return add


def read_code() -> str:
    return str(ContactCode.get().code)


def count_messages() -> int:
    return Message.select().where(Message.requested_by.is_null(False)).count()


def let_time_pass(**span) -> None:
    """Make all messages older, and all counted requests."""
    for counted in RateLimit.select():
        counted.recent = [moment - timedelta(**span).total_seconds() for moment in counted.recent]
        counted.save()
    for message in Message.select():
        Message.update(created_at=message.created_at - timedelta(**span)).where(
            Message.id == message.id
        ).execute()


def test_a_new_contact_gets_a_code_that_verifies_it(ask, add):
    path = add()
    assert [message.kind for message in Message.select()] == [MessageKind.CODE]
    before = ask("GET", f"{path}code/", who="bob").json
    assert (before["is_verified"], before["attempts_left"]) == (False, 5)

    verified = ask("POST", f"{path}verify/", {"code": f" {read_code()} "}, who="bob")

    assert (verified.status_code, verified.json["is_verified"], verified.json["expires_at"]) == (
        200,
        True,
        None,
    )
    assert ask("POST", f"{path}code/", who="bob").status_code == 400
    assert ask("POST", f"{path}test/", who="bob").status_code == 200


def test_five_wrong_codes_end_a_code(ask, add):
    path = add()
    code = read_code()
    wrong = f"{(int(code) + 1) % 10**6:06}"
    for left in (4, 3, 2, 1, 0):
        answer = ask("POST", f"{path}verify/", {"code": wrong}, who="bob")
        assert (answer.status_code, list(answer.json["errors"])) == (400, ["code"])
        assert ask("GET", f"{path}code/", who="bob").json["attempts_left"] == left

    assert ask("POST", f"{path}verify/", {"code": code}, who="bob").status_code == 400
    assert ask("GET", f"{path}code/", who="bob").json["is_verified"] is False


def test_a_code_ends_after_ten_minutes(ask, add):
    path = add()
    lives = ContactCode.get().expires_at - store().now()
    assert timedelta(minutes=9) < lives <= timedelta(minutes=10)
    ContactCode.update(expires_at=store().now()).execute()

    assert ask("POST", f"{path}verify/", {"code": read_code()}, who="bob").status_code == 400


def test_a_code_does_not_verify_another_value(ask, add, contacts):
    path = add()
    code = read_code()
    changed = {"value": "other@example.org"}
    let_time_pass(seconds=31)
    assert ask("PATCH", f"{contacts}{path.split('/')[-2]}/", changed, who="bob").status_code == 200

    assert read_code() != code or ContactCode.get().value == "other@example.org"
    assert count_messages() == 2
    verified = ask("POST", f"{path}verify/", {"code": read_code()}, who="bob")
    assert verified.json["is_verified"] is True
    assert ContactMethod.get(ContactMethod.name == "Home").verified_value == "other@example.org"


def test_a_new_code_replaces_the_code_before_it(ask, add):
    path = add()
    first = ContactCode.get()
    assert ask("POST", f"{path}code/", who="bob").status_code == 429
    let_time_pass(seconds=31)
    assert ask("POST", f"{path}code/", who="bob").status_code == 200

    assert ContactCode.select().count() == 1
    assert ContactCode.get().expires_at > first.expires_at


def test_the_code_of_a_contact_with_the_own_address_verifies_that_address(ask, add, world):
    User.update(email="bob@new.example.org").where(User.id == world.bob.id).execute()
    path = add("bob@new.example.org")
    ask("POST", f"{path}verify/", {"code": read_code()}, who="bob")

    assert User.get_by_id(world.bob.id).verified_email == "bob@new.example.org"


@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_a_contact_with_the_own_address_stays_verified_when_that_address_changes(ask, add, world, spelling):
    path = add(spelling(world.bob.email))
    assert count_messages() == 0

    User.update(email="bob@new.example.org").where(User.id == world.bob.id).execute()

    assert ask("GET", f"{path}code/", who="bob").json["is_verified"] is True


def test_a_contact_changed_to_the_own_address_stays_verified_when_that_address_changes(
    ask, add, contacts, world
):
    path = add()
    changed = {"value": world.bob.email}
    assert ask("PATCH", f"{contacts}{path.split('/')[-2]}/", changed, who="bob").status_code == 200

    User.update(email="bob@new.example.org").where(User.id == world.bob.id).execute()

    assert ask("GET", f"{path}code/", who="bob").json["is_verified"] is True


def test_a_code_for_the_own_address_verifies_all_contacts_with_it(ask, add, world):
    User.update(email="bob@new.example.org").where(User.id == world.bob.id).execute()
    first, second = add("bob@new.example.org"), add("Bob@new.example.org")
    ask("POST", f"{first}verify/", {"code": read_code()}, who="bob")

    User.update(email="bob@newer.example.org").where(User.id == world.bob.id).execute()

    for path in (first, second):
        assert ask("GET", f"{path}code/", who="bob").json["is_verified"] is True


def test_only_the_user_and_admins_verify_contacts(ask, add):
    path = add()

    assert ask("POST", f"{path}verify/", {"code": read_code()}, who="charlie").status_code == 403
    assert ask("POST", f"{path}code/", who="charlie").status_code == 403
    assert ask("GET", f"{path}code/", who="charlie").status_code == 403


# --- limits ----------------------------------------------------------------------------------------


def test_a_contact_that_is_not_verified_gets_no_test_message(ask, add):
    answer = ask("POST", f"{add()}test/", who="bob")

    assert (answer.status_code, list(answer.json["errors"])) == (400, ["contact"])
    assert count_messages() == 1


def test_a_person_can_have_twenty_contacts(add, world):
    for number in range(19):
        add(f"{number}@example.org")

    add("20@example.org", status=400)
    assert ContactMethod.select().where(ContactMethod.user == world.bob).count() == 20


def test_a_stranger_gets_few_messages_however_they_are_requested(ask, add, contacts):
    """By new contacts, deleted contacts, codes, other spellings, and with minutes between them."""
    for number in range(40):
        path = add(("stranger@example.net", "Stranger@Example.net")[number % 2])
        let_time_pass(minutes=1)
        ask("POST", f"{path}code/", who="bob")
        ask("POST", f"{path}test/", who="bob")
        assert ask("DELETE", f"{contacts}{path.split('/')[-2]}/", who="bob").status_code == 204

    assert count_messages() == max(count for count, _ in message_limits.ADDRESS[:1])


def test_one_person_requests_few_messages_to_many_addresses(add, ask, contacts):
    for number in range(30):
        path = add(f"stranger{number}@example.net")
        ask("DELETE", f"{contacts}{path.split('/')[-2]}/", who="bob")

    assert count_messages() == message_limits.PERSON[0][0]


def test_a_contact_that_is_created_again_gets_no_other_code_within_30_seconds(ask, add, contacts):
    path = add()
    assert ask("DELETE", f"{contacts}{path.split('/')[-2]}/", who="bob").status_code == 204

    again = add()
    assert count_messages() == 1
    assert ask("POST", f"{again}code/", who="bob").status_code == 429

    let_time_pass(seconds=31)
    assert ask("POST", f"{again}code/", who="bob").status_code == 200


def test_a_changed_contact_gets_no_other_code_within_30_seconds(ask, add, contacts):
    """Neither at its new address, which may be that of another stranger."""
    path = add()
    for value in ("one@example.net", "two@example.net"):
        changed = ask("PATCH", f"{contacts}{path.split('/')[-2]}/", {"value": value}, who="bob")
        assert changed.status_code == 200

    assert count_messages() == 1


def test_a_refused_code_counts_for_no_address(add, ask, contacts, monkeypatch):
    """The contact is created without a code, so its transaction goes on."""
    monkeypatch.setattr(message_limits, "PERSON", ((1, message_limits.HOUR_S),))
    add("one@example.net")
    counted = RateLimit.select().count()

    add("two@example.net")

    assert count_messages() == 1
    assert RateLimit.select().count() == counted


@pytest.mark.skipif(not stores.SERVER, reason="SQLite has one writer at a time")
def test_contacts_are_counted_under_the_lock_of_the_person(ask, add, world):
    """A request waits for another one that has counted the contacts of this person."""
    with ThreadPoolExecutor(1) as pool:
        with store().write_transaction():
            lock_row(world.bob)
            request = pool.submit(add)
            with pytest.raises(TimeoutError):
                request.result(timeout=0.5)
        request.result(timeout=PATIENCE_S)

    assert ContactMethod.select().where(ContactMethod.name == "Home").count() == 1


def test_repeated_invitations_of_one_address_are_limited(ask, world):
    """Also if the member is removed and invited again."""
    invitation = {"team": world.team.unique_id, "user_detail": {"email": "stranger@example.net"}}
    statuses = []
    for _ in range(8):
        statuses.append(ask("POST", "/api/account/api_invite/", invitation).status_code)
        found = User.get_or_none(User.email == "stranger@example.net", User.removed_at.is_null())
        if found is not None:
            ask("POST", "/api/account/deleteuser/", {"username": found.username})

    assert statuses == [201] * 5 + [429] * 3
    assert count_messages() == 5
