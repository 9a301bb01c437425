"""Fetch the shared JSON Logic test suite into build/jsonlogic/, for
tests/pipeline/rules/conditions/test_jsonlogic_suite.py.

The suite is not part of this repository. The source distribution of the engine contains it. pip downloads the
version in requirements.lock and checks its hash.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "build" / "jsonlogic" / "compatible.json"
PACKAGE = "datalogic-py"
MEMBER = "tests/suites/compatible.json"

# To download a source distribution, pip reads its metadata, and the package's build tool would need a Rust
# compiler for it. This file replaces that tool: nothing is built here.
STAND_IN = """
from pathlib import Path


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory) / "datalogic_py-{version}.dist-info"
    folder.mkdir()
    lines = ["Metadata-Version: 2.1", "Name: datalogic-py", "Version: {version}"]
    (folder / "METADATA").write_text("\\n".join(lines) + "\\n")
    return folder.name
"""


def locked() -> str:
    """Return the requirement of the package with its hashes, from the lock file."""
    lines = iter((ROOT / "requirements.lock").read_text().splitlines())
    block = [next(line for line in lines if line.startswith(f"{PACKAGE}=="))]
    while block[-1].endswith("\\"):
        block.append(next(lines))
    return "\n".join(block) + "\n"


def download(folder: Path) -> Path:
    requirement = locked()
    version = requirement.split("==")[1].split()[0]
    (folder / "requirement.txt").write_text(requirement)
    (folder / "maturin.py").write_text(STAND_IN.format(version=version))
    asked = ["--no-deps", "--no-build-isolation", "--no-binary", PACKAGE, "--require-hashes"]
    subprocess.run(  # noqa: S603 - pip, with arguments from this file
        [sys.executable, "-m", "pip", "download", "-q", *asked, "-r", "requirement.txt", "-d", "got"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        check=True,
    )
    return next((folder / "got").glob("*.tar.gz"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, tarfile.open(download(Path(folder))) as archive:
        member = next(name for name in archive.getnames() if name.endswith(f"/{MEMBER}"))
        content = archive.extractfile(member)
        if content is None:
            raise SystemExit(f"{member} is not a file")
        SUITE.parent.mkdir(parents=True, exist_ok=True)
        SUITE.write_bytes(content.read())
    print(f"{SUITE.relative_to(ROOT)}: {SUITE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
