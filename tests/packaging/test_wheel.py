"""The wheel holds the whole product, and an installation that is not editable works."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.polling import wait_until
from tests.support.processes import build_environment, find_free_port

ROOT = Path(__file__).parents[2]
PRODUCT = ("models", "pipeline", "runtime", "schedules", "tocsin", "web", "workers")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, so that the build leaves nothing in the checkout."""
    sources = tmp_path_factory.mktemp("sources")
    for name in PRODUCT:
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "."]
    subprocess.run([*command, "--wheel-dir", "dist"], cwd=sources, check=True, timeout=55)
    (built,) = (sources / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_product(wheel):
    files = {
        str(path.relative_to(ROOT))
        for name in PRODUCT
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }

    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert packed == files


@pytest.mark.wheel
@pytest.mark.timeout(300)
def test_an_installed_wheel_takes_an_alert(wheel, tmp_path):
    """Install into an empty environment, away from the checkout, and start it."""
    python = tmp_path / "installed" / "bin" / "python"
    uv = str(Path(sys.executable).with_name("uv"))
    without_checkout = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for words in (
        ["venv", "--quiet", "--python", sys.executable, str(tmp_path / "installed")],
        *(
            [
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--require-hashes",
                "--no-build-isolation",
                "--python",
                str(python),
                "-r",
                str(ROOT / lock),
            ]
            for lock in ("requirements-build.lock", "requirements.lock")
        ),
        ["pip", "install", "--quiet", "--no-deps", "--python", str(python), str(wheel)],
    ):
        subprocess.run([uv, *words], cwd=tmp_path, env=without_checkout, check=True, timeout=200)

    assert not list(tmp_path.glob("installed/lib/*/site-packages/freezegun*"))

    home, port = tmp_path / "home", find_free_port()
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python.with_name("tocsin")), "up"],
            cwd=tmp_path,
            env=build_environment(home, port),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        answer = wait_until(lambda: send_first_alert(python, home), seconds=60.0, every=0.2)
        trace = subprocess.run(
            [str(python.with_name("tocsin")), "why", answer],
            cwd=tmp_path,
            env=build_environment(home, port),
            capture_output=True,
            text=True,
            timeout=30,
        )
    finally:
        process.terminate()
        process.wait(30)

    assert trace.returncode == 0, log.read_text()[-2000:]
    assert "Disk full on db1" in trace.stdout


def send_first_alert(python: Path, home: Path) -> str:
    """Return the trace_id of an alert, or an empty string while the service is not ready."""
    script = """
import json, sys, urllib.request
keys = json.load(open(sys.argv[1]))
url = next(url for urls in keys["webhook_urls"].values() for url in urls if "/generic/" in url)
body = {"message": "Disk full on db1", "alert_type": "critical", "entity_id": "db1-disk"}
request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=5))["trace_id"])
"""
    command = [str(python), "-c", script, str(home / "credentials.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
