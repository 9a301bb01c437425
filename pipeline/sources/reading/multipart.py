"""Read the fields of a form that is sent in parts (RFC 7578, multipart/form-data).

The parser of the standard library reads parts in parts, which can take very long, and some headers stop it.
"""

from pipeline.sources.reading.body import BadBody, RequestBody

TYPE = "multipart/form-data"
# A form with more parts is not from a monitoring tool.
MAX_PARTS = 100
# For the headers of a part, in bytes.
MAX_HEADERS = 4 * 1024
END = b"--"


def read_parts(body: RequestBody) -> dict[str, str] | None:
    """Return the fields of a form by name, each with its first value; None: the sender names another type.

    Files are left out. Raises BadBody.
    """
    header = body.headers.get("content-type", "")
    if header.partition(";")[0].strip().lower() != TYPE:
        return None
    boundary = _read_parameters(header).get("boundary", "")
    if not boundary or not boundary.isascii():
        raise BadBody("", "is a form in parts without a boundary")
    # The line end before a boundary belongs to it.
    _, *parts = (b"\r\n" + body.raw).split(b"\r\n--" + boundary.encode(), MAX_PARTS + 2)
    if len(parts) > MAX_PARTS + 1:
        raise BadBody("", f"is a form with more than {MAX_PARTS} parts")
    if not parts or not parts[-1].startswith(END):
        raise BadBody("", "is no complete form in parts")
    fields: dict[str, str] = {}
    for part in parts[:-1]:
        headers, _, content = part.partition(b"\r\n\r\n")
        name = _read_name(headers[:MAX_HEADERS])
        if name is not None:
            fields.setdefault(name, content.decode("utf-8", "replace"))
    return fields


def _read_name(headers: bytes) -> str | None:
    """Return the name of the field of a part; None: the part is a file, or has no name."""
    for line in headers.decode("utf-8", "replace").splitlines():
        if line.lower().startswith("content-disposition:"):
            found = _read_parameters(line)
            return None if "filename" in found or "filename*" in found else found.get("name")
    return None


def _read_parameters(header: str) -> dict[str, str]:
    """Return the parameters of a header by name, without quotes. Names and boundaries have no semicolon."""
    _, *texts = header.split(";")
    pairs = (text.partition("=") for text in texts)
    return {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
