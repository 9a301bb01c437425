"""Parse the values of settings. Each error says what would be right, and continues "NAME must ..."."""

import ipaddress
import re
from collections.abc import Callable
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import urlsplit


class BadSetting(ValueError):
    """A setting with which Tocsin cannot start; the text says what to change."""


def parse_text(text: str) -> str:
    return text


def parse_webhook_secret(text: str) -> str:
    """Return a secret for Telegram's webhook, which accepts only these characters."""
    if text and (
        len(text) > 256 or not text.isascii() or not text.replace("_", "").replace("-", "").isalnum()
    ):
        raise ValueError("have 1 to 256 characters out of a-z, A-Z, 0-9, _ and -")
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


_PREFIX = re.compile(r"\+[0-9]{0,15}")


def parse_prefixes(text: str) -> tuple[str, ...]:
    """Return the beginnings of phone numbers."""
    prefixes = tuple(filter(None, (prefix.strip() for prefix in text.split(","))))
    if not all(map(_PREFIX.fullmatch, prefixes)):
        raise ValueError("be beginnings of phone numbers, separated by commas, for example +46,+1")
    return prefixes


def parse_groups(text: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a group and the name of a team."""
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    found = tuple((group.strip(), team.strip()) for group, _, team in pairs)
    if not all(group and team for group, team in found):
        raise ValueError("be pairs of a group and a team, separated by commas, for example sre=Payments")
    return found


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


_DOMAIN = re.compile(r"[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*", re.IGNORECASE)


def parse_mail_domain(text: str) -> str:
    if text and (len(text) > 253 or not _DOMAIN.fullmatch(text)):
        raise ValueError("be a domain in ASCII without @, for example alerts.example.org")
    return text.lower()


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


def is_private_url(url: str) -> bool:
    """Return whether nobody on the way can read or change what is sent: https, or this host itself."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_issuer(text: str) -> str:
    """Return the issuer of an OpenID provider. Who changes its description on the way signs anybody in."""
    url = build_url_parser("https", "http")(text)
    if url and not is_private_url(url):
        raise ValueError("begin with https:// and have a host; http:// is possible only for this host itself")
    return url


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


def _parse_networks(text: str, whole: str) -> tuple[str, ...]:
    """Return networks. `whole`: what an error says about a network that contains all addresses."""
    found = []
    for name in (name.strip() for name in text.split(",")):
        try:
            network = ipaddress.ip_network(name)
        except ValueError as error:
            # The library quotes the address and says what is wrong with it.
            raise ValueError(f"be networks like 10.0.0.0/8, separated by commas: {error}") from None
        if not network.prefixlen:
            raise ValueError(whole.format(network=network))
        found.append(str(network))
    return tuple(found)


def parse_optional_networks(text: str) -> tuple[str, ...]:
    whole = "name only your own proxies; with {network}, every client could choose its own address"
    return _parse_networks(text, whole) if text.strip() else ()


def parse_webhook_networks(text: str) -> tuple[str, ...]:
    whole = "name only networks with hosts that expect webhooks; with {network}, users could reach every host"
    return _parse_networks(text, whole) if text.strip() else ()


# The stages after which a new queue can begin; a test compares them with the list of the pipeline.
SPLIT_AFTER = ("normalize", "route", "rules")


def parse_stages(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if set(names) - set(SPLIT_AFTER):
        raise ValueError(f"be one or more of {', '.join(SPLIT_AFTER)}, separated by commas")
    return names
