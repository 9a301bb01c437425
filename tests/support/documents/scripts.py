"""Run the `sh` blocks of a document, one after another, in one shell and an empty folder."""

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.support.polling import wait_until

ROOT = Path(__file__).parents[3]
FENCE = "```"


class Block(NamedTuple):
    """A fenced block: its language, the line where it begins, its content, and the line of text after it."""

    language: str
    line: int
    content: str
    after: str


def list_blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document in their order."""
    lines = path.read_text().splitlines()
    marks = [number for number, line in enumerate(lines) if line.startswith(FENCE)]
    assert len(marks) % 2 == 0, f"{path.name}: a block does not end"
    return [
        Block(
            language=lines[start].removeprefix(FENCE),
            line=start + 1,
            content="\n".join(lines[start + 1 : end]),
            after=next((line for line in lines[end + 1 :] if line), ""),
        )
        for start, end in zip(marks[::2], marks[1::2], strict=True)
    ]


def build_script(path: Path, replaced: dict[str, str]) -> str:
    """Return the `sh` blocks as one script that stops at the first error and names each block.

    `replaced` gives other texts for texts of the document that the reader would change too.
    """
    script = "set -euo pipefail\n"
    for block in list_blocks(path):
        if block.language == "sh":
            script += f"echo '## {path.name}, line {block.line}'\n{block.content}\n"
    for text, other in replaced.items():
        script = script.replace(text, other)
    return script


@dataclass(frozen=True)
class Ended:
    """The end of a script: its exit code, and all that a terminal would have shown."""

    code: int
    output: str

    def assert_succeeded(self) -> None:
        assert self.code == 0, "\n" + "\n".join(self.output.splitlines()[-60:])


def run_script(
    script: str,
    folder: Path,
    environment: dict[str, str],
    inputs: Sequence[tuple[str, str]] = (),
    timeout: float = 30.0,
) -> Ended:
    """Run a script in a terminal, and answer each question when it is asked. End what it left running."""
    with _open_terminal() as (ours, theirs):
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            output = _talk(ours, inputs, timeout)
        finally:
            _end_group(process)
        return Ended(process.wait(), output)


@contextmanager
def _open_terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)


def _talk(terminal: int, inputs: Sequence[tuple[str, str]], timeout: float) -> str:
    """Read until the end, and write each answer after its question. Return the output."""
    deadline = time.monotonic() + timeout
    output, read, left = "", 0, list(inputs)
    while True:
        if not select.select([terminal], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            return f"{output}\nnot ended after {timeout:.0f} s"
        try:
            data = os.read(terminal, 65536)
        except OSError:
            # The last process that had the terminal open has ended.
            return output
        output += data.decode(errors="replace").replace("\r\n", "\n")
        while left and left[0][0] in output[read:]:
            question, answer = left.pop(0)
            read = output.index(question, read) + len(question)
            os.write(terminal, f"{answer}\n".encode())


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Let a shell that closed its terminal end, and end the processes that it left in the background."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(2)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    wait_until(lambda: not _is_group_running(process.pid))


def _is_group_running(group: int) -> bool:
    """Return whether a process of this group runs; a zombie does not."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_process = path.read_text().rpartition(")")[2].split()[:3]
            if state != "Z" and int(of_process) == group:
                return True
    return False
