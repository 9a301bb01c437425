"""`tocsin rotate-link-key`: replace the key that signs links, for example after somebody read a backup."""

import click

from models.links import signed_links
from tocsin.commands.options import as_json_option
from tocsin.commands.output import print_result
from tocsin.commands.writing import write_transaction


@click.command("rotate-link-key")
@as_json_option
def rotate_link_key(as_json: bool) -> None:
    """Replace the key that signs links. All links of before end at once; no process needs a restart."""
    with write_transaction():
        signed_links.rotate_key()
    print_result(
        {"action": "rotated"},
        as_json,
        "The key that signs links is new. All links of before are invalid: links to incidents, invitations,"
        " and addresses of calendar feeds. Send pending invitations again. People must subscribe to their"
        " calendars again.",
    )
