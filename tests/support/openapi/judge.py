"""Which answers are wrong by the contract too, not only by the description."""

import json
import re
from typing import Any

from openapi_schema_validator import OAS31Validator
from schemathesis.core import NotSet
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import AcceptedNegativeData, RejectedPositiveData

from tests.support.openapi.tolerance import read_leniently, resolve
from web.http import xml
from web.http.fields import parse_moment
from web.incidents.filters import FILTER
from web.ingest import events

JSON, XML = "application/json", "application/xml"

# Contract 1.7 and 6: a page_size that cannot be used is replaced; with Bearer, some lists have no pages.
LENIENT_QUERY = {"page", "page_size"}

# Refusals of requests that are right by the description, which describes one field at a time: the text of the
# refusal, and the rule.
RULES = {
    # Two fields depend on each other.
    r"Must be (after the start|later than from_date)\.": "the end of a period is after its start",
    r"Must not be before from_date\.": "the end of a period is not before its start",
    r"The period may have at most 366 days, up to to_date or today\.": "two fields depend on each other",
    r"Must not be less than tta\.": "two fields depend on each other",
    r"Give gt or lt with tt[ar]\.": "two fields depend on each other",
    r"Must be more than 1 and less than 1440 minutes while collation is on\.": "interface, limits",
    r"Must be above 600 seconds while the timeout is enabled\.": "interface, limits",
    r".* is not one of info, warning, error, critical, acknowledged, resolved": "by the kind of condition",
    r"Give a path in the payload\.": "by the kind of condition",
    r".* is not a path: look at .*": "by the kind of condition",
    r"Must be the id of an? .*": "by the kind of action",
    r"Must be a number of seconds, up to .*": "by the kind of action",
    r"Must be 0 \(low\) or 1 \(high\)\.": "by the kind of action",
    r"Must be the id or key of an integration of this account that takes alerts\.": "suppressing needs none",
    r"Give (either )?.* or .*\.": "one of two fields",
    r"Give at least one field\.": "the description leaves the members of this object open",
    r"Only a payload has a source; .*": "one of two fields",
    r"Must be from 30 to 2678400 seconds, or 0 for never\.": "a range and one value beside it",
    r".* is not a schedule that this team may use\.": "a target is a person or a schedule by its type",
    r"(Not an e-mail address|Longer than maximum length 254)\.": "the value of a contact depends on its type",
    r"Delays count from the start of the escalation, .*": "the steps depend on each other",
    r"Weekly restrictions need a day from 1 \(Monday\) to 7 \(Sunday\)\.": "by the kind of restriction",
    r"The year must be 1970 or later, and before 2200\.": "the form date-time has no limits",
    # Other objects decide.
    r"The catalogue has this application: .*": "contract 3.6",
    r"This id was added before, as .*": "contract 3.6",
    r"A service needs a name\.": "contract 3.6: the name may be missing, and a service without one keeps it",
    r"3 needs an alert grouping policy of the service: .*": "contract 3.6",
    r"An account has only one owner\.": "interface, account member",
    r"Another role of the account has this name\.": "interface, account custom role: unique name",
    r"A member of this account already has this address\.": "two people cannot share an address",
    r"The list already has this address\.": "an address is in the list of stakeholders once",
    r"This responder was already asked to help\.": "contract 4",
    r"This user is already in the team\.": "contract 4",
    r"The incident already has this tag\.": "contract 4",
    r"Only an acknowledged incident can be snoozed\.": "the state of the incident",
    r"No such incidents: .*": "numbers and ids of incidents",
    r"Not merged into this incident: .*": "numbers and ids of incidents",
    r"Name each incident only once\.": "numbers and ids of incidents",
    r"Must be later than now, by at most 30 days\.": "the time decides",
    r"No more than [0-9]+ are allowed\.": "the largest number of objects",
    r"A person can have at most [0-9]+ contact methods\.": "the largest number of objects",
    r"This contact is not verified: it gets only its code\.": "the state of the contact",
    r"Not the code of this contact, or no longer valid\. .*": "only the mail shows the code",
    r"A token cannot give itself a later expiry\. .*": "the token of the request",
    r"Must be in the future\. .*": "the time decides",
    r"A service uses this policy\.": "a service is never without its policy",
    r"A service is in the list twice\.": "contract 3.7",
    r".* is not a member of this account\.": "the first request removed this person",
    # The same field is wider in answers.
    r"A username cannot be changed\.": "contract 2.9: clients send the username back",
    r"The user of a membership cannot be changed: .*": "contract 2.3: clients send the user back",
    r"Must not lead to an address of an inner network: .*": "by the settings of the operator",
    r"Not (a|an|the) .*|Must (be a URL that|have a host and|have port) .*": "by the type of the contact",
    r"Only outbound integrations have a target\.": "the type of the integration",
    r"Only integrations of the kind json have a mapping\.": "the kind of the integration",
    r"Only integrations of the kinds .* have topics\.": "the kind of the integration",
    r".* does not sign its requests\.": "the kind of the integration",
    r"The application of this integration takes no alerts\.": "the kind of the integration",
    r"Only integrations of the kind opsgenie have it\.": "the kind of the integration",
    r"[a-z_]+ sends its alerts with POST\.": "the kind of the integration",
    r"Must be one of: message, summary, alert_type, url, entity_id\.": "the names of defaults of a mapping",
    r"An account can have at most [0-9]+ targets\.": "the largest number of objects",
    r"Only contacts of the type webhook have a secret\.": "the type of the contact",
    r"Only e-mail contacts \(1\) can be created by this operation\. .*": "interface, contact method",
    r"The operator has not configured this channel: .*": "the settings",
    r"Nothing can be sent to contacts of this type yet\.": "the channels of this version",
    r"Leave it out: .*": "a contact that is linked has no address yet",
    r"The address of a contact of this type cannot be written: .*": "by the type of contact",
    r"A contact of this type is not (linked|verified by a code .*)\.": "by the type of contact",
    r"This contact is verified\.": "the state of the contact",
    r"The operator allows only phone numbers that begin with .*": "the settings",
    r"SMS and calls of the account have used .*": "what was sent before",
    r"The account has [0-9]+ drills that have not ended\.": "the largest number of objects",
    r"The team of the policy has no such service\. .*": "two fields depend on each other",
    r".* is not an escalation policy of this account\.": "ids of objects",
    r"Must be later than from\.": "the end of a period is after its start",
    r"The period may have at most 366 days\.": "two fields depend on each other",
}
# Checks that are wrong for an operation: the name of the check, the schema of the body, and the reason.
CHECKS_OFF = {
    # An alert counts more than its form: what cannot be used is left out (contract 3.9).
    "negative_data_rejection": (events.ALERT_BODY,),
}

