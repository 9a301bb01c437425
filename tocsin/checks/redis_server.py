"""Describe the Redis server of an installation. Only reads."""

import os
from dataclasses import dataclass

import redis

from runtime.redis import create_client
from runtime.redis_socket import NoServer, get_url
from runtime.settings import Settings
from tocsin.server.embedded_redis import LOCK, find_program


@dataclass(frozen=True, slots=True)
class RedisServer:
    """The server that answers, or else the one that the next start of Tocsin would run.

    `program` is its path on its host. Each text is "" if it is not known. It contains no password: the URL is
    not a part of it.
    """

    is_running: bool
    is_embedded: bool
    name: str = ""
    version: str = ""
    program: str = ""

    def __str__(self) -> str:
        whose = "embedded" if self.is_embedded else "of TOCSIN_REDIS_URL"
        what = " ".join(filter(None, (self.name, self.version))) or "a server"
        program = f" ({self.program})" if self.program else ""
        if self.is_running:
            return f"Redis ({whose}): {what}{program} runs"
        if self.is_embedded and self.program:
            return f"Redis ({whose}): none runs; Tocsin would start {self.program}"
        return f"Redis ({whose}): none answers"


def find_server(settings: Settings) -> RedisServer:
    """Ask the server of these settings who it is."""
    is_embedded = not settings.redis_url
    # Without the lock, no process has run a server here. A search for its socket could create files. Another
    # user can own the folder of a command on PostgreSQL: then there is none to see.
    if is_embedded and not os.access(settings.home / LOCK, os.F_OK):
        return _describe_next()
    client = create_client(settings.redis_url or get_url(settings.home))
    try:
        found = client.info("server")
    except redis.ResponseError:
        # It answers, but this user may not ask for it.
        return RedisServer(is_running=True, is_embedded=is_embedded)
    except (redis.RedisError, OSError):
        return _describe_next() if is_embedded else RedisServer(is_running=False, is_embedded=False)
    finally:
        client.close()
    name = str(found.get("server_name", "redis"))
    version = found.get(f"{name}_version") or found.get("redis_version", "")
    return RedisServer(
        is_running=True,
        is_embedded=is_embedded,
        name=name,
        version=str(version),
        program=str(found.get("executable", "")),
    )


def _describe_next() -> RedisServer:
    try:
        return RedisServer(is_running=False, is_embedded=True, program=find_program())
    except NoServer:
        return RedisServer(is_running=False, is_embedded=True)
