"""XML has the same values as JSON, and no other features of XML are allowed."""

from datetime import UTC
from typing import Any
from xml.etree import ElementTree

import marshmallow
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from marshmallow import validate

from tests.support.offenders import list_offenders
from tests.support.scenarios.combinations import count_examples
from web.http import fields, xml
from web.routes import ROUTES

TEAMS = "/api/account/teams/"
XML = {"Accept": "application/xml"}
BOMB = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True))


def post_xml(ask: Any, data: bytes | str, kind: str = "application/xml", path: str = TEAMS) -> Any:
    return ask("POST", path, data=data, content_type=kind)


INVALID_XML = [
    b"", b"<root/>", b"<root><name/></root>", b"<root>", b"<" * 5_000, b"<a>" * 50_000,
    b"<a>" * 5_000 + b"</a>" * 5_000, b"<root><name><b>x</b></name></root>", b"<a/><b/>", b"\x00",
    b"<root>x<name>x</name></root>", b"<root><name>&x;</name></root>", b"<root><name>\x01</name></root>",
    b"<root><name>\xff</name></root>", b"<list-item>x</list-item>", b"<root>x</root>", b'{"name": "x"}',
    f'<!DOCTYPE r [<!ENTITY a "aaaa">{BOMB}]><root><name>&i;</name></root>'.encode(),
    b'<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/passwd">]><root><name>&f;</name></root>',
    b'<!DOCTYPE r SYSTEM "http://127.0.0.1:1/x.dtd"><root><name>x</name></root>',
    b"<!DOCTYPE r><root><name>x</name></root>",
    b'<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><root><name>x</name></root>',
    b'<!DOCTYPE r [<!ATTLIST name name CDATA "x">]><root><name/></root>',
    b'<?xml version="1.0" encoding="none-such"?><root><name>x</name></root>',
    b'<?xml version="1.0" encoding="hex"?><root><name>x</name></root>',
    b'<?xml version="1.0" encoding="utf-7"?><root><name>+ADw-b+AD4-</name></root>',
    "<root><name>x</name></root>".encode("utf-32"),
]  # fmt: skip


def test_invalid_xml_is_refused(ask):
    def check(data):
        refused = post_xml(ask, data)

        assert (refused.status_code, refused.json["detail"]) == (400, "This request can not be processed.")
        assert all(refused.json["errors"].values())

    assert list_offenders(check, INVALID_XML, lambda data: repr(data[:40])) == []


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("<root><name>Zürich</name></root>".encode(), "application/xml"),
        ("<any><name>Zürich</name></any>".encode(), "text/xml; charset=utf-8"),
        ("\ufeff<root><name>Zürich</name></root>".encode(), "application/xml"),
        ('<?xml version="1.0"?>\n<root>\n  <name>\n Zürich </name>\n</root>\n'.encode(), "application/xml"),
        ('<?xml version="1.0" encoding="latin1"?><a><name>Zürich</name></a>'.encode("latin-1"), "text/xml"),
        ('<?xml version="1.0" encoding="cp1252"?><a><name>Zürich</name></a>'.encode("cp1252"), "text/xml"),
        ("<root><name>Zürich</name></root>".encode("latin-1"), "application/xml; charset=ISO-8859-1"),
        ("<root><name>Zürich</name></root>".encode("utf-16"), "application/xml"),
        (b"<a><!-- c --><?p i?><name><![CDATA[Z]]>&#252;r&#x69;ch</name></a>", "text/xml"),
    ],
)  # fmt: skip
def test_xml_is_read_in_all_common_encodings(ask, data, kind):
    made = post_xml(ask, data, kind)

    assert (made.status_code, made.json["name"]) == (201, "Zürich")


@pytest.mark.parametrize("charset", ["none-such", "hex", "utf-7"])
def test_an_unknown_encoding_is_refused(ask, charset):
    assert (
        post_xml(ask, b"<root><name>x</name></root>", f"application/xml; charset={charset}").status_code
        == 400
    )


def test_a_resource_is_created_and_read_in_xml(ask, world):
    body = (
        "<root><name>Gold</name><acknowledge_time>60</acknowledge_time><resolve_time/><escalations><list-item>"
        f"<time>-5</time><type>1</type><responders><list-item><user>{world.bob.username}</user></list-item>"
        "</responders></list-item></escalations></root>"
    )
    path = f"{TEAMS}{world.team.unique_id}/sla/"

    made = ask("POST", path, data=body, content_type="text/xml", headers=XML)
    (listed,) = ask("GET", path).json

    assert (made.status_code, made.mimetype) == (201, "application/xml")
    shown = ElementTree.fromstring(made.data)
    assert shown.findtext("unique_id") == listed["unique_id"]
    assert (listed["name"], listed["acknowledge_time"], listed["resolve_time"]) == ("Gold", 60, None)
    assert (listed["escalations"][0]["time"], shown.findtext("escalations/list-item/time")) == (-5, "-5")
    assert [node.tag for node in ElementTree.fromstring(ask("GET", path, headers=XML).data)] == ["list-item"]


