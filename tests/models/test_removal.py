"""Who takes an account over."""

from models.accounts import Configuration, User
from models.enums import AccountRole
from models.removal import hand_over
from models.teams import Team


def owners(account) -> list[User]:
    return list(User.select().where(User.account == account, User.role == AccountRole.OWNER))


def test_an_account_has_one_owner_before_and_after(world, store):
    teams = [team.owner for team in Team.select().order_by(Team.id)]
    before = Configuration.get(Configuration.account == world.account).version

    with store.writing():
        assert hand_over(world.account, world.bob) == world.alice

    assert owners(world.account) == [world.bob]
    assert User.get_by_id(world.alice.id).role == AccountRole.ADMIN
    assert owners(world.mallory.account) == [world.mallory]
    assert [team.owner for team in Team.select().order_by(Team.id)] == teams
    assert Configuration.get(Configuration.account == world.account).version == before + 1


def test_an_account_is_handed_to_nobody_who_was_removed(world, store, now):
    with store.writing():
        User.update(removed_at=now).where(User.id == world.bob.id).execute()
        assert hand_over(world.account, world.bob) is None

    assert User.get_by_id(world.alice.id).role == AccountRole.OWNER
