"""`tocsin send`: send the example of a monitoring tool to the web process on this host."""

import sys
from http.client import HTTPConnection, HTTPException
from importlib import resources

import click
import orjson

from models.domain.identity import is_uuid
from runtime.settings import find_local_address, load
from tocsin.commands.alerts.source_guides import GUIDES, build_steps
from tocsin.commands.output import to_printable

TIMEOUT_S = 15
EXAMPLES = resources.files("tocsin.commands.alerts").joinpath("examples")


def list_kinds() -> list[str]:
    """Return the kinds of applications that have an example."""
    return sorted(entry.name.removesuffix(".json") for entry in EXAMPLES.iterdir())


def load_example(kind: str) -> dict[str, object]:
    """Return the example of a kind: its `body`, maybe `headers`, and its `origin`."""
    example: dict[str, object] = orjson.loads(EXAMPLES.joinpath(f"{kind}.json").read_bytes())
    return example


@click.command()
@click.option(
    "--as", "kind", type=click.Choice(list_kinds()), required=True, help="Monitoring tool of the example."
)
@click.option("--key", metavar="KEY", help="Key of the integration.")
@click.option("--show", is_flag=True, help="Show how to set up the tool, and the example; send nothing.")
def send(kind: str, key: str | None, show: bool) -> None:
    """Send the example of a tool to an integration, as the tool would send it.

    The example can open an incident and notify people. Exit code 1: it was not accepted. 2: an argument is
    invalid.
    """
    example = load_example(kind)
    if show:
        if kind in GUIDES:
            click.echo(build_steps(kind) + "\n")
        click.echo(orjson.dumps(example["body"], option=orjson.OPT_INDENT_2).decode())
        return
    if key is None or not is_uuid(key):
        raise click.BadParameter("give the key of an integration: tocsin send --as KIND --key KEY")
    status, text = _request(f"/api/integration/{kind}/{key}/", example)
    click.echo(to_printable(text), err=status != 200)
    sys.exit(0 if status == 200 else 1)


def _request(path: str, example: dict[str, object]) -> tuple[int, str]:
    """Post to the web process at the port of the settings. Return the status and the text of its answer."""
    settings = load()
    client = HTTPConnection(find_local_address(settings.host), settings.port, timeout=TIMEOUT_S)
    headers = example.get("headers")
    sent = {"Content-Type": "application/json", **(headers if isinstance(headers, dict) else {})}
    try:
        client.request("POST", path, orjson.dumps(example["body"]), sent)
        answer = client.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        return 0, f"tocsin: no answer of web at port {settings.port}: {error}"
    finally:
        client.close()
