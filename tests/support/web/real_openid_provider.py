"""A certified OpenID provider on this host, in a process of Node.js (tests/clients/openid/)."""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import find_free_port
from tests.support.requirements import skip_or_fail
from tests.support.web.openid_provider import CLIENT_ID, CLIENT_SECRET

ROOT = Path(__file__).parents[3]
MODULES = ROOT / ".venv/openid"
PROGRAM = ROOT / "tests/clients/openid/provider.mjs"


@contextlib.contextmanager
def run_real_provider(public_url: str, people: dict[str, dict[str, object]]) -> Iterator[str]:
    """Run a provider with these claims by name, for Tocsin at this address. Return its issuer."""
    if not (MODULES / "node_modules/oidc-provider").exists() or shutil.which("node") is None:
        skip_or_fail("oidc-provider is not installed: make openid-provider")
    port = find_free_port()
    given = {
        "port": port, "redirect": f"{public_url}/sign-in/provider/callback/", "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET, "people": people,
    }  # fmt: skip
    with subprocess.Popen(
        ["node", str(PROGRAM), json.dumps(given)],
        env={**os.environ, "NODE_MODULES": str(MODULES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
