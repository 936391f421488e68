"""The forms: `POST /do-…`, each a deed of the office, then back to where it was pressed.

Rule of this file: nothing is done for who is no admin, or for a form that no page of ours sent;
both are in the action log. What came of a deed is said on the next page.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog
from litestar import Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect

from llmao_core.errors import LlmaoError
from llmao_web.auth.guards import TurnedAwayError
from llmao_web.desk import Office
from llmao_web.people import FOR_CALLERS, user_of
from llmao_web.shell.asking import Refusal

from .flash import telling
from .forms import AnyRequest, Form, is_our_own, place_of, read_form, rows_of
from .work import MOST_AT_ONCE

Deed = Callable[[Office, Form, str], Awaitable[str]]

log = structlog.get_logger("llmao.deeds")


async def _run(office: Office, form: Form, by: str) -> str:
    digests = tuple(dict.fromkeys(form.all("digest")))
    if len(digests) > MOST_AT_ONCE:
        raise Refusal(f"These are {len(digests)} actions; {MOST_AT_ONCE} at once are the most.")
    if len(digests) <= 1:
        return await office.press("".join(digests), by)
    missed = 0
    for digest in digests:
        try:
            await office.press(digest, by)
        except Refusal:
            missed += 1
    moved_on = f" {missed} had moved on: look again." if missed else ""
    return f"{len(digests) - missed} actions are released.{moved_on}"


async def _drain(office: Office, form: Form, by: str) -> str:
    if one := form.one("id"):
        return await office.drain_key(one, by)
    return await office.drain(form.one("host"), by)


async def _undrain(office: Office, form: Form, by: str) -> str:
    if one := form.one("id"):
        return await office.undrain_key(one, by)
    return await office.undrain(form.one("host"), by)


async def _label(office: Office, form: Form, by: str) -> str:
    return await office.label(form.one("host"), form.one("label"), form.one("note"), by)


DEEDS: Mapping[str, Deed] = {
    "approve": lambda office, form, by: office.approve(form.one("host"), rows_of(form), by),
    "withdraw": lambda office, form, by: office.withdraw(form.one("host"), by),
    "label": _label,
    "drain": _drain,
    "undrain": _undrain,
    "retire": lambda office, form, by: office.retire(form.one("host"), by),
    "unretire": lambda office, form, by: office.unretire(form.one("host"), by),
    "reboot": lambda office, form, by: office.reboot(form.one("host"), by),
    "cancel-reboot": lambda office, form, by: office.cancel_reboot(form.one("host"), by),
    "run": _run,
    "release": lambda office, _, by: office.release_brake(by),
    "check-config": lambda office, _, by: office.check_config(by),
    "reload": lambda office, _, by: office.reload(by),
    "confirm-reload": lambda office, form, by: office.confirm_reload(form.one("shown"), by),
    "check": lambda office, form, by: office.check_now(form.one("id"), by),
}


def deed_routes(office: Office, public_url: str) -> Iterable[HTTPRouteHandler]:
    """Return one handler for each deed. public_url: as configured, "" for none."""
    secure = public_url.startswith("https:")
    for name, deed in DEEDS.items():
        yield _route(f"/do-{name}", deed, office, public_url, secure=secure)


def _route(
    path: str, deed: Deed, office: Office, public_url: str, *, secure: bool
) -> HTTPRouteHandler:
    # Open to callers so that who is no admin is turned away here, where it is written down.
    @post(path, opt=FOR_CALLERS)
    async def do(request: AnyRequest) -> Response[None]:
        """Do what the form asks for and send the browser back."""
        user = user_of(request)
        if not user.admin:
            await _turn_away(office, user.name, f"{path}: not an admin")
            raise TurnedAwayError(status_code=403, detail="Only an admin may do this.")
        form = await read_form(request)
        if not is_our_own(request, form, public_url):
            await _turn_away(office, user.name, f"{path}: the form came from elsewhere")
            said = "The form was too old or came from elsewhere. Open the page and try again."
            raise TurnedAwayError(status_code=403, detail=said)
        try:
            tone, words = "good", await deed(office, form, user.name)
        except LlmaoError as error:
            tone, words = "bad", str(error)
            log.warning("deed refused", path=path, by=user.name, said=words)
        answer = Redirect(place_of(request, form), status_code=303)
        answer.cookies.append(telling(tone, words, secure=secure))
        answer.headers["cache-control"] = "no-store"
        return answer

    return do


async def _turn_away(office: Office, by: str, what: str) -> None:
    log.warning("turned away", what=what, by=by)
    try:
        await office.refused(by, what)
    except LlmaoError as error:
        log.warning("not in the ledger", what=what, said=str(error))
