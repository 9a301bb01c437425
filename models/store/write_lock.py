"""The lock of SQLite's single writer: a flock on a file in the data folder, with a limit of the wait.

The system cannot end the wait for a flock after some time. So a wait with a limit happens in a thread of its
own, which passes the lock on. If its caller gives up, that thread still waits, and the next caller takes it
over. So there are never more such threads than callers that wait at the same time.
"""

import fcntl
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from runtime.waiting import get_pause


class LockTimeoutError(Exception):
    """Others held the lock for longer than the caller waits."""


class LockFile:
    """An open file, closed when nothing refers to it: a web server starts and ends threads."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Not at the end of the process: a thread that still runs then may have the lock.
        weakref.finalize(self, os.close, self._fd).atexit = False

    def lock(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def lock_if_free(self) -> bool:
        """Return whether the lock was free; it is taken then."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)


class WriteLock:
    """The lock of one data folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._mutex = threading.Lock()
        # Threads whose callers gave up, oldest first.
        self._unneeded: list[_LockThread] = []

    def acquire(self, seconds: float | None) -> LockFile:
        """Take the lock and return its file. Any thread may unlock it.

        Raise LockTimeoutError after `seconds`. None: wait without a limit.
        """
        file = self._get_file()
        if seconds is None:
            file.lock()
            return file
        return file if file.lock_if_free() else self._acquire_in_thread(seconds)

    def _get_file(self) -> LockFile:
        # One file per thread, because a flock belongs to an open file. A fork must not share it.
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.file = LockFile(self._path)
            self._local.pid = os.getpid()
        file: LockFile = self._local.file
        return file

    def _acquire_in_thread(self, seconds: float) -> LockFile:
        thread = self._take_thread()
        pause = get_pause()
        if pause is None:
            return self._wait(thread, seconds)
        resume = pause()
        try:
            return self._wait(thread, seconds)
        finally:
            resume(False)

    def _wait(self, thread: "_LockThread", seconds: float) -> LockFile:
        if not thread.granted.wait(seconds):
            with self._mutex:
                if not thread.granted.is_set():
                    self._unneeded.append(thread)
                    raise LockTimeoutError
        return thread.file

    def _take_thread(self) -> "_LockThread":
        with self._mutex:
            if self._unneeded:
                return self._unneeded.pop(0)
        thread = _LockThread(LockFile(self._path), self._grant)
        thread.start()
        return thread

    def _grant(self, thread: "_LockThread") -> None:
        """Pass the lock on to the caller of this thread; unlock it if the caller gave up."""
        with self._mutex:
            if thread not in self._unneeded:
                thread.granted.set()
                return
            self._unneeded.remove(thread)
        thread.file.unlock()


class _LockThread(threading.Thread):
    def __init__(self, file: LockFile, on_locked: Callable[["_LockThread"], None]) -> None:
        super().__init__(name="write lock", daemon=True)
        self.file = file
        self.granted = threading.Event()
        self._on_locked = on_locked

    def run(self) -> None:
        self.file.lock()
        self._on_locked(self)
