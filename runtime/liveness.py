"""Let a process end with the one that started it, even when that one is killed.

Also a program: `python liveness.py PARENT COMMAND...` becomes COMMAND, which then ends with PARENT.
Imports only the standard library, so that this costs some milliseconds.
"""

import ctypes
import os
import signal
import sys

# From linux/prctl.h. The setting survives an exec, and is lost in a fork.
PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Send this process a signal when its parent ends. Ends it at once if the parent is gone already.

    Only Linux can do that; elsewhere a killed parent leaves its children running. The parent's thread
    that started this process has to live as long as the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the caller's command, without a shell
