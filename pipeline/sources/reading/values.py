"""Read values of a body that may have any types: a wrong type counts as missing, so that no alert is lost."""

from collections.abc import Iterator, Mapping

from pipeline.sources.reading.cleaning import clean_line, clean_url

# Links and images beyond this number are left out.
MAX_LINKS = 100

Values = Mapping[str, object]


def get_text(values: Values, *names: str) -> str:
    """Return the first of these values that is a text or a number and not blank, else ""."""
    texts = (str(values[name]) for name in names if _is_scalar(values.get(name)))
    return next((text for text in texts if text.strip()), "")


def get_object(values: Values, name: str) -> Values:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def list_objects(values: Values, name: str) -> Iterator[Values]:
    """Yield the objects of a list, at most MAX_LINKS."""
    found = values.get(name)
    for item in found[:MAX_LINKS] if isinstance(found, list) else ():
        if isinstance(item, dict):
            yield item


def build_link(address: str, text: str) -> Iterator[Mapping[str, str]]:
    """Yield a link, or nothing if the address is not an http or https address."""
    url = clean_url(address)
    if url:
        yield {"link_url": url, "link_text": clean_line(text) or url}


def build_image(source: str, address: str, text: str) -> Iterator[Mapping[str, str]]:
    """Yield an image, or nothing if its source is not an http or https address."""
    image = clean_url(source)
    if image:
        yield {"image_src": image, "image_url": clean_url(address) or image, "image_text": clean_line(text)}


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
