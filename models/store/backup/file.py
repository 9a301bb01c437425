"""The file of a backup: a header, the rows, and a checksum of everything before it.

The rows are in blocks, each with its length before it. An empty block ends a series of blocks. So a file is
read and written with little memory.
"""

import errno
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

MAGIC = b"tocsin backup 1\n"
_LENGTH = struct.Struct(">I")
_CHECKSUM_SIZE = hashlib.sha256().digest_size
BLOCK_SIZE = 1024 * 1024
# What a file system says that has no hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
# As the driver returns them.
Bytes = bytes | bytearray | memoryview
# Is called with the number of bytes that were just written or read.
OnBytes = Callable[[int], None]


def ignore(count: int) -> None:
    """Show no progress."""


class BackupError(RuntimeError):
    """A backup cannot be written, read or restored; the text says why."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a restore must know before it reads rows.

    `store` is the name of the store, `version` the version of Tocsin, and `created_at` the start of the
    backup (ISO 8601). `migrations` are the migrations of the schema, in their order.
    """

    store: str
    version: str
    created_at: str
    migrations: tuple[str, ...]


class Writer:
    """Writes blocks and their checksum."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes = ignore) -> None:
        self._file = file
        self._on_bytes = on_bytes
        self._checksum = hashlib.sha256()

    def write_header(self, header: Header) -> None:
        self._write(MAGIC)
        self.write_json(asdict(header))

    def write_json(self, content: object) -> None:
        self.write_block(json.dumps(content).encode())

    def write_block(self, content: Bytes) -> None:
        """Write a block. Skip empty content, which would end the series."""
        if content:
            self._write(_LENGTH.pack(len(content)))
            self._write(content)

    def end_series(self) -> None:
        self._write(_LENGTH.pack(0))

    def finish(self) -> None:
        self._file.write(self._checksum.digest())

    def _write(self, content: Bytes) -> None:
        self._file.write(content)
        self._checksum.update(content)
        self._on_bytes(len(content))


@contextmanager
def create(path: Path, on_bytes: OnBytes = ignore) -> Iterator[Writer]:
    """Create a backup with this path, readable only by its owner. It appears when it is complete and on disk.

    Raises BackupError if the path exists.
    """
    if path.exists():
        raise BackupError(f"{path} exists: choose another name for the backup")
    if not path.parent.is_dir():
        raise BackupError(f"no such folder: {path.parent}")
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            writer = Writer(file, on_bytes)
            yield writer
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
        try:
            publish(Path(draft), path)
        except FileExistsError:
            raise BackupError(f"{path} exists: choose another name for the backup") from None
    finally:
        Path(draft).unlink(missing_ok=True)


def publish(complete: Path, path: Path) -> None:
    """Give a complete file its name in the same folder, and wait until the name is on disk.

    Raises FileExistsError if the name is taken. The old name is gone or must be removed.
    """
    try:
        # A link, not a rename: that would replace a file that was created meanwhile.
        path.hardlink_to(complete)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename(complete, path)
    _sync_folder(path.parent)


def _rename(complete: Path, path: Path) -> None:
    """Take the name by an empty file of our own, then replace this file.

    A kill between the two leaves the empty file, which a restore refuses.
    """
    path.touch(0o600, exist_ok=False)
    try:
        complete.replace(path)
    except OSError:
        path.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems write names at once, and refuse this.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


class Reader:
    """Reads the blocks of a backup whose checksum is right."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes = ignore) -> None:
        self.on_bytes = on_bytes
        self._file = file
        self._file.seek(len(MAGIC))
        try:
            values = self.read_json()
            self.header = Header(
                str(values["store"]),
                str(values["version"]),
                str(values["created_at"]),
                tuple(map(str, values["migrations"])),
            )
        except (KeyError, TypeError, ValueError):
            raise BackupError("the header of the backup cannot be read") from None

    def read_json(self) -> dict[str, list[str] | str]:
        """Read a block of JSON; an empty object at the end of a series."""
        content: dict[str, list[str] | str] = json.loads(self._read_block() or b"{}")
        return content

    def read_series(self) -> Iterator[bytes]:
        """Read blocks until the end of their series."""
        while block := self._read_block():
            yield block

    def _read_block(self) -> bytes:
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        self.on_bytes(_LENGTH.size + length)
        return self._file.read(length)


@contextmanager
def open_backup(path: Path, on_bytes: OnBytes = ignore) -> Iterator[Reader]:
    """Open a backup after the check of its checksum. Raises BackupError."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise BackupError(f"{path} is no backup of Tocsin, or one of another version")
        if not _has_right_checksum(file):
            raise BackupError(f"{path} is damaged or incomplete: its checksum is wrong. Nothing was changed")
        yield Reader(file, on_bytes)


def _has_right_checksum(file: BinaryIO) -> bool:
    size = os.fstat(file.fileno()).st_size - _CHECKSUM_SIZE
    if size < len(MAGIC):
        return False
    file.seek(0)
    checksum = hashlib.sha256()
    while remaining := size - file.tell():
        block = file.read(min(BLOCK_SIZE, remaining))
        if not block:
            return False
        checksum.update(block)
    return checksum.digest() == file.read(_CHECKSUM_SIZE)
