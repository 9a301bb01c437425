"""Prepared queries return the same rows as normal peewee queries."""

from importlib import import_module

import peewee
import pytest

from models.domain.enums import AccountRole
from models.store import prepared
from models.store.peewee_internals import get_values
from models.store.prepared import Prepared, bind, build_rows, in_bound
from models.tables.accounts import Account, CustomRole, User
from models.tables.events import Entity
from models.tables.teams import EscalationPolicy

BY_NAME = Prepared(lambda: User.select(User.id, User.first_name).where(User.email == bind("email")))
BY_IDS = Prepared(
    lambda: User.select(User.first_name).where(in_bound(User.email, "emails")).order_by(User.id)
)


def test_a_prepared_query_finds_the_rows_for_each_bound_value(world):
    assert BY_NAME.rows(email="alice@example.org") == [(world.alice.id, "Alice")]
    assert BY_NAME.first(email="bob@example.org") == (world.bob.id, "Bob")
    assert BY_NAME.rows(email="nobody@example.org") == []
    assert BY_NAME.first(email="nobody@example.org") is None


def test_a_list_of_any_length_is_one_parameter(world, statements):
    with statements() as seen:
        for emails in ([], ["bob@example.org"], ["bob@example.org", "x", "alice@example.org"]):
            found = [name for (name,) in BY_IDS.rows(emails=emails)]
            assert found == [name for name in ("Alice", "Bob") if f"{name.lower()}@example.org" in emails]

    assert len({text for text, _ in seen}) == 1


def test_a_prepared_query_converts_datetimes_json_and_booleans(world, now):
    policy = Prepared(
        lambda: EscalationPolicy.select(
            EscalationPolicy.creation_date, EscalationPolicy.rules, EscalationPolicy.move_to_next
        ).where(EscalationPolicy.creation_date == bind("at"), EscalationPolicy.id == bind("row"))
    )
    (at, rules, move_to_next) = policy.first(at=now, row=world.policy.id)

    assert (at, rules) == (now, world.policy.rules)
    assert move_to_next is True


def test_a_prepared_update_returns_the_number_of_changed_rows(world, now):
    removed = Prepared(lambda: User.update(removed_at=bind("at")).where(User.email == bind("email")))

    assert removed.run(at=now, email="bob@example.org") == 1
    assert removed.run(at=now, email="nobody@example.org") == 0
    assert User.get_by_id(world.bob.id).removed_at == now


def test_a_prepared_query_is_built_once_with_constant_numbers_in_its_text(world, statements):
    builds = []

    def build_query():
        builds.append(1)
        owners = User.select(User.email).where(User.role == AccountRole.OWNER, User.id < bind("row"))
        return owners.order_by(User.id).limit(5)

    prepared = Prepared(build_query)
    with statements() as seen:
        for _ in range(3):
            assert prepared.rows(row=2**40) == [("alice@example.org",), ("mallory@example.net",)]

    assert builds == [1]
    text, values = seen[0]
    assert list(values) == [2**40]
    assert "= 1" in text
    assert "LIMIT 5" in text


def test_a_boolean_condition_uses_the_literal_of_the_store(world):
    firing = Prepared(lambda: Entity.select(Entity.id).where(Entity.firing == False))  # noqa: E712

    assert firing.rows() == []


def test_rows_are_built_with_the_types_of_their_fields(world):
    users = Prepared(lambda: User.select(User, Account).join(Account).where(User.id == bind("id")))
    expected = User.get_by_id(world.alice.id)

    user, account = build_rows(users.first(id=expected.id), User, Account)

    assert get_values(user) == get_values(expected)
    assert get_values(account) == get_values(expected.account)


def test_an_outer_join_without_a_row_builds_none(world):
    roles = Prepared(
        lambda: (
            User.select(User, CustomRole)
            .join(CustomRole, peewee.JOIN.LEFT_OUTER)
            .where(User.id == bind("id"))
        )
    )

    assert build_rows(roles.first(id=world.alice.id), User, CustomRole)[1] is None


def test_all_queries_of_the_code_are_built_before_the_first_alert(store, monkeypatch):
    import_module("workers.main")
    import_module("web.app")
    prepared.compile_all()

    monkeypatch.setattr(prepared, "_compile", pytest.fail)
    assert BY_NAME in prepared._all
    for one in prepared._all:
        one.compile()
