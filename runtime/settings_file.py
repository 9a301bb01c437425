"""Read `tocsin.toml`, the file in the data folder in which settings may stand."""

import difflib
import shlex
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.setting_values import BadSetting

NAME = "tocsin.toml"
# The file may have passwords.
UMASK = 0o077
# The largest file that is read, in bytes.
MAX_SIZE = 1_000_000


def read(path: Path, known: Sequence[str]) -> dict[str, str]:
    """Return the texts in the file by the names of settings; without a file, none. Raise BadSetting.

    `known` are the names of settings. The data folder cannot be set in the file, because the file is in it.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SIZE:
            raise BadSetting(f"the settings file {path} must be a file of at most {MAX_SIZE} bytes")
        if stat.S_IMODE(found.st_mode) & UMASK:
            raise BadSetting(
                f"other users of this host can use the settings file. Run: chmod 600 {shlex.quote(str(path))}"
            )
        values = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise BadSetting(f"the settings file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSetting(f"the settings file {path} must be UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # The library names the place, not the value.
        raise BadSetting(f"the settings file {path} must be TOML: {_shorten(error)}") from None
    except BadSetting:
        raise
    except ValueError:
        # Python converts no integer of more than 4,300 digits.
        raise BadSetting(f"the settings file {path} has a number with too many digits") from None
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise BadSetting("; ".join(describe_unknown(name, known, path) for name in unknown))
    if "home" in values:
        raise BadSetting(f"home must not be in {path}, which is in this folder: use --home or TOCSIN_HOME")
    return _read_texts(values, path)


def _shorten(error: Exception) -> str:
    return str(error).partition("\n")[0] or "it is nested too deeply"


def _read_texts(values: Mapping[str, object], path: Path) -> dict[str, str]:
    """Return the values as an environment has them: lists separated by commas, 1 for true, 0 for false."""
    texts = {}
    for name, value in values.items():
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, (str, int)) for item in items):
            raise BadSetting(
                f"{name} in {path} must be a text in quotes, a whole number, true, false, or a list of these"
            )
        texts[name] = ",".join(str(int(item) if isinstance(item, bool) else item) for item in items)
    return texts


def describe_unknown(name: str, known: Sequence[str], path: Path | None = None) -> str:
    """Return what is wrong with an unknown name, with the known name that is most like it."""
    # The prefix is equal in all names, and would make all of them similar.
    texts = {_strip_prefix(each): each for each in known}
    similar = difflib.get_close_matches(_strip_prefix(name), texts, 1)
    where = f" in {path}" if path else ""
    advice = f"did you mean {texts[similar[0]]}?" if similar else "docs/settings.md lists all settings"
    return f"unknown setting {name if name.isprintable() else ascii(name)}{where}: {advice}"


def _strip_prefix(name: str) -> str:
    return name.lower().removeprefix("tocsin_")
