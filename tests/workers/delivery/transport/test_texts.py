"""The texts of channels: templates, escaping, limits, and templates of an operator."""

import itertools
import json
import re

import pytest
from jinja2 import Environment
from structlog.testing import capture_logs

from models.domain.channels import CHANNELS
from pipeline.messages.incidents import IncidentDetails
from runtime.settings import load
from tests.support.delivery.messages import (
    PUBLIC_URL,
    build_group,
    build_hostile,
    build_message,
    build_single,
)
from tests.support.offenders import list_offenders
from workers.delivery.deliver import create_channel
from workers.delivery.transport import texts
from workers.delivery.transport.chat_text import escape_tags
from workers.delivery.transport.text_table import TEXTS, VARIABLES, TextSpec, escape_html
from workers.delivery.transport.texts import (
    FOLDER,
    MessageText,
    find_template_problems,
    list_variables,
    render_shortened,
)

BROKEN_ESCAPE = re.compile("&(?!(amp|lt|gt|quot|#x27);)")
EXAMPLES = {"one incident": build_single(), "three incidents": build_group()}


@pytest.fixture
def write(tmp_path):
    """write(file, text): write a template of an operator. Returns the data folder."""

    def write(file: str, text: str | bytes):
        folder = tmp_path / FOLDER
        folder.mkdir(exist_ok=True)
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return write


# The body of a webhook is data for a program. Mails to stakeholders are mails.
WITHOUT_TEXT = {"webhook", "stakeholder_mail"}


def test_each_channel_has_a_text():
    channels = {spec.name for spec in CHANNELS.values()}

    assert {file.partition(".")[0] for file in TEXTS} == channels - WITHOUT_TEXT


def test_each_variable_is_documented():
    assert set(list_variables(build_single())) == set(VARIABLES)


CONTENTS = [build_single(), build_group(100), build_hostile()]


def test_a_text_keeps_the_limit_of_its_channel():
    def check(case):
        file, content = case
        spec, text = TEXTS[file], MessageText(file).render(content)

        assert spec.limit is None or spec.measure(text) <= spec.limit
        assert len(text) > 40

    assert list_offenders(check, itertools.product(TEXTS, CONTENTS)) == []


def test_no_escape_sequence_and_no_link_is_broken():
    content = build_hostile()
    template = Environment(autoescape=True).from_string(
        "{{ title }} {% for link in links %}{{ link.url }} {% endfor %}{{ plain_text }}"
    )
    for limit in range(60, 3_000, 7):
        spec = TextSpec("email.html", escape_html, limit)
        text = render_shortened(template, spec, content)
        assert len(text) <= limit
        assert BROKEN_ESCAPE.search(text.replace("&#39;", "")) is None


def test_each_value_is_escaped_once(write):
    source = (
        "{% macro show(text) %}({{ text }}){% endmacro %}{{ title }} {{ show(title) }} {{ [title]|join }}"
    )
    text = MessageText("email.html", write("email.html", source)).render(build_single(title="a & <b>"))

    assert text.count("a &amp; &lt;b&gt;") == 3
    assert "&amp;amp;" not in text


def test_a_template_of_the_operator_replaces_the_default(write):
    home = write(
        "ntfy.txt", "{{ where }}: {{ what }} ({{ how_bad }}) {{ who_else }} {{ next_step }} {{ link }}"
    )

    text = MessageText("ntfy.txt", home).render(build_single())

    assert text.startswith(
        "Checkout: Disk full on db1 (critical, high urgency) Bob Next, in 5 min: Carol https://"
    )


@pytest.mark.parametrize("file", sorted(set(TEXTS) - {"email.html", "email.txt"}))
def test_each_channel_sends_the_text_of_an_own_template(write, file):
    home = write(file, "Wiki of {{ where }}: {{ next_step }}")
    name = file.partition(".")[0]
    channel = create_channel(name, load({"TOCSIN_HOME": str(home), "TOCSIN_PUBLIC_URL": PUBLIC_URL}))

    example = channel.format_example(build_message(build_single(), "alice"))

    assert "Wiki of Checkout: Next, in 5 min: Carol" in json.dumps(example)


