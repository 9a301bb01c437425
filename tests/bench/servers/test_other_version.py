"""An instance of another version runs the code of its folder."""

import sys

import pytest

from bench.servers.instance import NotReady
from bench.servers.other_version import OtherVersion


@pytest.fixture
def code(tmp_path):
    """A folder whose program names itself and ends."""
    folder = tmp_path / "before"
    (folder / "tocsin").mkdir(parents=True)
    (folder / "tocsin" / "__init__.py").touch()
    (folder / "tocsin" / "__main__.py").write_text("import sys; print('the code before', sys.argv[1:])")
    return folder


def test_the_code_of_the_folder_is_run(tmp_path, code):
    instance = OtherVersion(tmp_path, 25, code=str(code))

    with pytest.raises(NotReady, match=r"the code before \['up'\]"):
        instance.start()


def test_the_packages_of_the_folder_are_used_if_it_has_some(tmp_path, code):
    assert OtherVersion(tmp_path, 25, code=str(code)).python == sys.executable

    python = code / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)

    assert OtherVersion(tmp_path, 25, code=str(code)).python == str(python)
