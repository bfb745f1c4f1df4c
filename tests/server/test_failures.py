"""What an HTTP client is told when something fails."""

from __future__ import annotations

import pytest

from voxcli.errors import (
    AdmissionError,
    BusyError,
    EngineFaultError,
    SynthesisError,
    TextError,
    UsageError,
    VoiceNotFoundError,
    VoxError,
)
from voxcli.server.failures import explain


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            VoiceNotFoundError("no voice 'x'", hint="did you mean 'y'? see 'voxcli voices list'"),
            "no voice 'x'; did you mean 'y'? see GET /v1/audio/voices",
        ),
        (
            UsageError("--max-seconds is 3", hint="raise it or shorten the text"),
            "'max_seconds' is 3; raise it or shorten the text",
        ),
        (
            AdmissionError("it needs 900", hint="shorten the text, or lower --max-seconds"),
            "it needs 900; shorten the text, or lower 'max_seconds'",
        ),
        (
            TextError("the text is empty", hint="give words as TEXT, or '-' for stdin"),
            "the text is empty",
        ),
        (
            SynthesisError("silent", hint="try another --seed, or write to a file"),
            "silent; try another 'seed', or leave 'stream' out",
        ),
        (
            UsageError("--cfg-scale is 3", hint="give --guidance-scale, or drop --steps"),
            "--cfg-scale is 3; give 'guidance_scale', or drop 'steps'",
        ),
        (
            UsageError(
                "no graph was captured for steps 7; captured: steps 6",
                hint="use a captured one, or start again with --graphs",
            ),
            "no graph was captured for steps 7; captured: steps 6",
        ),
        (
            EngineFaultError("the engine failed", hint="start voxcli again"),
            "the engine failed; try again in 2 s",
        ),
        (
            BusyError("4 wait", hint="try again later, or start it with more --max-streams"),
            "4 wait; try again in 2 s",
        ),
        (
            UsageError("a bad name", hint="use letters, digits, '-', '_' and '.'"),
            "a bad name; use letters, digits, '-', '_' and '.'",
        ),
    ],
)
def test_hints_fit_a_client_or_are_left_out(error: VoxError, message: str) -> None:
    assert explain(error)[1]["error"]["message"] == message


@pytest.mark.parametrize(
    ("error", "param"),
    [
        (UsageError("--guidance-scale is 11", hint="give 0 to 10"), "guidance_scale"),
        (UsageError("no graph was captured for guidance_scale 2, steps 7"), "guidance_scale"),
        (UsageError("the language cannot be"), None),
        (EngineFaultError("the engine failed after steps 7"), None),
        (TextError("the text has too many steps"), "input"),
    ],
)
def test_the_parameter_is_the_one_that_the_message_names(
    error: VoxError, param: str | None
) -> None:
    assert explain(error)[1]["error"]["param"] == param