@pytest.mark.parametrize(("file", "shown"), [
    ("email.html", "&lt;b&gt; [x](y) @all &amp;"),
    ("slack.txt", "&lt;b&gt; [x](y) @\u200ball &amp;"),
    ("telegram.html", "&lt;b&gt; [x](y) @\u200ball &amp;"),
    ("google_chat.html", "&lt;b&gt; [x](y) @\u200ball &amp;"),
    ("mattermost.md", "\\<b\\> \\[x\\](y) @\u200ball &"),
    ("discord.md", "\\<b\\> \\[x\\](y) @\u200ball &"),
    ("teams.txt", "<b> [x](y) @all &"),
    ("sms.txt", "<b> [x](y) @all &"),
])  # fmt: skip
def test_an_own_template_escapes_texts_of_users_as_the_channel_needs_it(write, file, shown):
    home = write(file, "{{ what }}")

    assert MessageText(file, home).render(build_single(title="<b> [x](y) @all &")) == shown


def test_an_own_template_can_make_a_link_that_no_address_leaves(write):
    home = write("discord.md", "[{{ what }}]({{ links[1].url|url }})")
    link = ("Runbook", "https://wiki.example.org/disk_(full)")

    text = MessageText("discord.md", home).render(
        build_single(details=IncidentDetails(sources=(link,)), title="Disk")
    )

    assert text == "[Disk](https://wiki.example.org/disk%5F%28full%29)"


def test_an_own_template_of_an_sms_gets_the_replies(write):
    text = MessageText("sms.txt", write("sms.txt", "{{ where }} {{ since_short }} {{ replies }} {{ page }}"))

    assert text.render(build_single(), "Reply 1 K7PM").startswith("Checkout Wed 13:00 CET Reply 1 K7PM http")
    assert text.render(build_group(), "").endswith(" ")


def test_a_list_that_is_shortened_says_how_many_are_left_out():
    text = MessageText("mattermost.md").render(build_group(60))

    shown = text.count("](https://")
    assert 1 < shown <= 20
    assert f"and {60 - shown} more in Tocsin" in text


@pytest.mark.parametrize(
    "source",
    [
        "{% if %}",
        "{{ unknown }}",
        "{{ title.unknown }}",
        "{{ 1 // 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{% include 'email.html' ~ unknown %}",
        "{% for x in range(999999999) %}{% endfor %}",
        b"\xff\xfe",
        "x" * (65 * 1024),
        "x" * 3_000,
        "{% if false %}x{% endif %} ",
    ],
    ids=[
        "syntax",
        "name",
        "attribute",
        "error",
        "sandbox",
        "include",
        "range",
        "bytes",
        "size",
        "fixed text",
        "empty",
    ],
)
def test_a_template_that_fails_never_stops_a_message(write, source):
    home = write("ntfy.txt", source)
    expected = MessageText("ntfy.txt").render(build_single())

    with capture_logs() as logs:
        text = MessageText("ntfy.txt", home)
        shown = [text.render(build_single()) for _ in range(3)]

    assert shown == [expected] * 3
    assert [entry["template"] for entry in logs if entry["log_level"] == "warning"] == ["ntfy.txt"]
    assert [file for file, _ in find_template_problems(home, EXAMPLES)] == ["ntfy.txt"]


def test_a_template_that_fails_for_one_message_is_found_by_its_examples(write):
    home = write("ntfy.txt", "{{ title }}{% if links|length > 1 %}{{ unknown }}{% endif %}")

    ((file, problem),) = find_template_problems(home, EXAMPLES)

    assert (file, problem) == ("ntfy.txt", "UndefinedError: 'unknown' is undefined")


def test_a_file_that_no_channel_uses_is_a_problem(write):
    write("ntfy.txt", "{{ title }}")
    home = write("nfty.txt", "{{ title }}")

    ((file, problem),) = find_template_problems(home, EXAMPLES)

    assert file == "nfty.txt"
    assert problem.startswith(
        "no channel has a template of this name; they are discord.md, email.html, email.txt, google_chat.html"
    )
    assert list(find_template_problems(home / "missing", EXAMPLES)) == []


def test_a_title_alone_keeps_the_limit_too(monkeypatch):
    monkeypatch.setitem(TEXTS, "ntfy.txt", TextSpec("ntfy.txt", escape_html, 20))

    text = texts.MessageText("ntfy.txt").render(build_single(title="<<<<<<<<<<<<<<<<<<<<<<<<<<<<"))

    assert len(text) <= 20
    assert BROKEN_ESCAPE.search(text) is None


def test_no_text_of_a_chat_reads_as_a_mention():
    assert escape_tags("@here <!channel> a@example.org https://x.org/@bob") == (
        "@\u200bhere &lt;!channel&gt; a@example.org https://x.org/@bob"
    )
