"""Write the documents that are made from the code: settings, commands, messages, sources.

`make docs` runs it. With `--check` it changes nothing and fails if one of them is out of date.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

SETTINGS_PAGE = ROOT / "docs" / "settings.md"
MESSAGES_PAGE = ROOT / "docs" / "messages.md"
COMMANDS_PAGE = ROOT / "docs" / "commands.md"

SETTINGS_HEAD = """# Settings

Settings are environment variables, or stand in `tocsin.toml` in the data folder. The environment wins.
Servers and commands read both once, at their start. `tocsin settings` shows the values and where each is
from.

**The documents write settings into `tocsin.toml`**, and name them in sentences by their variable:
`TOCSIN_SMTP_HOST` is `smtp_host` in the file. Only for a unit of systemd and for a container they write
`TOCSIN_SMTP_HOST=mail.example.org` into `/etc/tocsin/tocsin.env`, which systemd and the engine read.

**The data folder** is found by `--home FOLDER`, then `TOCSIN_HOME`, then `./var`. It must belong to the user
that runs Tocsin. A command that finds no data there says so and creates nothing. `tocsin up`, `web`,
`worker`, `clock`, `migrate` and `init` create a folder that is missing. They do not use a folder that has
only files of others. With `TOCSIN_DATABASE_URL` in the environment, another user may run the other commands:
they use neither the folder nor the file in it.

**The file** has the names of the table in lower case and without `TOCSIN_`. Only its owner may read it (mode
0600), otherwise Tocsin does not start. `tocsin init` writes it.

```toml
public_url = "https://tocsin.example.org"
smtp_host = "mail.example.org"
smtp_port = 587
smtp_tls = "starttls"
smtp_plain_login = false
trusted_proxies = ["10.0.0.0/8"]
```

**An error stops the start** with one line that says what would be right. An unknown name is an error too, in
the environment (`TOCSIN_` names) and in the file. The values of secrets are never shown.

This page is made from the table in `runtime/settings.py` by `make docs`.

| variable | default | unit | meaning |
|---|---|---|---|
"""


def build_settings_page() -> str:
    """Return docs/settings.md: a row for each setting."""
    from runtime.settings import SETTINGS

    rows = (
        f"| `{each.variable}` | {f'`{each.default}`' if each.default else 'empty'} | {each.unit} |"
        f" {each.meaning.replace('|', chr(92) + '|')}{' (secret: never shown)' if each.secret else ''} |"
        for each in SETTINGS
    )
    return SETTINGS_HEAD + "\n".join(rows) + "\n"


COMMANDS_HEAD = """# Commands

`tocsin COMMAND --help` shows the options of a command. All take `--home FOLDER`, the data folder. This page
is made from the code by `make docs`.

**Names.** A command takes the name of a team, service, integration, schedule or policy, or its `unique_id`.
If two have the same name, write `TEAM/NAME`, and `TEAM/SERVICE/NAME` for an integration. A user is named by
the e-mail address or the username. `tocsin list` shows all of them, and an unknown name is answered with what
exists. With more than one account, `--account ID` chooses one.

**Who you are.** `tocsin incidents --mine` lists the incidents of the user whom `TOCSIN_USER` names. `ack`,
`resolve`, `note`, `snooze` and `reassign` are then in the name of this user; `--user` names another one.

**Output.** On a terminal, tables fit its width and have colours; `NO_COLOR=1` turns the colours off. A
command that prints a result takes `--json` for programs. Its output is one JSON object; a list is in
`results`, and times are in UTC as over HTTP. Messages about progress and errors go to standard error.

**Completion.** The shell completes commands, options and tools with the Tab key if `~/.bashrc` has the line
`eval "$(_TOCSIN_COMPLETE=bash_source tocsin)"`. For zsh, write `zsh_source` and `~/.zshrc`. For fish, put the
output of `_TOCSIN_COMPLETE=fish_source tocsin` into `~/.config/fish/completions/tocsin.fish`.
"""

COMMANDS_END = """
## Exit codes

| exit code | meaning |
|---|---|
| 0 | no problem found, or it was done |
| 1 | the command failed; `check` found a problem; `simulate` would not notify an expected person |
| 2 | an argument or a setting cannot be used |
| 3 | a command that only reads: the database is missing, unavailable, or of an older version |
| 4 | the simulation is too large to know whether an expected person would be notified |

