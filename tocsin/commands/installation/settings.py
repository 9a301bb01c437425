"""`tocsin settings`: the table of settings with the values that a process would use."""

import click

from runtime.settings import DEFAULT, SETTINGS, Given, Setting, parse_settings, read_given
from tocsin.commands.options import as_json_option
from tocsin.commands.output import print_json_list, to_printable


@click.command()
@as_json_option
def settings(as_json: bool) -> None:
    """Show every setting, its value, where the value is from, and its meaning. Secrets are not shown."""
    given = read_given()
    parse_settings(given)
    rows = [
        (
            setting.variable,
            format_value(setting, given[setting.name]),
            given[setting.name].source,
            setting.meaning,
        )
        for setting in SETTINGS
    ]
    if as_json:
        names = ("name", "value", "source", "meaning")
        print_json_list(dict(zip(names, row, strict=True)) for row in rows)
        return
    width = max(len(name) for name, *_ in rows)
    for name, value, source, meaning in rows:
        shown = f"{value or '-'}{'' if source == DEFAULT else f' ({source})'}"
        click.echo(to_printable(f"{name:{width}}  {shown:30}  {meaning}"))


def format_value(setting: Setting, given: Given) -> str:
    return "(set)" if setting.secret and given.text else given.text
