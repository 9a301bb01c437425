"""Run a command, then print its wall time and the time of all cores that it and its children used."""

import resource
import subprocess
import sys
import time

began = time.monotonic()
ended = subprocess.run(sys.argv[1:], check=False)  # noqa: S603 - the command line of the user
used = resource.getrusage(resource.RUSAGE_CHILDREN)
core_seconds = used.ru_utime + used.ru_stime
print(f"== {time.monotonic() - began:.0f} s, {core_seconds:.0f} core-seconds", flush=True)
sys.exit(ended.returncode)
