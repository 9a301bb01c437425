"""Who is on call as JSON: schedules and policies in the form of the answers over HTTP."""

from models.domain.facts import PersonFacts
from models.tables.teams import EscalationPolicy
from schedules.escalation.person_notifications import get_recipient
from schedules.escalation.targets import is_round_robin
from tocsin.commands.account.oncall import AccountOnCall
from web.oncall.oncall import USER
from web.oncall.schedule_overview import ON_CALL, show_on_call
from web.oncall.schedule_problems import NO_PROBLEMS

JsonDict = dict[str, object]


def build_json(found: AccountOnCall) -> JsonDict:
    return {
        "account_id": found.account.account_identifier,
        "name": found.account.name,
        "teams": [
            {
                "unique_id": each.team.unique_id,
                "name": each.team.name,
                "schedules": [
                    ON_CALL.dump({**NO_PROBLEMS, **show_on_call(schedule, current, found.users)})
                    for schedule, current in each.schedules
                ],
                "policies": [_policy_to_json(row, found) for row in each.policies],
            }
            for each in found.teams
        ],
    }


def _policy_to_json(row: EscalationPolicy, found: AccountOnCall) -> JsonDict:
    """Return a policy in the form of version 2 over HTTP, with more about the notifications."""
    return {
        "unique_id": row.unique_id,
        "name": row.name,
        "round_robin": is_round_robin(found.config.policies[row.id]),
        "oncalls": [
            {
                "ep_rule": step["unique_id"],
                "position": step["position"],
                "delay": step["delay"],
                "notified_after": delay,
                "oncalls": [_person_to_json(person, found) for person in people],
            }
            for step, delay, people in found.resolve(row)
        ],
    }


def _person_to_json(person: PersonFacts, found: AccountOnCall) -> JsonDict:
    notified = get_recipient(person, found.at)
    forwarded_to = None if notified is person else USER.dump(found.users[notified.row])
    return {**USER.dump(found.users[person.row]), "forwarded_to": forwarded_to}
