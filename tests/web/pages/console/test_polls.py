"""An open page asks again and again whether something has changed; mostly nothing has.

Then nothing is loaded for the page and nothing is rendered. docs/reliability.md has the CPU time.
"""

import pytest
from flask import template_rendered

from bench.servers.plans import collect_statements

# The session with its person, then the list; or the incident, and its last change.
STATEMENTS = {"/": 2, "/incidents/1/": 3}


@pytest.fixture
def rendered(app):
    """The names of the templates that were rendered."""
    names = []

    def record(sender, template, context, **more):
        names.append(template.name)

    with template_rendered.connected_to(record, app):
        yield names


@pytest.mark.parametrize("path", STATEMENTS)
def test_an_unchanged_page_needs_few_statements_and_is_not_rendered(sign_in, open_incident, rendered, path):
    open_incident()
    browser = sign_in("alice")
    asked = {"If-None-Match": browser.get(path).headers["ETag"], "X-Requested-With": "fetch"}
    assert rendered
    rendered.clear()

    with collect_statements() as statements:
        status = browser.get(path, **asked).status_code

    assert (status, len(statements), rendered) == (304, STATEMENTS[path], [])
