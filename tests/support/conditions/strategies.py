"""Random conditions, trees and payloads."""

from hypothesis import strategies as st

from models.domain.enums import AlertType, Urgency
from pipeline.rules.conditions.engine import ITERATORS
from tests.support.conditions.trees import NAMES, group, rule, search, subject

TEXTS = st.sampled_from(["", "a", "A", "ab", "Ab", "b", "a\nb", "é", "É", "5", "true", "a.b", " "])


PATTERNS = st.sampled_from(["a", "^a", "b$", "[a-c]+", ".", "a|5", "", r"\."])


EQUALITY = ["equal", "not_equal", "select_equals", "select_not_equals"]


ANY_IN = ["select_any_in", "select_not_any_in"]


CONTENTS = ["like", "not_like", "contains", "starts_with", "not_starts_with", "ends_with", "not_ends_with"]


PATTERN = ["regex", "not_regex"]


EMPTINESS = ["is_empty", "is_not_empty"]


ORDER = ["less", "less_or_equal", "greater", "greater_or_equal", "equal", "not_equal"]


RANGE = ["between", "not_between"]


PATHS = st.sampled_from(["a", "$.a.b", "a.b", "$.list[*].x", "list[*].y.z", "none"])


VALUES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-2, 12), st.just([]), st.just({}))


INNER = st.one_of(VALUES, st.fixed_dictionaries({}, optional={"b": VALUES, "z": VALUES}))


PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "a": INNER,
        "list": st.lists(st.fixed_dictionaries({}, optional={"x": VALUES, "y": INNER}), max_size=3),
        "none": VALUES,
    },
)


TIMES = st.sampled_from(["00:00", "08:30", "23:30", "23:30:15", "23:30:16", "23:59:59"])


DATES = st.sampled_from(["2025-12-31", "2026-03-03", "2026-03-04", "2026-03-05", "2027-01-01"])


SECONDS = st.integers(0, 5)


def build_field_leaves(*names):
    return st.sampled_from([spelled for name in names for spelled in (name, f"alert.{name}")])


def build_ordered_leaves(name, values):
    return st.one_of(
        st.builds(rule, build_field_leaves(name), st.sampled_from(ORDER), values),
        st.builds(rule, build_field_leaves(name), st.sampled_from(RANGE), values, values),
    )


def build_choice_leaves(name):
    codes = st.sampled_from(
        [
            each
            for number, value_name in enumerate(NAMES[name])
            if value_name
            for each in (value_name, str(number))
        ]
    )
    return st.one_of(
        st.builds(rule, build_field_leaves(name), st.sampled_from(EQUALITY), codes),
        st.builds(
            rule, build_field_leaves(name), st.sampled_from(ANY_IN), st.lists(codes, min_size=1, max_size=3)
        ),
    )


TEXT_FIELDS = build_field_leaves("message", "summary", "entity_id")


LEAVES = st.one_of(
    st.builds(rule, TEXT_FIELDS, st.sampled_from(EQUALITY + CONTENTS), TEXTS),
    st.builds(rule, TEXT_FIELDS, st.sampled_from(PATTERN), PATTERNS),
    st.builds(rule, TEXT_FIELDS, st.sampled_from(EMPTINESS)),
    st.builds(search, st.sampled_from(EQUALITY[:2] + CONTENTS), PATHS, TEXTS),
    st.builds(search, st.sampled_from(PATTERN), PATHS, PATTERNS),
    st.builds(search, st.sampled_from(EMPTINESS), PATHS),
    st.builds(rule, build_field_leaves("payload"), st.just("key_exists"), PATHS),
    *(build_choice_leaves(name) for name in NAMES),
    build_ordered_leaves("alert_time", TIMES),
    build_ordered_leaves("alert_date", DATES),
    build_ordered_leaves("seconds_since_last", SECONDS),
)


def build_groups(children):
    return st.builds(
        lambda inside, conjunction, negated: group(
            *inside, conjunction=conjunction, negated=bool(inside) and negated
        ),
        st.lists(children, max_size=4),
        st.sampled_from(["AND", "OR"]),
        st.booleans(),
    )


TREES = st.recursive(LEAVES, build_groups, max_leaves=8)


SUBJECTS = st.builds(
    subject,
    SECONDS,
    st.sampled_from(Urgency),
    message=TEXTS,
    summary=TEXTS,
    entity_id=TEXTS,
    alert_type=st.sampled_from(AlertType),
    payload=PAYLOADS,
)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["payload.list", "message", "accumulator", "current", "", "x", "alert", "($|a)*"]),
)


KNOWN = """
and or ! !! if == === < <= in cat substr merge + - * / % max var val missing missing_some exists ??
matches lower length switch type try throw now log sort
"""


OPERATORS = st.sampled_from([*KNOWN.split(), *sorted(ITERATORS)])


JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(OPERATORS, inner, min_size=1, max_size=1),
        st.builds(lambda name, inside: {name: inside}, OPERATORS, st.lists(inner, max_size=3)),
    ),
    max_leaves=20,
)


TREE_NODES = (
    "type children1 properties id conjunction not field operator value valueSrc operatorOptions ploperator"
)


KEYS = st.sampled_from(TREE_NODES.split())


FIELD_VALUES = """
group rule rule_group AND OR value alert.message alert.payload alert.alert_time alert.alert_type
equal payloadsearch key regex between select_any_in $.a[*]
"""


WORDS = st.sampled_from(FIELD_VALUES.split())


TREE_LIKE = st.recursive(
    st.one_of(SCALARS, WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=6)),
    max_leaves=25,
)


VARIABLES = st.sampled_from(
    [
        {"var": "message"},
        {"var": ["alert.entity_id"]},
        {"var": "alert_type"},
        {"val": ["payload", "a"]},
        {"var": "payload.list.0.x"},
        {"var": ["payload.a.b", "a"]},
        {"var": "payload.none"},
    ]
)


LITERALS = st.one_of(VALUES, st.sampled_from(["3", "info", "24h", "1d", "05", "2026-03-04"]))


def build_comparison(operator, left, right):
    return {operator: [left, right]}


COMPARISONS = st.one_of(
    st.builds(build_comparison, st.sampled_from(["==", "===", "!=", "!=="]), VARIABLES, LITERALS),
    st.builds(build_comparison, st.sampled_from(["==", "==="]), LITERALS, VARIABLES),
    st.builds(build_comparison, st.just("in"), VARIABLES, st.lists(LITERALS, max_size=3)),
    st.builds(
        build_comparison,
        st.just("some"),
        st.just({"var": "payload.list"}),
        st.just({"==": [{"var": "x"}, "a"]}),
    ),
)


LOGIC = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(lambda every: {"and": every}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda every: {"or": every}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one: {"!": [one]}, inner),
        st.builds(lambda one: {"!!": [one]}, inner),
    ),
    max_leaves=5,
)
