"""`tocsin health`: ask the web process on this host, as the health check of a container does."""

import sys
from http.client import HTTPConnection, HTTPException

import click
import orjson

from runtime.settings import find_local_address, load
from tocsin.commands.options import as_json_option
from tocsin.commands.output import print_result, to_printable

# Longer than /readyz needs for its answer, shorter than the health check of the image waits.
TIMEOUT_S = 4


@click.command()
@as_json_option
def health(as_json: bool) -> None:
    """Say whether the web process on this host can accept alerts, at the port of the settings.

    Exit code 1: it cannot, or none answers.
    """
    settings = load()
    # Not by TOCSIN_PUBLIC_URL: a reverse proxy can be down, or use another host.
    client = HTTPConnection(find_local_address(settings.host), settings.port, timeout=TIMEOUT_S)
    try:
        client.request("GET", "/readyz")
        answer = client.getresponse()
        found = orjson.loads(answer.read())
        # The server itself can refuse a request, for example while it has too many.
        is_refusal = "status" not in found
        text = f"{answer.status} {found['detail']}" if is_refusal else found["status"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        click.echo(f"tocsin: no answer of web at port {settings.port}: {error}", err=True)
        sys.exit(1)
    finally:
        client.close()
    if is_refusal:
        click.echo(to_printable(f"tocsin: web at port {settings.port} refuses: {text}"), err=True)
        sys.exit(1)
    print_result({"status": text}, as_json, text)
    sys.exit(0 if answer.status == 200 else 1)