def test_xml_keeps_all_values_that_it_can_represent(ask, world):
    path = f"{TEAMS}{world.team.unique_id}/priority/"
    ask("POST", path, {"name": "a<b>&\x01\x08\ufffe]]>"})

    answer = ask("GET", path, headers={"Accept": "text/xml"})

    assert ElementTree.fromstring(answer.data).findtext("list-item/name") == "a<b>&]]>"


def test_keys_that_are_no_xml_names_become_attributes():
    value = {"a b": 1, "1": {"<": None}, 'x"y\x00': True, "": [1, 2.5], "entry": "x", "\r\n": "y"}

    shown = xml.render(value)

    names = [node.get("name") for node in ElementTree.fromstring(shown)]
    assert names == ["a b", "1", 'x"y', "", None, "\r\n"]
    assert xml.parse(shown) == {
        "a b": "1", "1": {"<": None}, 'x"y': "true", "": ["1", "2.5"], "entry": "x", "\r\n": "y",
    }  # fmt: skip


def test_errors_in_xml_name_the_fields(ask):
    refused = ask("POST", TEAMS, {}, scheme="Token", headers=XML)

    shown = ElementTree.fromstring(refused.data)
    assert shown.findtext("detail") == "This request can not be processed."
    assert shown.findtext("errors/name/list-item") == "Missing data for required field."


# Characters that both XML 1.0 and JSON can represent. NUL is removed from both.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufffe\uffff"), max_size=20
).filter(lambda text: not any(ord(character) < 32 and character not in "\t\r\n" for character in text))
LEAF = TEXT.map(lambda text: text or None)
FREE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(TEXT, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


@given(FREE)
def test_texts_in_lists_and_objects_survive_a_round_trip(value):
    assume(not (isinstance(value, dict) and set(value) == {"list-item"}))
    assert xml.parse(xml.render({"value": value, "more": "x"}))["value"] == value


def values(field: Any) -> st.SearchStrategy[Any]:
    """Generate valid values of a field."""
    match field:
        case marshmallow.fields.List():
            return st.lists(values(field.inner), max_size=3)
        case marshmallow.fields.Nested():
            return build_bodies(field.schema).filter(bool)
        case fields.Moment():
            return st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())
        case fields.TimeZone():
            return st.sampled_from(["UTC", "Europe/Berlin", "Asia/Calcutta", ""])
        case fields.Reference() | fields.Uuid():
            return st.uuids(version=4).map(str) | st.just("")
        case fields.Boolean():
            return st.booleans()
        case fields.Number():
            return build_numbers(field)
        case fields.Email():
            return st.just("alice@example.org")
        case marshmallow.fields.Dict():
            return st.dictionaries(TEXT, TEXT.filter(bool), min_size=1, max_size=3)
        case fields.Text() if field.name == "url":
            return st.just("https://hooks.example.org/x")
        case _:
            choices = [rule.choices for rule in field.validators if isinstance(rule, validate.OneOf)]
            if choices:
                # In XML, an empty text is null where null is allowed.
                return st.sampled_from([one for one in choices[0] if one or not field.allow_none])
            return TEXT.filter(bool) if field.allow_none or field.required else TEXT


def build_numbers(field: Any) -> st.SearchStrategy[Any]:
    for rule in field.validators:
        if isinstance(rule, validate.OneOf):
            return st.sampled_from(list(rule.choices))
        if isinstance(rule, validate.Range):
            return st.integers(rule.min, rule.max)
    raise AssertionError(field)


def build_bodies(schema: marshmallow.Schema) -> st.SearchStrategy[Any]:
    fields_of = {field.data_key or name: field for name, field in schema.load_fields.items()}
    known = {name: values(field) for name, field in fields_of.items()}
    must = {name: known[name] for name, field in fields_of.items() if field.required}
    return st.fixed_dictionaries(must, optional={name: known[name] for name in known if name not in must})


TAKING = {type(route.body): route.body for route in ROUTES if route.body is not None}


@pytest.mark.parametrize("schema", TAKING.values(), ids=lambda schema: type(schema).__name__)
@settings(
    max_examples=count_examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_a_body_has_the_same_values_in_json_and_xml(schema, data):
    body = data.draw(build_bodies(schema))
    try:
        loaded = schema.load(body)
    except marshmallow.ValidationError:
        assume(False)

    assert schema.load(xml.parse(xml.render(body))) == loaded
