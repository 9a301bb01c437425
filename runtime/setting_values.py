"""Parse the values of settings. Each error says what would be right, and continues "NAME must ..."."""

import ipaddress
from collections.abc import Callable
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import urlsplit


class BadSetting(ValueError):
    """A setting with which Tocsin cannot start; the text says what to change."""


def parse_text(text: str) -> str:
    return text


def build_number_parser(lowest: int, highest: int, unit: str = "") -> Callable[[str], int]:
    must = f"be a whole number {f'of {unit} ' if unit else ''}from {lowest} to {highest}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(must) from None
        if not lowest <= number <= highest:
            raise ValueError(must)
        return number

    return parse


parse_port = build_number_parser(1, 65535)
parse_count = build_number_parser(1, 1024)


def parse_optional_port(text: str) -> int:
    return parse_port(text) if text else 0


def parse_bool(text: str) -> bool:
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    try:
        return known[text.lower()]
    except KeyError:
        raise ValueError("be 1 or 0") from None


def build_choice_parser(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"be one of {', '.join(choices)}")
        return text

    return parse


def parse_folder(text: str) -> Path:
    if not text.strip() or "\0" in text:
        raise ValueError("be the path of a folder")
    return Path(text).absolute()


def parse_host(text: str) -> str:
    """Return an address or a host name. A port or a URL is a common mistake."""
    if _is_address(text) or (text.isascii() and not any(char in text for char in " \t:/@")):
        return text
    raise ValueError("be a host name or an address without a port, for example localhost")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def parse_email(text: str) -> str:
    name, at, domain = text.partition("@")
    if not (name and at and domain) or "@" in domain or any(char.isspace() for char in text):
        raise ValueError("be an e-mail address, for example you@example.org")
    return text


def parse_sender(text: str) -> str:
    """Return a sender. A name may stand before the address."""
    if "@" not in parseaddr(text)[1]:
        raise ValueError(
            "be an e-mail address, for example tocsin@example.org or Tocsin <tocsin@example.org>"
        )
    return text


def build_url_parser(*schemes: str) -> Callable[[str], str]:
    starts = tuple(f"{scheme}://" for scheme in schemes)

    def parse(text: str) -> str:
        if text and (not text.startswith(starts) or any(char.isspace() for char in text)):
            raise ValueError(f"be a URL that begins with {' or '.join(starts)}")
        return text.rstrip("/")

    return parse


def parse_redis_url(text: str) -> str:
    url = build_url_parser("redis", "rediss", "unix")(text)
    try:
        _ = urlsplit(url).port
    except ValueError:
        # The text that is not a valid port may be a part of the password, so the error does not quote it.
        raise ValueError("have a host and a port that can be read; in a password write %2F for /") from None
    return url


def parse_switch_url(text: str) -> str:
    """Return the URL unchanged: its server may distinguish a path with a final slash from one without."""
    # Blanks have their own text below.
    build_url_parser("http", "https")("".join(text.split()))
    try:
        known = not text or (urlsplit(text).hostname and urlsplit(text).port != 0)
    except ValueError:
        known = False
    if not known:
        raise ValueError("have a host and a port that can be read")
    if not text.isascii() or any(char <= " " or char == "\x7f" for char in text):
        raise ValueError("have blanks and characters outside ASCII as %xx")
    if "@" in urlsplit(text).netloc:
        raise ValueError("have no user and password; it may contain a token")
    return text


def parse_file(text: str) -> str:
    if text and not Path(text).is_file():
        raise ValueError("be the path of a file that exists")
    return text


def _parse_networks(text: str) -> tuple[str, ...]:
    found = []
    for name in (name.strip() for name in text.split(",")):
        try:
            network = ipaddress.ip_network(name)
        except ValueError as error:
            # The library quotes the address and says what is wrong with it.
            raise ValueError(f"be networks like 10.0.0.0/8, separated by commas: {error}") from None
        if not network.prefixlen:
            raise ValueError(
                f"name only your own proxies; with {network}, every client could choose its own address"
            )
        found.append(str(network))
    return tuple(found)


def parse_optional_networks(text: str) -> tuple[str, ...]:
    return _parse_networks(text) if text.strip() else ()


# The stages after which a new queue can begin; a test compares them with the list of the pipeline.
SPLIT_AFTER = ("normalize", "route", "rules")


def parse_stages(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if set(names) - set(SPLIT_AFTER):
        raise ValueError(f"be one or more of {', '.join(SPLIT_AFTER)}, separated by commas")
    return names
