"""What a form sent, and whether our own page sent it.

Rule of this file: every field is a stranger's. What is too much, of the wrong kind or from
elsewhere ends here with a sentence; fields nobody knows are not looked at.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from attrs import frozen
from litestar import Request

from llmao_core.config import HostRow
from llmao_web.auth.guards import TurnedAwayError, is_local
from llmao_web.people import csrf_holds
from llmao_web.shell.asking import Refusal, process_name

AnyRequest = Request[Any, Any, Any]
MOST_FIELDS = 400
MOST_ROWS = 16
LONGEST_PLACE = 500
# A model and its variant in one field; no name of a model holds a tab.
BETWEEN = "\t"
_MODEL_CHARS = 400


@frozen
class Form:
    """Fields by name, each with its values in the order sent."""

    fields: Mapping[str, tuple[str, ...]]

    def one(self, name: str) -> str:
        """Return the value of a field, "" when it is absent; a Refusal when there are several."""
        values = self.fields.get(name, ())
        if len(values) > 1:
            raise Refusal(f"The field {name} was sent {len(values)} times.")
        return values[0] if values else ""

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a field."""
        return self.fields.get(name, ())


async def read_form(request: AnyRequest) -> Form:
    """Return what was posted; raises TurnedAwayError for what is no form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise TurnedAwayError(status_code=415, detail="Send this as a form of the page.")
    return fields_of((await request.body()).decode("utf-8", "replace"))


def asked_in(request: AnyRequest) -> Form:
    """Return the fields of a query; `url` would fail for bytes that are no UTF-8."""
    return fields_of(request.scope["query_string"].decode("latin-1"))


def fields_of(text: str) -> Form:
    """Return the fields of an encoded form or query; raises TurnedAwayError for too many."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise TurnedAwayError(status_code=400, detail="This form has too many fields.") from None
    fields: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        fields[name] = (*fields.get(name, ()), value)
    return Form(fields)


def is_our_own(request: AnyRequest, form: Form, public_url: str) -> bool:
    """Tell whether a page of ours sent this form: by its token, and by where it was sent from."""
    given = form.fields.get("csrf", ())
    if len(given) != 1 or not csrf_holds(request, given[0]):
        return False
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    ours = (request.headers.get("host", ""), urlsplit(public_url).netloc)
    return origin is None or _netloc(origin) in {each.lower() for each in ours if each}


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def place_of(request: AnyRequest, form: Form) -> str:
    """Return where to go after a deed: the page it was pressed on, if that is one of ours."""
    asked = form.fields.get("back", ())
    if asked:
        return _own_place(asked[0])
    came_from = request.headers.get("referer", "")
    if _netloc(came_from) != request.headers.get("host", "").lower():
        return "/admin"
    parts = urlsplit(came_from)
    return _own_place(parts.path + (f"?{parts.query}" if parts.query else ""))


def _own_place(text: str) -> str:
    fits = is_local(text, LONGEST_PLACE) and text.isascii() and " " not in text
    return text if fits else "/admin"


def rows_of(form: Form) -> tuple[HostRow, ...]:
    """Return the rows of an approval: fields `model`, `port` and `name`, one of each per row.

    A row without a model is left out; one without a name gets one that is free.
    """
    models, ports, names = form.all("model"), form.all("port"), form.all("name")
    if len(models) > MOST_ROWS:
        raise Refusal(f"These are {len(models)} rows; {MOST_ROWS} are the most.")
    rows: list[HostRow] = []
    taken = [name.strip() for name in names if name.strip()]
    for number, chosen in enumerate(models):
        if not chosen:
            continue
        port = ports[number] if number < len(ports) else ""
        name = names[number].strip() if number < len(names) else ""
        model, _, variant = chosen[:_MODEL_CHARS].partition(BETWEEN)
        if not name:
            name = process_name(model, taken)
            taken.append(name)
        rows.append(HostRow(model, _port(port), name, variant or None))
    return tuple(rows)


def _port(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        shown = "".join(letter if letter.isprintable() else "?" for letter in text[:20])
        raise Refusal(f"`{shown}` is no port." if shown else "A row has a model and no port.")
    return int(text)
