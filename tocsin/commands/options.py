"""Options of several commands. This module imports nothing of Tocsin: a command loads only what it needs."""

import click

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
# A command that works in one account.
account_option = click.option(
    "--account", "account_id", help="Identifier of the account, if there is more than one."
)
# A command that lists what is in all accounts.
accounts_option = click.option(
    "--account", "account_id", help="Identifier of one account; default: all accounts."
)
