"""Copy frozen dataclasses with slots. Rules copy an alert at each change.

`dataclasses.replace` looks at each field in Python and calls a constructor that checks each assignment. That
takes two to three times as long, and rules with many actions spent most of their time there.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

T = TypeVar("T")


def build_copier(kind: type[T]) -> Callable[[T, Mapping[str, object]], T]:
    """Return a function that copies a value of this class with these changes, as `dataclasses.replace` does.

    The class is a frozen dataclass with slots and at least two fields, and without `__post_init__`.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    read_all = attrgetter(*names)
    # The descriptor of a slot writes a value although the class is frozen.
    writers = {name: kind.__dict__[name].__set__ for name in names}
    in_order = tuple(writers.values())
    create = kind.__new__

    def copy(value: T, changes: Mapping[str, object]) -> T:
        copied = create(kind)
        for write, old in zip(in_order, read_all(value), strict=True):
            write(copied, old)
        for name, new in changes.items():
            writers[name](copied, new)
        return copied

    return copy
