"""The table of channels agrees with the files, the settings and the routes."""

from importlib.util import find_spec
from pathlib import Path

from models.domain.channels import CHANNELS, DELIVERY_CHANNELS, USER_EMAIL_CHANNEL
from models.domain.enums import ContactType
from runtime.settings import SETTINGS, find_unset, load
from tests.support.offenders import list_offenders
from web.routes import ROUTES
from workers.delivery import channels
from workers.delivery.deliver import create_channel

NAMES = [spec.name for spec in DELIVERY_CHANNELS.values()]


def test_each_channel_has_a_file_and_each_file_is_a_channel():
    files = {path.stem for path in Path(channels.__path__[0]).glob("*.py")} - {"__init__"}

    assert sorted(NAMES) == sorted(files)


def test_contact_types_are_those_of_the_contract_or_begin_at_101():
    others = set(CHANNELS) - set(ContactType)

    assert all(number == spec.contact_type for number, spec in CHANNELS.items())
    assert all(number > 100 for number in others)
    assert USER_EMAIL_CHANNEL in CHANNELS


def test_a_channel_names_the_setting_that_the_table_of_settings_marks():
    def check(name):
        settings = load({})
        variable, missing = find_unset(settings, name), create_channel(name, settings).find_missing_setting()

        assert missing == (f"set {variable}" if variable else None)

    assert list_offenders(check, NAMES) == []


def test_settings_are_needed_by_channels_of_the_table():
    assert {name for setting in SETTINGS for name in setting.needed_by} <= set(NAMES)


def test_a_channel_with_buttons_has_a_module_and_a_route_that_they_call():
    def check(spec):
        module = f"web.callbacks.{spec.name}"
        has_module = find_spec("web.callbacks") is not None and find_spec(module) is not None
        has_route = any(each.view.__module__ == module for each in ROUTES)

        assert (has_module, has_route) == (spec.buttons, spec.buttons)

    assert list_offenders(check, DELIVERY_CHANNELS.values(), lambda spec: spec.name) == []
