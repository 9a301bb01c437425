"""`tocsin send`: send the example of a monitoring tool to the web process on this host."""

import sys
from http.client import HTTPConnection, HTTPException
from importlib import resources

import click
import orjson

from models.domain.identity import is_uuid
from runtime.settings import find_local_address, load
from tocsin.commands.alerts.source_guides import GUIDES, build_steps
from tocsin.commands.kinds import EVENT_APIS, KindType
from tocsin.commands.options import as_json_option
from tocsin.commands.output import print_json, to_printable
from tocsin.commands.read_only import BadArguments

TIMEOUT_S = 15
EXAMPLES = resources.files("tocsin.commands.alerts").joinpath("examples")


def load_example(kind: str) -> dict[str, object]:
    """Return the example of a kind: its `body`, maybe `headers`, and its `origin`.

    A tool without an example has no form of its own: it sends the generic one.
    """
    path = EXAMPLES.joinpath(f"{kind}.json")
    found = path if path.is_file() else EXAMPLES.joinpath("generic.json")
    example: dict[str, object] = orjson.loads(found.read_bytes())
    return example


@click.command()
@click.option("--as", "kind", metavar="TOOL", type=KindType(), required=True, help="Monitoring tool.")
@click.option("--key", metavar="KEY", help="Key of the integration.")
@click.option("--show", is_flag=True, help="Show how to set up the tool, and the example; send nothing.")
@as_json_option
def send(kind: str, key: str | None, show: bool, as_json: bool) -> None:
    """Send the example of a tool to an integration, as the tool would send it.

    The example can open an incident and notify people. Exit code 1: it was not accepted. 2: an argument is
    invalid.
    """
    if kind in EVENT_APIS:
        raise BadArguments(f"{kind} has its own operation: see docs/sources/{kind}.md")
    example = load_example(kind)
    if show:
        if kind in GUIDES:
            click.echo(build_steps(kind) + "\n")
        click.echo(orjson.dumps(example["body"], option=orjson.OPT_INDENT_2).decode())
        return
    if key is None or not is_uuid(key):
        raise click.BadParameter("give the key of an integration: tocsin send --as KIND --key KEY")
    status, text = _request(f"/api/integration/{kind}/{key}/", example)
    if as_json:
        print_json({"status": status, "answer": text})
    else:
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
