"""How an object is written: what an operation needs to know besides the values.

Operations read it from their request. Other callers, which have no request, build it themselves.
"""

from dataclasses import dataclass
from enum import Enum, auto

from flask import request

from web.http import client_profile
from web.http.client_profile import Profile


class Mode(Enum):
    """What the values of a write are."""

    # Those of a new object.
    CREATE = auto()
    # All values of an object, as in a PUT.
    REPLACE = auto()
    # Those that change, as in a PATCH.
    PATCH = auto()
    # None: the object is deleted.
    DELETE = auto()


@dataclass(frozen=True, slots=True)
class Writing:
    """How an object is written, and with which profile of the interface."""

    mode: Mode
    profile: Profile = Profile.SPEC


def read_writing(mode: Mode) -> Writing:
    """Return how this request writes an object."""
    return Writing(mode, client_profile.current())


def read_update() -> Writing:
    """Return how this request changes an object: with all values (PUT) or with some (PATCH)."""
    return read_writing(Mode.PATCH if request.method == "PATCH" else Mode.REPLACE)
