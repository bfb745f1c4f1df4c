"""Web pages of other origins: none by default, those that were allowed as browsers ask for them."""

from __future__ import annotations

import httpx
import pytest
from running import run_server

from voxcli.errors import UsageError
from voxcli.server.app import SHOWN_HEADERS
from voxcli.server.limits import Listening

PAGE = "http://localhost:3000"
KEY = "a-long-secret"
BODY = {"input": "Hello there.", "response_format": "pcm"}
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    # what OpenAI's client for browsers sends
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}
ALLOW = "access-control-allow-origin"


def preflight(client: httpx.Client, origin: str) -> httpx.Response:
    return client.options("/v1/audio/speech", headers={"Origin": origin, **PREFLIGHT})


def speak(client: httpx.Client, origin: str, **headers: str) -> httpx.Response:
    return client.post("/v1/audio/speech", json=BODY, headers={"Origin": origin, **headers})


def test_no_page_elsewhere_is_let_in_by_default() -> None:
    with run_server() as running, running.client() as client:
        for answer in (preflight(client, PAGE), speak(client, PAGE)):
            assert answer.status_code == 403
            assert answer.json()["error"]["message"].endswith(f"--allow-origin {PAGE}")
            assert ALLOW not in answer.headers


def test_a_page_that_was_allowed_asks_and_speaks_and_reads_the_headers() -> None:
    with run_server(origins=(PAGE,), api_key=KEY) as running, running.client() as client:
        asked = preflight(client, PAGE)
        assert asked.status_code == 200
        assert asked.headers[ALLOW] == PAGE
        assert "authorization" in asked.headers["access-control-allow-headers"].lower()
        spoken = speak(client, PAGE, Authorization=f"Bearer {KEY}")
        assert spoken.status_code == 200
        assert spoken.headers[ALLOW] == PAGE
        shown = spoken.headers["access-control-expose-headers"].split(", ")
        assert {"X-Seed", "X-Ignored-Fields"} < {*shown} == {*SHOWN_HEADERS}
        refused = speak(client, PAGE)
        assert (refused.status_code, refused.headers[ALLOW]) == (401, PAGE)


def test_a_page_that_was_allowed_can_do_and_read_whatever_a_program_can() -> None:
    with run_server(origins=(PAGE,)) as running, running.client() as client:
        headers = {"Origin": PAGE, "Access-Control-Request-Method": "PATCH"}
        allowed = client.options("/v1/audio/voices/me", headers=headers)
        methods = {*allowed.headers["access-control-allow-methods"].split(", ")}
        described = client.get("/v1/openapi.json").json()["paths"].values()
        assert {name.upper() for path in described for name in path} <= methods
        body = {**BODY, "input": "<prosody rate='slow'>Hello.</prosody>", "user": "me"}
        spoken = client.post("/v1/audio/speech", json=body, headers={"Origin": PAGE})
        told = {name for name in spoken.headers if name.startswith("x-")}
        assert "x-not-followed" in told
        assert told <= {name.lower() for name in SHOWN_HEADERS}


@pytest.mark.parametrize(
    "origin", ["http://localhost:3001", "https://localhost:3000", "http://evil.org", "null"]
)
def test_another_page_is_turned_away_beside_one_that_was_allowed(origin: str) -> None:
    with run_server(origins=(PAGE,)) as running, running.client() as client:
        for answer in (preflight(client, origin), speak(client, origin)):
            assert answer.status_code in (400, 403)
            assert ALLOW not in answer.headers


def test_all_pages_may_be_allowed_without_credentials() -> None:
    with run_server(origins=("*",), api_key=KEY) as running, running.client() as client:
        for answer in (
            preflight(client, "https://example.org"),
            speak(client, "https://example.org", Authorization=f"Bearer {KEY}"),
        ):
            assert answer.status_code == 200
            assert answer.headers[ALLOW] == "*"
            assert "access-control-allow-credentials" not in answer.headers


def test_the_own_page_and_programs_need_no_permission() -> None:
    with run_server(origins=(PAGE,)) as running, running.client() as client:
        assert speak(client, running.url).status_code == 200
        assert client.post("/v1/audio/speech", json=BODY).status_code == 200
        rebound = client.get("/v1/models", headers={"Origin": PAGE, "Host": "evil.org"})
        assert rebound.status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        *("localhost:3000", "http://localhost:3000/", "http://LOCALHOST:3000", "null", ""),
        *("http://", "http://a:b@localhost", "https://example.org:443", "http://[::1"),
        *("*", "http://*.example.org/x", "http://*.example.org"),
    ],
)
def test_what_no_browser_would_send_is_refused_at_once(origin: str) -> None:
    with pytest.raises(UsageError, match="--allow-origin"):
        Listening(origins=(origin,))


@pytest.mark.parametrize(
    "origin", [PAGE, "https://example.org", "http://[::1]:8080", "chrome-extension://abcdef"]
)
def test_what_browsers_send_is_taken(origin: str) -> None:
    assert Listening(origins=(origin,)).origins == (origin,)
    assert Listening(origins=("*",), api_key=KEY).origins == ("*",)
