"""The data folder: only its owner may read it, since it holds the database with the key that signs links."""

import os
import shlex
import stat
from pathlib import Path

from runtime.settings import BadSetting

# New files and folders of this process belong to its owner only.
UMASK = 0o077


def prepare(home: Path) -> None:
    """Create the folder if it is missing, and keep new files of this process private.

    Raises BadSetting if other users of the host may use the folder.
    """
    os.umask(UMASK)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(home.stat().st_mode) & UMASK:
        raise BadSetting(
            "other users of this host can use the data folder (TOCSIN_HOME)."
            f" Run: chmod 700 {shlex.quote(str(home))}"
        )
