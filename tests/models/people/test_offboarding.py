"""Transfer of the ownership of an account."""

from models.domain.enums import AccountRole
from models.people.offboarding import transfer_ownership
from models.tables.accounts import ConfigVersion, User
from models.tables.teams import Team


def list_owners(account) -> list[User]:
    return list(User.select().where(User.account == account, User.role == AccountRole.OWNER))


def test_a_transfer_leaves_an_account_with_one_owner(world, store):
    teams = [team.owner for team in Team.select().order_by(Team.id)]
    before = ConfigVersion.get(ConfigVersion.account == world.account).version

    with store.write_transaction():
        assert transfer_ownership(world.account, world.bob) == world.alice

    assert list_owners(world.account) == [world.bob]
    assert User.get_by_id(world.alice.id).role == AccountRole.ADMIN
    assert list_owners(world.mallory.account) == [world.mallory]
    assert [team.owner for team in Team.select().order_by(Team.id)] == teams
    assert ConfigVersion.get(ConfigVersion.account == world.account).version == before + 1


def test_an_account_is_not_transferred_to_a_removed_user(world, store, now):
    with store.write_transaction():
        User.update(removed_at=now).where(User.id == world.bob.id).execute()
        assert transfer_ownership(world.account, world.bob) is None

    assert User.get_by_id(world.alice.id).role == AccountRole.OWNER
