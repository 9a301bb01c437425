"""Each change of an account's configuration makes each lane of it load its configuration again."""

import peewee
import pytest

from models.domain.facts import LaneFacts
from models.load.lane import load_lane
from models.store.store import connection
from models.tables.services import Service


def test_a_lane_loads_its_configuration_again_without_building_sql(world, monkeypatch):
    with connection():
        service = Service.get_by_id(world.service.id)
        first = load_lane(service)
        monkeypatch.setattr(peewee.SelectBase, "__sql__", pytest.fail)
        second = load_lane(service)

    assert isinstance(first, LaneFacts)
    assert second.config == first.config
    assert set(second.integrations) == {world.integration.id}
