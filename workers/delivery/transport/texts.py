"""Render the text of a message from the template of its channel.

The default templates are in workers/delivery/templates. A file of the same name in the folder `templates` of
the data folder replaces one. Such a template runs in a sandbox. If it fails, the default is used: a template
never stops a message.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

from models.domain.values import replace
from pipeline.messages.content import KeyFacts, MessageContent, list_offered, write_plain_text
from pipeline.messages.shortening import count_characters, shorten_content, shorten_text
from pipeline.messages.sms_segments import write_replies
from runtime.late_logs import LateLogger
from workers.delivery.transport.text_table import FOLDER, TEXTS, TextSpec

log = LateLogger()

# Larger files of an operator are not read.
MAX_TEMPLATE_BYTES = 64 * 1024
# The longest replies of an SMS, to try templates.
_REPLIES = write_replies(("acknowledge", "resolve"), "K7QX")


@dataclass(frozen=True, slots=True)
class _Unshortened:
    """What a template gets of a message however much of it is shortened."""

    page: str
    actions: tuple[str, ...]
    replies: str

    @classmethod
    def read(cls, content: MessageContent, replies: str) -> "_Unshortened":
        # In a message about several incidents, each link has a note.
        is_one = bool(content.links) and not content.links[0].note
        return cls(content.links[0].url if is_one else "", tuple(list_offered(content)), replies)


class MessageText:
    """Renders one of TEXTS. `home` is the data folder; None: without an operator's templates."""

    def __init__(self, file: str, home: Path | None = None) -> None:
        self._spec = TEXTS[file]
        self._default = _load_default(file)
        self._own: Template | None = None
        if home is not None:
            try:
                self._own = _load_own(self._spec, home / FOLDER / file)
            except Exception as error:
                _warn(file, error)

    def render(self, content: MessageContent, replies: str = "", limit: int | None = None) -> str:
        """Return the text, shortened to the limit of the channel or to a smaller `limit`."""
        spec = self._spec if limit is None else replace(self._spec, limit=limit)
        if self._own is not None:
            try:
                text = render_shortened(self._own, spec, content, replies)
                if text is not None and text.strip():
                    return text
                _warn(spec.file, ValueError("its text is empty or too long"))
            except Exception as error:
                _warn(spec.file, error)
            # It is not tried again before the next start, so it warns once.
            self._own = None
        text = render_shortened(self._default, spec, content, replies)
        return _shorten_title(spec, content) if text is None else text


def _shorten_title(spec: TextSpec, content: MessageContent) -> str:
    """Return as much of the title as fits, without the template."""
    length = len(content.title)
    while length and _is_too_long(spec, spec.escape(shorten_text(content.title, length))):
        length -= 1
    return spec.escape(shorten_text(content.title, length))


def render_shortened(
    template: Template, spec: TextSpec, content: MessageContent, replies: str = ""
) -> str | None:
    """Return the text with as much of the content as fits; None: nothing fits.

    Raise errors of the template.
    """
    kept, total = _Unshortened.read(content, replies), None
    if spec.max_links is None or len(content.links) <= spec.max_links:
        text = _render(template, content, kept)
    else:
        total = count_characters(content)
        text = _render(template, shorten_content(content, total, spec.max_links), kept)
    if not _is_too_long(spec, text):
        return text
    # A shorter content gives a shorter text, so halving finds the longest that fits.
    best, fits, too_many = None, -1, count_characters(content) if total is None else total
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        text = _render(template, shorten_content(content, middle, spec.max_links), kept)
        if _is_too_long(spec, text):
            too_many = middle
        else:
            best, fits = text, middle
    return best


def list_variables(content: MessageContent, kept: _Unshortened | None = None) -> Mapping[str, object]:
    """Return the values of VARIABLES for a message. `kept`: of the message before it was shortened."""
    kept = kept or _Unshortened.read(content, "")
    facts = {field.name: getattr(content.facts, field.name) for field in fields(KeyFacts)}
    names = ("title", "state", "heading", "lines", "details", "links", "closing", "foot", "is_urgent")
    return {
        **{name: getattr(content, name) for name in names},
        **facts,
        "page": kept.page if content.links else "",
        "actions": kept.actions,
        "replies": kept.replies,
        "plain_text": write_plain_text(content),
    }


def find_template_problems(home: Path, examples: Mapping[str, MessageContent]) -> Iterator[tuple[str, str]]:
    """Yield the file and the problem of each template in the data folder that is not used as it is.

    `examples` are messages that each template must be able to show.
    """
    folder = home / FOLDER
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        spec = TEXTS.get(path.name)
        if spec is None:
            yield path.name, f"no channel has a template of this name; they are {', '.join(sorted(TEXTS))}"
            continue
        try:
            template = _load_own(spec, path)
            failed = template is not None and not all(
                (render_shortened(template, spec, content, _REPLIES) or "").strip()
                for content in examples.values()
            )
        except Exception as error:
            yield path.name, _describe(error)
            continue
        if failed:
            yield (
                path.name,
                "its text is empty, or its fixed text is longer than a message may be",
            )


def _create_environment(spec: TextSpec, kind: type[Environment]) -> Environment:
    def escape(value: object) -> object:
        # Jinja applies this to each value that a template shows. Text with the mark is escaped already.
        return value if hasattr(value, "__html__") else Markup(spec.escape(str(value)))  # noqa: S704

    def escape_address(value: object) -> Markup:
        return Markup(spec.escape_url(str(value)))  # noqa: S704

    environment = kind(
        loader=PackageLoader("workers.delivery"),
        autoescape=True,
        finalize=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["url"] = escape_address
    return environment


@cache
def _load_default(file: str) -> Template:
    return _create_environment(TEXTS[file], Environment).get_template(file)


def _load_own(spec: TextSpec, path: Path) -> Template | None:
    """Return the operator's template; None: there is none. Raise an error if it cannot be used."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        source = file.read(MAX_TEMPLATE_BYTES + 1)
    if len(source) > MAX_TEMPLATE_BYTES:
        raise ValueError(f"it has more than {MAX_TEMPLATE_BYTES // 1024} KB")
    environment = _create_environment(spec, ImmutableSandboxedEnvironment)
    return environment.from_string(source.decode())


def _render(template: Template, content: MessageContent, kept: _Unshortened) -> str:
    return str(template.render(list_variables(content, kept)))


def _is_too_long(spec: TextSpec, text: str) -> bool:
    return spec.limit is not None and spec.measure(text) > spec.limit


def _describe(error: Exception) -> str:
    row = getattr(error, "lineno", None)
    where = f" in row {row}" if row else ""
    return f"{type(error).__name__}{where}: {error}"


def _warn(file: str, error: Exception) -> None:
    log.warning("own template cannot be used, the default is used", template=file, error=_describe(error))