_RULES = re.compile("|".join(RULES), re.DOTALL)


class Judge:
    """Judges the findings in one operation."""

    def __init__(self, document: dict[str, Any], route: Any, authorization: str) -> None:
        path = re.sub("<([a-z_]+)>", r"{\1}", route.path)
        self._components = document["components"]
        self._body = document["paths"][path][route.method.lower()].get("requestBody", {}).get("content", {})
        self._optional = _list_optional(route, authorization)
        # A value of a filter that cannot be parsed sets no limit.
        self._is_filter = route.query is FILTER

    def is_finding(self, failure: Failure, case: Any, response: Any) -> bool:
        if isinstance(failure, RejectedPositiveData):
            return not _is_refused_by_rule(case, response)
        if isinstance(failure, AcceptedNegativeData) and case.meta is not None:
            return not (self._accepts_body(case, response) and (self._is_filter or _accepts_query(case)))
        return True

    def _accepts_body(self, case: Any, response: Any) -> bool:
        """Return whether the body is right if it is read as the contract says."""
        content = self._body.get(case.media_type or JSON)
        if not case.meta.is_negative_at(ParameterLocation.BODY):
            return True
        if content is None:
            return False
        schema = resolve(content["schema"], self._components["schemas"])
        required = [name for name in schema.get("required", ()) if name not in self._optional]
        schema = {**schema, "required": required, "components": self._components}
        read = read_leniently(_read_sent(case, response), schema, self._components["schemas"])
        return bool(OAS31Validator(schema).is_valid(read))


def _list_optional(route: Any, authorization: str) -> set[str]:
    """Return the required fields that may be omitted: by a PUT with Token all, else those of the resource."""
    is_client = authorization.lower().startswith("token")
    if route.method == "PUT" and is_client and route.body is not None:
        return set(route.body.fields)
    names = {"PUT": "put_may_omit", "POST": "client_may_omit" if is_client else ""}.get(route.method, "")
    return set(getattr(getattr(route.view, "__self__", None), names, ()))


def _read_sent(case: Any, response: Any) -> Any:
    if isinstance(case.body, NotSet):
        return {}
    return xml.parse(response.request.body) if case.media_type == XML else case.body


def _accepts_query(case: Any) -> bool:
    if not case.meta.is_negative_at(ParameterLocation.QUERY):
        return True
    described = {one.name: one.definition["schema"] for one in case.operation.query}
    sent = {name: value for name, value in (case.query or {}).items() if name in described}
    return all(
        name in LENIENT_QUERY or _accepts_value(value, described[name]) for name, value in sent.items()
    )


def _accepts_value(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether a query may have this value. An empty text means none, dates have several forms."""
    if not str(value).strip():
        return True
    if schema.get("format") != "date-time":
        return bool(OAS31Validator(schema).is_valid(value))
    try:
        return bool(parse_moment(str(value)))
    except (ValueError, OverflowError):
        return False


def _is_refused_by_rule(case: Any, response: Any) -> bool:
    # XML has no null, and no difference between an empty text, an empty object and an absent value.
    if case.media_type == XML and _has_empty_values(case.body):
        return True
    fields = json.loads(response.content).get("errors", {})
    return bool(fields) and all(_RULES.fullmatch(text) for texts in fields.values() for text in texts)


def _has_empty_values(value: Any) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return not value or any(_has_empty_values(one) for one in inner)
    return value is None or (isinstance(value, str) and not value.strip())
