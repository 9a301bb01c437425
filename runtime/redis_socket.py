"""Find the socket of the embedded Redis server of a data folder."""

import contextlib
import os
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote

# sun_path of a socket address has 108 bytes, including the final zero byte.
MAX_PATH = 107


class NoServer(RuntimeError):
    """No Redis server can be started; the text says what to do."""


def get_url(home: Path) -> str:
    """Return the URL of the embedded server of a data folder. The server need not run."""
    return f"unix://{quote(str(get_socket_path(home)))}?db=0"


def get_socket_path(home: Path) -> Path:
    """Return the path of the server's socket, in the data folder if its path is not longer than MAX_PATH.

    Else the socket is in a temporary folder, and the file `redis.folder` in the data folder has its path.
    """
    default_path = home / "redis.sock"
    if len(os.fsencode(default_path)) <= MAX_PATH:
        return default_path
    folder = Path(_get_short_folder(home / "redis.folder"))
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise NoServer(f"{folder} belongs to another user: remove {home / 'redis.folder'} and start again")
    return folder / "redis.sock"


def _get_short_folder(pointer: Path) -> str:
    """Return the folder that is stored in the file; the first process creates both."""
    if not pointer.exists():
        draft = pointer.with_name(f"{pointer.name}.{os.getpid()}.{threading.get_ident()}")
        draft.write_text(tempfile.mkdtemp(prefix="tocsin-"))
        with contextlib.suppress(FileExistsError):
            os.link(draft, pointer)
        draft.unlink()
    return pointer.read_text()
