"""The title of an alert of Prometheus or Grafana whose rule has no summary."""

# The labels that name the host.
HOST = ("instance", "host", "hostname", "node", "nodename")


def build_title(name: str, description: str, host: str) -> str:
    """Return the name of a rule with the first line of its description, and the host if neither has it.

    "" if all of them are empty. The name of a host may have a port, which texts leave out.
    """
    first, _, _ = description.strip().partition("\n")
    title = f"{name}: {first}" if name and first else name or first
    is_named = host.partition(":")[0] in title
    return title if is_named else f"{title} ({host})".strip()