`incidents`, `alerts`, `why`, `oncall`, `check`, `simulate` and all lists only read. They create no data
folder and no database, and apply no migration.
"""


def build_commands_page() -> str:
    """Return docs/commands.md: a table of the commands for each section of `tocsin --help`."""
    from tocsin.cli import SECTIONS

    rows = [COMMANDS_HEAD]
    for title, section in SECTIONS.items():
        rows += [f"## {title}", "", "| command | what it does |", "|---|---|"]
        for name, declared in section.items():
            rows += [f"| `tocsin {name}` | {declared.meaning} |", *_list_commands_below(name)]
        rows.append("")
    return "\n".join(rows).rstrip() + "\n" + COMMANDS_END


def _list_commands_below(name: str) -> list[str]:
    """Return a row for each command below a command."""
    import click

    from tocsin.cli import Commands

    command = Commands().get_command(click.Context(Commands()), name)
    below = command.commands if isinstance(command, click.Group) else {}
    return [f"| `tocsin {name} {word}` | {each.get_short_help_str(200)} |" for word, each in below.items()]


MESSAGES_HEAD = """# Messages

What Tocsin sends for an incident, in each channel. This page is made from the code by `make docs`.

Each text says what happened, where, how bad it is, since when, who else is notified, what the policy does
next, and where to go. A text that is too long for its channel is shortened: first go the trace_ids and the
summary, then further labels; the title and the first link stay the longest, and in an SMS what to reply.
Texts of alerts are escaped for each channel, so nobody can write a link or call a group with them.

## Your own templates

