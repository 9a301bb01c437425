"""Load the module of a command with as little work as possible: this is most of the time of a short one."""

import gc
import importlib
import sys

import click

# peewee loads this driver if it is installed. Only a process on PostgreSQL needs it: psycopg_internals.py.
_DRIVER = "psycopg"


def load_command(path: str) -> click.Command:
    """Load the command with this import path, `module:name`."""
    module, name = path.split(":")
    if module not in sys.modules:
        _import(module)
    command: click.Command = getattr(sys.modules[module], name)
    return command


def _import(module: str) -> None:
    """Import a module. What it loads is no garbage: to search it takes a tenth of the time of a command."""
    gc.disable()
    import_peewee()
    importlib.import_module(module)
    gc.freeze()
    gc.enable()


def import_peewee() -> None:
    """Load peewee as if it had no driver of PostgreSQL. Do nothing if either is loaded."""
    if "peewee" in sys.modules or _DRIVER in sys.modules:
        return
    # An import of a module that is None raises ImportError.
    sys.modules[_DRIVER] = None  # type: ignore[assignment]
    try:
        importlib.import_module("peewee")
    finally:
        del sys.modules[_DRIVER]
