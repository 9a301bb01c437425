"""`tocsin health`: ask the web process on this host, as the health check of a container does."""

import sys
from http.client import HTTPConnection, HTTPException

import click
import orjson

from runtime.settings import find_local_address, load

# Longer than /readyz needs for its answer, shorter than the health check of the image waits.
TIMEOUT_S = 4


@click.command()
def health() -> None:
    """Say whether the web process on this host can accept alerts, at the port of the settings.

    Exit code 1: it cannot, or none answers.
    """
    settings = load()
    # Not by TOCSIN_PUBLIC_URL: a reverse proxy can be down, or use another host.
    client = HTTPConnection(find_local_address(settings.host), settings.port, timeout=TIMEOUT_S)
    try:
        client.request("GET", "/readyz")
        answer = client.getresponse()
        status = orjson.loads(answer.read())["status"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError) as error:
        click.echo(f"tocsin: no answer of web at port {settings.port}: {error}", err=True)
        sys.exit(1)
    finally:
        client.close()
    click.echo(status)
    sys.exit(0 if answer.status == 200 else 1)
