"""API keys: whatever a server, a proxy or a traceback with locals does, the key is in no text that anybody may read."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from urllib.parse import quote

import pytest
from aiohttp import web
from errors import raises
from strategies import tiny_release

from demur.cli import main
from demur.core.errors import DemurError, PermanentError, UsageError
from demur.models import ModelOptions, Retry, open_model
from demur.models.keys import Secret
from demur.testing import FakeEndpoint

KEY = "sk-4Q/zT+9hostile=="
QUICK = {"backoff_s": 0.001, "tries": 2}


class Echo:
    """A server that repeats the key wherever it can: in headers, bodies, addresses and names of models."""

    def __init__(self, how):
        self.how = how

    async def __aenter__(self):
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self.answer)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self.runner.addresses[0][1]}/v1#fake"

    async def __aexit__(self, *_):
        await self.runner.cleanup()

    async def answer(self, request):
        said = request.headers["Authorization"]
        key = said.partition(" ")[2]
        headers = {"X-Seen": said, "X-Request-Id": key}
        if self.how == "answer":
            message = {
                "role": "assistant",
                "content": f"your key is {key}",
                "reasoning_content": said,
            }
            return web.json_response(
                {"id": key, "choices": [{"message": message}]}, headers=headers
            )
        if self.how == "not json":
            return web.Response(text=f"<html>{said}</html>", headers=headers)
        if self.how == "escaped":
            body = json.dumps({"error": {"message": said, "code": key}}).replace("/", "\\/")
            return web.Response(status=400, text=body, headers=headers)
        if self.how == "escaped answer":  # the key stands nowhere in the bytes
            hidden = "".join(f"\\u{ord(c):04X}" for c in key)
            body = json.dumps(
                {"choices": [{"message": {"role": "assistant", "content": "your key is %"}}]}
            )
            return web.Response(
                text=body.replace("%", hidden), content_type="application/json", headers=headers
            )
        if self.how == "redirect":
            place = f"https://login.example/?token={quote(key, safe='')}&again={key}"
            return web.Response(status=302, headers={**headers, "Location": place})
        if self.how == "reset":
            response = web.StreamResponse(headers={**headers, "Content-Length": "5000"})
            await response.prepare(request)
            await response.write(said.encode())
            request.transport.abort()
            return response
        if request.path.endswith("/models"):
            return web.json_response({"data": [{"id": f"model-{key}"}]}, headers=headers)
        return web.json_response(
            {"error": {"message": said, "code": key}}, status=int(self.how), headers=headers
        )


def shown(value, depth=0):
    """The reprs of an object and of all it holds of ours, as an error reporter would show them."""
    texts = [repr(value)]
    if depth < 5:
        ours = type(value).__module__.startswith("demur.")
        inner = list(vars(value).values()) if ours and hasattr(value, "__dict__") else []
        inner += list(value) if isinstance(value, (list, tuple)) else []
        texts += [shown(one, depth + 1) for one in inner if not callable(one)]
    return "\n".join(texts)


HOWS = [
    "answer",
    "not json",
    "escaped",
    "escaped answer",
    "redirect",
    "reset",
    "400",
    "401",
    "403",
    "404",
    "413",
    "429",
    "500",
    "503",
]


@pytest.mark.heavy
@pytest.mark.parametrize("how", HOWS)
async def test_an_echoing_server_gets_the_key_into_nothing(
    ask, tmp_path, monkeypatch, caplog, capfd, how
):
    monkeypatch.setenv("DEMUR_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    texts = []
    deadline = 1.0 if how == "429" else 600.0  # only an endless 429 needs one
    async with (
        Echo(how) as text,
        open_model(
            text,
            ModelOptions(ledger=tmp_path / "l.sqlite", retry=Retry(deadline_s=deadline, **QUICK)),
        ) as model,
    ):
        for n in range(2):
            try:
                texts.append(repr(await model.complete(ask(f"q{n}"))))
            except DemurError as error:
                whole = traceback.TracebackException.from_exception(error, capture_locals=True)
                texts += [str(error), repr(error), "".join(whole.format()), shown(error)]
        texts.append(shown(model))
    texts += [caplog.text, *capfd.readouterr()]
    texts += [p.read_bytes().decode("latin-1") for p in tmp_path.iterdir()]
    everything = "\n".join(texts)
    for form in (
        KEY,
        quote(KEY, safe=""),
        KEY.replace("/", "\\/"),
        base64.b64encode(KEY.encode()).decode(),
    ):
        assert form not in everything
    if how in ("answer", "escaped answer"):
        assert "your key is ***" in everything


@pytest.mark.parametrize(
    "where", ["http://user:{key}@127.0.0.1:9/v1#m", "http://user:{key}@127.0.0.1:9/v1"]
)
def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path, capsys, where):
    tiny_release(tmp_path / "release", 2)
    address = where.format(key="hunter2pass")
    for words in (
        ["calls", "ask", address, "hi"],
        [
            "run",
            str(tmp_path / "release"),
            "--system",
            f"model:{address}",
            "--out",
            str(tmp_path / "runs"),
        ],
        ["run", str(tmp_path / "release"), "--system", f"model:{address}", "--plan"],
    ):
        assert main(words) == 2
        said = "".join(capsys.readouterr())
        assert "hunter2pass" not in said
        assert "DEMUR_API_KEY" in said or "http://" in said
    assert not (tmp_path / "runs").exists()


async def test_a_proxys_password_is_in_no_traceback(ask, monkeypatch, caplog):
    monkeypatch.setenv("http_proxy", "http://carol:hunter2pass@127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DEMUR_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    async with open_model("http://model.example/v1#m", ModelOptions(retry=Retry(**QUICK))) as model:
        with pytest.raises(DemurError) as caught:
            await model.complete(ask("q", model="m"))
        whole = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        everything = "".join(whole.format()) + caplog.text + shown(model)
    for form in ("hunter2pass", base64.b64encode(b"carol:hunter2pass").decode(), KEY):
        assert form not in everything


def test_what_is_no_secret_is_not_blotted_out_of_answers():
    """Servers without keys are often given a word as one; an answer with that word in it must stay whole."""
    assert Secret("EMPTY").scrub("an EMPTY room") == "an EMPTY room"
    assert Secret("x").scrub("x-ray") == "x-ray"
    assert Secret("sk-12345678").scrub("it is sk-12345678!") == "it is ***!"
    assert repr([Secret("sk-12345678")]) == "[***]"


@pytest.mark.parametrize(
    "echoed",
    [
        "sk-4Q/zT+9hostile==",
        "sk-4Q\\/zT+9hostile==",
        "\\u0073k-4Q\\u002fzT\\u002B9hostile==",
        "sk-4Q\\\\u002fzT+9hostile==",  # in a JSON text that a JSON text holds
        "sk-4Q%2fzT%2B9hostile%3D%3D",
        "%73k-4Q\\/zT+9hostile\\u003d%3d",
        base64.b64encode(KEY.encode()).decode().replace("c", "\\u0063"),
    ],
)
def test_a_key_in_any_escape_does_not_come_back_when_it_is_decoded(echoed):
    assert "hostile" not in Secret(KEY).scrub(f"a {echoed} b")
    assert Secret(KEY).scrub(f"a {echoed} b").replace("=", "") == "a *** b"


def test_a_key_with_a_line_break_is_refused_without_showing_it(monkeypatch):
    from demur.models import run_sync

    monkeypatch.setenv("DEMUR_API_KEY", "sk-hidden\nX-Evil: 1")

    async def work():
        async with open_model("http://127.0.0.1:9/v1#m"):
            pass

    with raises(UsageError, "DEMUR_API_KEY") as caught:
        run_sync(work())
    whole = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "sk-hidden" not in "".join(whole.format())


async def test_a_key_is_sent_and_shown_nowhere(ask, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("DEMUR_API_KEY_127_0_0_1", KEY)
    async with FakeEndpoint(key=KEY, reply=lambda _: f"your key is {KEY}") as server:
        async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
            reply = await model.complete(ask("q"))
            assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
            assert reply.text == "your key is ***"
            shown = [
                repr(model),
                repr(vars(model)),
                repr(vars(model._fleet.slots[0].backend)),
                reply.model_dump_json(),
            ]
        monkeypatch.setenv("DEMUR_API_KEY_127_0_0_1", KEY + "-wrong")
        async with open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model:
            with pytest.raises(
                PermanentError, match="DEMUR_API_KEY_127_0_0_1"
            ) as caught:  # the server echoes it
                await model.complete(ask("other"))
            shown.append(
                "".join(
                    traceback.TracebackException.from_exception(
                        caught.value, capture_locals=True
                    ).format()
                )
            )
    shown.append(caplog.text)
    shown += [p.read_bytes().decode("latin-1") for p in tmp_path.iterdir()]
    assert not [line for text in shown for line in text.splitlines() if KEY in line]
