"""`tocsin settings`: the table of settings with the values of this environment."""

import json
import os

import click

from runtime.settings import SETTINGS, Setting, load


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def settings(as_json: bool) -> None:
    """Show every setting, its value and its meaning. Secrets are not shown."""
    load()
    rows = [(setting.variable, format_value(setting), setting.meaning) for setting in SETTINGS]
    if as_json:
        click.echo(json.dumps([dict(zip(("name", "value", "meaning"), row, strict=True)) for row in rows]))
        return
    width = max(len(name) for name, _, _ in rows)
    for name, value, meaning in rows:
        click.echo(f"{name:{width}}  {value or '-':20}  {meaning}")


def format_value(setting: Setting) -> str:
    value = os.environ.get(setting.variable, setting.default)
    return "(set)" if setting.secret and value else value
