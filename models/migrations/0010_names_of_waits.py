"""What has waited, or was told, keeps its name: promises are named by their SLA's id, and the end of an
incident by itself by the moment since which its age counts.

Under the names of before, what was told would be told again, and what waits be armed anew. The ids of
messages stay, though they were made of such names: they only have to differ.
"""

from models.base import store

# An incident's SLA is one of its team's. A key that is there already is not made twice.
_PROMISES = """
    UPDATE {table} SET key = {new}
    FROM incident JOIN sla ON sla.team_id = incident.team_id
    WHERE incident.id = {table}.incident_id
        AND {table}.kind IN ({kinds})
        AND {find}(':' || {table}.key, ':sla:' || sla.id || ':') > 0
        AND NOT EXISTS (
            SELECT 1 FROM {table} AS other
            WHERE other.incident_id = {table}.incident_id AND other.key = {new}
        )
"""
# A key of a timer begins with the promise, within that of a notice it stands after a colon.
_NEW = (
    "substr(replace(':' || {table}.key, ':sla:' || sla.id || ':',"
    " ':sla:' || substr(sla.unique_id, 1, 8) || ':'), 2)"
)
_KINDS = {
    "timer": "'sla_breach', 'sla_escalation'",
    "notice": "'sla_acknowledge', 'sla_resolve'",
}

# The migration before gave those whose chain began anew the moment at which it did: they keep the time that
# they had.
_ENDS = """
    UPDATE timer SET key = 'auto_resolve:' || {moment}
    FROM incident
    WHERE incident.id = timer.incident_id
        AND timer.kind = 'auto_resolve'
        AND timer.done_at IS NULL
        AND timer.key = 'auto_resolve:' || incident.chain
        AND NOT EXISTS (
            SELECT 1 FROM timer AS other
            WHERE other.incident_id = incident.id AND other.key = 'auto_resolve:' || {moment}
        )
"""
_OPEN_FROM = "COALESCE(incident.timeouts_from, incident.creation_date)"
_MOMENT = {
    "sqlite": f"replace(replace(replace(replace({_OPEN_FROM}, '-', ''), ':', ''), '.', ''), ' ', 'T')",
    "postgresql": f"to_char({_OPEN_FROM} AT TIME ZONE 'UTC', 'YYYYMMDD\"T\"HH24MISSUS')",
}
_FIND = {"sqlite": "instr", "postgresql": "strpos"}


def up(migrator, db):
    name = store().name
    for table, kinds in _KINDS.items():
        new = _NEW.format(table=table)
        db.execute_sql(_PROMISES.format(table=table, new=new, kinds=kinds, find=_FIND[name]))
    db.execute_sql(_ENDS.format(moment=_MOMENT[name]))
