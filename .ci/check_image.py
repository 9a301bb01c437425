"""Unpack the container image and run its entry point: one alert in, one mail out.

The process runs by chroot as the user of the image, with a root folder that it cannot write. Needs root, and
what deploy/image.sh built. If the image is missing, the root folder alone is run. If mounts are refused, only
permissions keep the root folder from changes. The last line says what was tested.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.mail_server import Mailbox, start_mailbox  # noqa: E402
from tests.support.polling import wait_until  # noqa: E402
from tests.support.processes import find_free_port  # noqa: E402

FILES = ROOT / "build" / "image"
START_S = 60.0
# The first argument is the root folder, the second the data folder. The mounts end with the process.
MOUNT = """
set -e
mount --bind "$1" "$1"
mount --bind "$2" "$1/var/lib/tocsin"
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/tmp"
mount -o remount,bind,ro "$1"
shift 2
exec "$@"
"""


def unpack(folder: Path) -> tuple[str, dict[str, object]]:
    """Unpack the image into a folder. Return what it is and its configuration."""
    image = FILES / "tocsin.tar"
    if not image.exists():
        extract(FILES / "root.tar", folder)
        return "root folder alone", {
            "User": "10001:10001",
            "Entrypoint": ["/opt/tocsin/bin/tocsin"],
            "Cmd": ["up"],
            "Healthcheck": {"Test": ["CMD", "/opt/tocsin/bin/health"]},
        }
    with tempfile.TemporaryDirectory() as parts:
        extract(image, Path(parts))
        (manifest,) = json.loads(Path(parts, "manifest.json").read_text())
        for layer in manifest["Layers"]:
            extract(Path(parts, layer), folder)
        config: dict[str, object] = json.loads(Path(parts, manifest["Config"]).read_text())["config"]
    return "image", config


def extract(archive: Path, folder: Path) -> None:
    subprocess.run(["tar", "-x", "-f", archive, "-C", folder, "--numeric-owner", "-p"], check=True)


def make_devices(root: Path) -> None:
    """Create what a container engine provides."""
    (root / "dev").mkdir(exist_ok=True)
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        subprocess.run(["mknod", "-m", "666", str(root / "dev" / name), "c", "1", str(minor)], check=True)


def find_prefix(root: Path, home: Path) -> list[str]:
    """Return the words before a command that let it run with mounts; empty if mounts are refused."""
    prefix = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", str(root), str(home)]
    return prefix if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0 else []


def check(root: Path, home: Path, config: dict[str, object]) -> bool:
    """Run the image and return whether its root folder was mounted for reading only."""
    user = str(config["User"])
    uid, _, gid = user.partition(":")
    os.chown(home, int(uid), int(gid))
    make_devices(root)
    prefix = find_prefix(root, home)
    data = home if prefix else root / "var" / "lib" / "tocsin"
    chroot = [*prefix, "chroot", f"--userspec={user}", str(root)]
    port = find_free_port()
    # The health check must find a port that is in the file only.
    write_settings(data / "tocsin.toml", f"port = {port}\n", int(uid), int(gid))
    with start_mailbox() as mailbox:
        settings = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "TOCSIN_HOME": "/var/lib/tocsin",
            "TOCSIN_SMTP_HOST": "127.0.0.1",
            "TOCSIN_SMTP_PORT": str(mailbox.port),
        }
        command = [*chroot, *config["Entrypoint"], *config["Cmd"]]  # type: ignore[misc]
        process = subprocess.Popen(command, env=settings)
        try:
            health = [*chroot, *config["Healthcheck"]["Test"][1:]]  # type: ignore[index]
            wait_until(lambda: is_healthy(process, health, settings), seconds=START_S, every=0.5)
            send_alert(data, port)
            check_mail(mailbox)
            written = [*chroot, "/bin/sh", "-c", "touch /opt/tocsin/new || touch /usr/new"]
            assert subprocess.run(written, env=settings, capture_output=True).returncode != 0
        finally:
            process.terminate()
            code = process.wait(30)
    assert code == 0, f"the image ended with {code}"
    return bool(prefix)


def write_settings(path: Path, text: str, uid: int, gid: int) -> None:
    path.touch(0o600)
    path.write_text(text)
    os.chown(path, uid, gid)


def is_healthy(process: "subprocess.Popen[bytes]", health: list[str], settings: dict[str, str]) -> bool:
    assert process.poll() is None, "the image ended before it was ready"
    return subprocess.run(health, env=settings, capture_output=True).returncode == 0


def send_alert(data: Path, port: int) -> None:
    key = json.loads((data / "credentials.json").read_text())["integration_key"]
    alert = {"message": "Disk full on db1", "alert_type": "critical", "entity_id": "db1-disk"}
    url = f"http://127.0.0.1:{port}/api/events/{key}/"
    request = urllib.request.Request(url, json.dumps(alert).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert 200 <= answer.status < 300


def check_mail(mailbox: Mailbox) -> None:
    ((recipient, mail),) = mailbox.wait_for(1, 30.0)
    assert recipient == "owner@localhost"
    assert "Disk full on db1" in str(mail["Subject"])


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tocsin-image-"))
    try:
        root, home = folder / "root", folder / "home"
        root.mkdir()
        home.mkdir(mode=0o700)
        # The user of the image must reach both folders.
        folder.chmod(0o711)
        what, config = unpack(root)
        is_mounted = check(root, home, config)
    finally:
        shutil.rmtree(folder)
    how = (
        "root mounted read-only" if is_mounted else "mounts are refused here: root not writable for the user"
    )
    print(f"one alert in, one mail out: {what}, by chroot as {config['User']}, {how}")


if __name__ == "__main__":
    main()
