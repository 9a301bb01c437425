"""A rule action of the tests: page a person about the alert in capital letters. `-p` of pytest loads it."""

from pipeline.rules.action_table import ACTIONS, Kind, ReferenceField, RuleActionSpec, TextField
from pipeline.rules.actions import Change, get_reference


def check_marks(text):
    if not text.isdecimal():
        raise ValueError("Must be a number of exclamation marks.")


def page_loudly(alert, action, context):
    person = context.facts.config.people.get(get_reference(action, "listener"))
    if person is None:
        return Change(alert, note="without effect: there is no such user")
    text = alert.message.upper() + "!" * int(action["marks"])
    changed = alert.with_changes(message=text).with_options(assigned_to=person.username)
    return Change(changed, alert.message, text)


FIELDS, REFERENCES = (
    (TextField("marks", check_marks, meaning="How many marks."),),
    (ReferenceField(Kind.USER, "listener"),),
)
ACTIONS[99] = RuleActionSpec(99, FIELDS, REFERENCES, page_loudly)
