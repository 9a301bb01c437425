"""End a process together with its parent process, even if the parent is killed.

Also a program: `python parent_process.py PARENT COMMAND...` becomes COMMAND, which ends together with PARENT.
Imports only the standard library, so that the program starts within some milliseconds.
"""

import ctypes
import os
import signal
import sys

# From linux/prctl.h. The setting stays after an exec and is lost in a fork.
PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Let the kernel send this process a signal when its parent ends; exit at once if the parent has ended.

    Only Linux supports this; on other systems the children of a killed parent keep running. The thread of
    the parent that started this process must live as long as the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the caller's command, without a shell
