"""Members decide whether they get a mail when an incident is resolved."""

import pytest

from models.tables.accounts import User


def get_path(user):
    return f"/api/tocsin/users/{user.username}/messages/"


def test_a_member_gets_recovery_mails_until_they_are_switched_off(ask, world):
    before = ask("GET", get_path(world.bob), who="bob").json
    changed = ask("PATCH", get_path(world.bob), who="bob", json={"recovery_mails": False}).json

    assert (before, changed) == ({"recovery_mails": True}, {"recovery_mails": False})
    assert ask("GET", get_path(world.bob), who="bob").json == changed
    assert User.get_by_id(world.bob.id).recovery_mails is False


@pytest.mark.parametrize("body", [{"recovery_mails": "perhaps"}, {"recovery_mails": None}])
def test_an_invalid_value_is_an_error(ask, world, body):
    answer = ask("PATCH", get_path(world.bob), who="bob", json=body)

    assert answer.status_code == 400
    assert "recovery_mails" in answer.json["errors"]


def test_others_cannot_change_the_setting(ask, world):
    answer = ask("PATCH", get_path(world.alice), who="bob", json={"recovery_mails": False})

    assert answer.status_code in (403, 404)
    assert User.get_by_id(world.alice.id).recovery_mails is True
