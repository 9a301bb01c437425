"""The data folder: only its owner may read it, since it holds the database with the key that signs links."""

import os
import pwd
import shlex
import stat
from pathlib import Path

from runtime import settings_file
from runtime.setting_values import BadSetting

# New files and folders of this process belong to its owner only.
UMASK = 0o077
# A folder with one of these is a data folder.
OUR_FILES = {
    settings_file.NAME,
    "tocsin.db",
    "credentials.json",
    "metrics",
    "migrate.lock",
    "redis.lock",
    "redis.folder",
    "up.lock",
}
# A new file system has this folder, and the README writes this log.
IGNORED = {"lost+found", "up.log"}


def prepare(home: Path) -> None:
    """Create the folder if it is missing, and keep new files of this process private.

    Raises BadSetting if other users of the host may use the folder, or if it has files of others only.
    """
    os.umask(UMASK)
    check(home)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    # First this: the advice below would be wrong for a folder of the system.
    names = {path.name for path in home.iterdir() if not path.name.startswith(".")} - IGNORED
    if names and not names & OUR_FILES and not any(name.endswith(".lock") for name in names):
        raise BadSetting(
            f"the folder {home} has files, but no data of Tocsin: choose an empty or new folder with --home"
            " or TOCSIN_HOME"
        )
    if stat.S_IMODE(home.stat().st_mode) & UMASK:
        raise BadSetting(
            "other users of this host can use the data folder (TOCSIN_HOME)."
            f" Run: chmod 700 {shlex.quote(str(home))}"
        )


def check(home: Path) -> None:
    """Raise BadSetting if the path is not a folder, or if another user owns it. Create nothing."""
    try:
        found = home.stat()
    except OSError:
        # It is missing, or the command that uses it reports the error.
        return
    if not stat.S_ISDIR(found.st_mode):
        raise BadSetting(f"TOCSIN_HOME must be the path of a folder; {home} is a file")
    if _is_of_another_user(found):
        raise BadSetting(
            f"the data folder {home} belongs to the user {_get_user_name(found.st_uid)}: run Tocsin as this"
            " user, or choose another folder with --home or TOCSIN_HOME"
        )


def is_of_another_user(home: Path) -> bool:
    """Return whether another user owns this folder, or a folder above it that this user cannot enter."""
    try:
        found = home.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and _is_of_another_user(found)


def _is_of_another_user(found: os.stat_result) -> bool:
    # root can use every folder; in a container it has a folder of the host.
    return os.geteuid() not in (0, found.st_uid)


def _get_user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
