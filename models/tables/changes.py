"""The history of an account: changes of its configuration, changes of rights, and sign-ins."""

import peewee

from models.store.fields import JsonField, SequenceField, Table, UtcField
from models.tables.accounts import Account, User
from models.tables.teams import Team


class Change(Table):
    """One change: who did what, when and in which way.

    - `action`: "created", "changed" or "deleted" for the configuration; else a key of
      models/domain/audit_actions.py.
    - `kind`: the noun of the object (web/changes/kinds.py); "": no object. `object_id` is its unique_id,
      `name` its name then, `number` its number after the change.
    - `team`: the team of the object. `user`: the person whose sign-in, rights or own object it is. Both None:
      an object of the account, or the rights of several persons.
    - `actor`: the name of the person, or of the command. `author`: the person. `token`: the name of the
      token. `way`: a Way. `client`: the network of the client.
    - `batch`: the changes of one transaction or one import have the same.
    - `fields`: the fields that differ (models/changes/differences.py). None: they were too many to keep.
    - `removed`: the deleted rows, encrypted (models/changes/removed_rows.py); None: the change is no
      deletion, or is too old or too large to be undone.
    - `undoes`: the change that this one undid. `undone_by`: the change that undid this one.
    """

    id = SequenceField()
    unique_id = peewee.CharField(max_length=22, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    at = UtcField()
    action = peewee.CharField(max_length=32)
    kind = peewee.CharField(max_length=32, default="")
    object_id = peewee.CharField(max_length=36, default="")
    name = peewee.CharField(max_length=255, default="")
    number = peewee.IntegerField(null=True)
    team = peewee.ForeignKeyField(Team, null=True, on_delete="SET NULL")
    user = peewee.ForeignKeyField(User, null=True, on_delete="CASCADE")
    actor = peewee.CharField(max_length=255)
    author = peewee.ForeignKeyField(User, null=True, on_delete="CASCADE", backref="+")
    token = peewee.CharField(max_length=255, default="")
    way = peewee.CharField(max_length=16)
    client = peewee.CharField(max_length=64, default="")
    detail = peewee.CharField(max_length=255, default="")
    batch = peewee.CharField(max_length=22)
    fields = JsonField(null=True)
    removed = peewee.TextField(null=True)
    undoes = peewee.CharField(max_length=22, null=True)
    undone_by = peewee.CharField(max_length=22, null=True)

    class Meta:
        indexes = ((("account", "at", "id"), False), (("account", "batch"), False))


Change.declare_index("change_removed", "at", where="removed IS NOT NULL")
Change.declare_index("change_of_object", "object_id", "id", where="object_id <> ''")
