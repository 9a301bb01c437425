"""What all processes have counted, a row for each series."""

import peewee

from models.store.base import Table


class Sample(Table):
    """One series of a counter or a histogram; `labels` is JSON with sorted keys. Values only grow."""

    name = peewee.CharField(max_length=80)
    labels = peewee.CharField(max_length=255)
    value = peewee.DoubleField(default=0)

    class Meta:
        indexes = ((("name", "labels"), True),)
