"""Addresses in the console of Amazon Web Services, which has a host for each partition."""

import re

_HOSTS = {
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}
_REGION = re.compile(r"[a-z0-9-]{1,40}")


def build_console_link(arn: str, region: str, service: str, fragment: str) -> str:
    """Return the address of a page of a service; "" if the region is none.

    `arn` says which partition it is: China and the government of the USA have consoles of their own.
    `fragment` is encoded already.
    """
    if not _REGION.fullmatch(region):
        return ""
    partition = arn.split(":")[1] if arn.startswith("arn:") and arn.count(":") > 1 else "aws"
    host = _HOSTS.get(partition, f"{region}.console.aws.amazon.com")
    return f"https://{host}/{service}/home?region={region}#{fragment}"