Put a file of the name in the table into the folder `templates` of the data folder, on each host with a worker
process, and restart the workers. `tocsin check` tries it with the examples below. The file is a template of
[Jinja](https://jinja.palletsprojects.com/en/stable/templates/) of at most 64 KB. It runs in a sandbox. It
can include the default templates by their names, and no other file; those of chats extend `chat.txt`.

A template that fails never stops a message: the default is used instead, and a warning is logged once. If
Telegram cannot read the HTML of your template, it gets the title and the link.

Values are escaped when they are shown. Write fixed text outside of `{{ }}`. An address in the mark-up of a
link needs the filter `url`: `[{{ title }}]({{ link|url }})` in Markdown, `<a href="{{ link|url }}">` in HTML.

A template is the text of a message. What surrounds it is not: the title of a notification, the buttons, the
links of a message about several incidents in Slack, Teams and Google Chat, and the keys of a call. A person
who presses 3 in a call hears the title again. A webhook has no template: its body is data for programs.
"""


def build_messages_page() -> str:
    """Return docs/messages.md: templates, their variables, and an example of each channel."""
    from models.domain.channels import CHANNELS
    from pipeline.messages.examples import AT, PUBLIC_URL, build_examples
    from runtime.settings import load
    from workers.delivery.deliver import create_channel
    from workers.delivery.transport.channel import OutgoingMessage
    from workers.delivery.transport.text_table import TEXTS, VARIABLES

    files = [
        f"| `{spec.file}` | {'no limit' if spec.limit is None else f'{spec.limit:,} {spec.unit}'} |"
        for spec in TEXTS.values()
    ]
    variables = [f"| `{name}` | {meaning} |" for name, meaning in VARIABLES.items()]
    rows = [
        MESSAGES_HEAD,
        "| file | longest text |",
        "|---|---|",
        *files,
        "",
        "| variable | meaning |",
        "|---|---|",
        *variables,
    ]
    settings = load({"TOCSIN_PUBLIC_URL": PUBLIC_URL})
    for spec in CHANNELS.values():
        channel = create_channel(spec.name, settings)
        rows += ["", f"## {spec.title[0].upper()}{spec.title[1:]}"]
        for name, content in build_examples().items():
            # A channel without this method has no example: add one.
            found = channel.format_example(OutgoingMessage("c0ffee" * 8, "alice", content, AT))
            is_text = isinstance(found, str)
            text = found if is_text else json.dumps(found, indent=2, ensure_ascii=False)
            rows += ["", f"{name}:", "", f"```{'text' if is_text else 'json'}", text.rstrip(), "```"]
    return "\n".join(rows) + "\n"


SOURCES_HEAD = """# Sources

The monitoring tools whose alerts Tocsin reads in their own form. Add an integration with the application of
the tool to a service: these commands do it in the first service of the first team, and print its webhook URL
and its key. Write the ID that the page of the tool names for ID. In these pages, `URL` stands for the webhook
URL.

```console
BASE=http://127.0.0.1:8080
pick() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }
TOKEN=$(pick "['token']" < var/credentials.json)
ask() { curl -sS --fail-with-body -w '\\n' -H "Authorization: Bearer $TOKEN" "$@"; }
TEAM=$BASE/api/account/teams/$(ask $BASE/api/account/teams/ | pick "[0]['unique_id']")
SERVICE=$TEAM/services/$(ask $TEAM/services/ | pick "[0]['unique_id']")
ask $SERVICE/integrations/ -d '{"name": "Monitoring", "application": "ID"}' > integration.json
pick "['webhook_url']" < integration.json
pick "['integration_key']" < integration.json
```

Not run by a test: the ID is that of your tool.

Most integrations open incidents for critical alerts only. With `"create_incidents_for": 3` beside the ID,
errors and warnings open incidents too.

Let the tool report a problem and its end. `tocsin incidents` lists the incident, and `tocsin why NUMBER`
explains it.

Any other tool can post JSON: in the form of the event operation, or in its own form with the application
[JSON with a mapping](sources/json.md). These pages are made from the code by `make docs`.

[Does a tool still send?](operators/monitoring.md#does-a-tool-still-send) shows the last alert of an
integration, and bodies that did not have the form of its tool. `tocsin check` names integrations that went
silent.

A body that does not have the form of its tool is a critical alert. Its title is the first useful text, and
its trace says where Tocsin found it. An alert whose level is missing or unknown is critical too, and its
trace says so. An integration can declare another level: field `default_alert_type` of
`/api/tocsin/integrations/ID/source/`.

Tools that were made for another service need only another URL and key:
[PagerDuty](sources/pagerduty.md), [Opsgenie](sources/opsgenie.md), [VictorOps](sources/victorops.md).
[Prometheus without Alertmanager](sources/alertmanager.md) pushes alerts directly.

The last column says how the form of the body is known. Real: the tool itself opened and resolved incidents;
its page names the version. Published sample: the documentation of the tool has the example. Documentation
only: the example was written by hand, from the documentation or the source code.

| tool | kind | proof |
|---|---|---|
"""

SOURCE_PAGE = """# {name}

{summary}

The application is `{kind}`, with the ID `{application_id}`.

What names the problem: {entity}. Alerts with the same problem join one open incident, and the alert that
reports its end resolves it.

## Set it up

[sources.md](../sources.md) has the commands that add the integration and show its webhook URL.

{steps}
{paste}
## What to know

{notes}

## Try it

This sends the example below to an integration, on the host of Tocsin. It can notify people.

```console
tocsin send --as {kind} --key KEY
```

Not run by a test: the key is that of your integration.

## Example

{origin}

```json
{example}
```
"""

DEFAULT_NOTE = "A level that Tocsin does not know counts as critical, and the trace of the alert says so."


def build_source_pages() -> dict[Path, str]:
    """Return docs/sources.md, and docs/sources/KIND.md for each tool with a guide."""
    from models.domain.applications import KINDS
    from tocsin.commands.alerts.send import load_example
    from tocsin.commands.alerts.source_guides import GUIDES

    pages, rows = {}, []
    for kind, guide in GUIDES.items():
        example, application = load_example(kind), KINDS[kind]
        origin = str(example["origin"])
        steps = [f"{number}. {step}" for number, step in enumerate(guide.steps, start=1)]
        paste = f"\n```{guide.language}\n{guide.paste}\n```\n" if guide.paste else ""
        pages[ROOT / "docs" / "sources" / f"{kind}.md"] = SOURCE_PAGE.format(
            name=application.name,
            summary=application.summary,
            kind=kind,
            application_id=application.unique_id,
            entity=guide.entity,
            steps="\n".join(steps),
            paste=paste,
            notes="\n".join(f"- {note}" for note in (*guide.notes, DEFAULT_NOTE)),
            origin=f"{origin[0].upper()}{origin[1:]}.",
            example=json.dumps(example["body"], indent=2, ensure_ascii=False),
        )
        rows.append(f"| [{application.name}](sources/{kind}.md) | `{kind}` | {origin.partition(':')[0]} |")
    return {ROOT / "docs" / "sources.md": SOURCES_HEAD + "\n".join(rows) + "\n", **pages}


def list_pages() -> dict[Path, str]:
    return {
        SETTINGS_PAGE: build_settings_page(),
        COMMANDS_PAGE: build_commands_page(),
        MESSAGES_PAGE: build_messages_page(),
        **build_source_pages(),
    }


if __name__ == "__main__":
    if "--check" in sys.argv:
        old = [
            path.name for path, text in list_pages().items() if not path.exists() or path.read_text() != text
        ]
        sys.exit(f"docs/{', docs/'.join(old)}: run make docs" if old else 0)
    for path, text in list_pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
