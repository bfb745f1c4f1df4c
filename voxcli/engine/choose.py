"""`open_engine`: the only place that decides who speaks.

| spec | engine |
|---|---|
| `auto` | a running `voxcli serve` that speaks the same, as long as it is there; else `native` |
| `native` | this package's own engine in this process |
| `vllm-omni` | vLLM-Omni in this process |
| a URL | the `voxcli serve` there, which has to fit, or another server of OpenAI's interface |
| URLs with commas between | those servers side by side, which have to speak the same |

Nothing heavy is imported before it is known who it is.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from voxcli.config import DEFAULT_MODEL, EngineConfig, UserSettings
from voxcli.engine.base import SpeechEngine, Wanted
from voxcli.errors import BusyError, ModelNotFoundError, UsageError, VoxError
from voxcli.extras import require

if TYPE_CHECKING:
    from voxcli.engine.news import NewsEngine
    from voxcli.engine.remote.client import RemoteEngine
    from voxcli.hub import ModelFiles

logger = logging.getLogger(__name__)

AUTO, NATIVE, VLLM_OMNI = "auto", "native", "vllm-omni"


@dataclass(frozen=True)
class RandomWeights:
    """A model of a true size with random weights: for speed, never for sound.

    Attributes:
        config: a config.json or its folder.
        num_frames: length of every utterance; random weights never end one.
    """

    config: Path
    num_frames: int


def why_torch(config: EngineConfig, files: ModelFiles) -> str | None:
    """Why our own engine needs torch for a model that may do without; None where it does without.

    That kernels in C are there is not looked at.
    """
    from voxcli.engine.native.host import why_torch

    return why_torch(config, files.num_bytes)


def open_engine(
    spec: str,
    config: EngineConfig,
    settings: UserSettings | None = None,
    *,
    files: ModelFiles | None = None,
    is_speaking: bool = True,
    rows_a_server: int | None = None,
    is_model_named: bool = False,
    on_note: Callable[[str], None] = lambda note: None,
) -> SpeechEngine:
    """Find who speaks, without loading a model.

    Args:
        spec: see the module.
        config: what an engine of our own is built from, and what a running one has to match.
        files: of the model, where they are found already.
        is_speaking: False where it will only encode recordings: an engine of our own then has one
            slot and captures nothing.
        rows_a_server: given to each server at a URL at once, at most; None leaves it to them.
        is_model_named: whether the user said which model, even if it is the default: a server
            elsewhere is else asked for whatever it has.
        on_note: told why a running server is not used, or not any more.

    Raises:
        UsageError: no such spec; the server at a URL serves something else.
        EngineError: nothing answers at any URL.
        ModelNotFoundError, CheckpointError: the model's files, for an engine of our own.
    """
    settings = settings or UserSettings(model=config.model)
    check_spec(spec)
    if spec == AUTO:
        engine, why_not = _connect_here(wanted_by(config, settings))
        if engine is not None:
            logger.info("engine: the running server, %s", engine.facts.name)
            from voxcli.engine.standin import StandInEngine

            own = partial(
                open_engine, NATIVE, config, settings, files=files, is_speaking=is_speaking
            )
            return StandInEngine(engine, own, on_note)
        if why_not is not None:
            on_note(f"the running server is not used: {why_not}")
    elif spec not in (NATIVE, VLLM_OMNI):
        wanted = wanted_by(config, settings)
        if config.model == DEFAULT_MODEL and not is_model_named:
            wanted = replace(wanted, model=None)
        return _open_servers(
            _urls(spec), wanted, settings.api_key, rows_a_server=rows_a_server, on_note=on_note
        )
    from voxcli.hub import resolve_model

    if files is None:
        try:
            files = resolve_model(
                config.model, offline=settings.offline, cache_dir=settings.cache_dir,
                is_hashed_beside=spec != VLLM_OMNI,
            )  # fmt: skip
        except ModelNotFoundError:
            if spec == VLLM_OMNI:  # nobody is to download gigabytes for what cannot run here
                from voxcli.engine.vllm_omni import packages

                packages.require()
            raise
    logger.info("engine: %s, model %s", spec, files.name)
    logger.debug("the model's files are in %s", files.folder)
    if spec == VLLM_OMNI:
        from voxcli.engine.vllm_omni.engine import VllmOmniEngine

        return VllmOmniEngine(files, config, on_note=on_note)
    from voxcli.engine.native.engine import NativeEngine

    if not is_speaking:
        config = replace(config, eager=True, max_slots=1)
    return NativeEngine(files, config)


def planning_spec(spec: str) -> str:
    """The spec of who plans the same in this process: nobody else is asked."""
    return spec if spec == VLLM_OMNI else NATIVE


def _connect_here(wanted: Wanted) -> tuple[RemoteEngine | None, str | None]:
    """`connect_here`, whose imports take 30 ms, where there may be a server."""
    from voxcli.engine.remote.place import Place

    if hasattr(os, "getuid") and not Place.default().has_socket:
        return None, None
    from voxcli.engine.remote.find import connect_here

    return connect_here(wanted)


def open_random_engine(weights: RandomWeights, config: EngineConfig) -> SpeechEngine:
    """An engine of our own over random weights.

    Raises:
        UsageError: the configuration cannot be used.
    """
    from voxcli.engine.native.random import RandomEngine

    return RandomEngine(weights.config, config, weights.num_frames)


def _open_servers(
    urls: list[str],
    wanted: Wanted,
    api_key: str | None,
    *,
    rows_a_server: int | None,
    on_note: Callable[[str], None],
) -> SpeechEngine:
    """The servers at URLs; one of ours, where it is the only one, is asked without a fleet."""
    from voxcli.engine.fleet.open import open_fleet
    from voxcli.engine.remote.find import OtherProgramError, connect_to

    if len(urls) == 1 and rows_a_server is None:
        try:
            with _told_scheme(urls[0]):
                return connect_to(urls[0], wanted, api_key)
        except (OtherProgramError, BusyError):
            pass
    openers = {url: partial(_open_server, url, wanted, api_key) for url in urls}
    return open_fleet(openers, rows_a_server=rows_a_server, on_note=on_note)


def _open_server(url: str, wanted: Wanted, api_key: str | None) -> NewsEngine:
    """Who answers at a URL, whichever program it is."""
    from voxcli.engine.remote.find import OtherProgramError, connect_to

    with _told_scheme(url):
        try:
            return connect_to(url, wanted, api_key, waits_when_busy=False)
        except OtherProgramError as err:
            require("a server that is not voxcli's", "httpx")
            from voxcli.engine.calls import shared_loop
            from voxcli.engine.fleet.cap import MAX
            from voxcli.engine.openai.engine import open_server

            engine = open_server(url, wanted.model, api_key, shared_loop(), max_streams=MAX)
            if engine is None:  # a voxcli server that does not speak as this one does
                raise err
            return engine


@contextmanager
def _told_scheme(url: str) -> Iterator[None]:
    """Let an error say so where the address should begin with the other of http and https."""
    from voxcli.engine.remote.find import OtherProgramError

    try:
        yield
    except (BusyError, OtherProgramError):
        raise
    except VoxError as err:
        from voxcli.engine.addresses import of_other_scheme

        if (other := of_other_scheme(url)) is not None:
            spoken = "TLS" if other.startswith("https") else "plain HTTP"
            err.hint = f"that port speaks {spoken}: give {other}"
        raise


def check_spec(spec: str) -> str:
    """Raise UsageError unless `spec` names an engine."""
    if spec in (AUTO, NATIVE, VLLM_OMNI):
        return spec
    urls = _urls(spec)
    for given in [each.strip() for each in spec.split(",") if each.strip()] or [spec]:
        url = _without_path(given)
        if not _is_url(url):
            hint = "use auto, native, vllm-omni or URLs of servers"
            if re.fullmatch(r"[\w.-]+(:\d+)(/.*)?", given, re.ASCII):
                hint = f"did you mean 'http://{given}'? {hint}"
            raise UsageError(f"--engine is '{given}'", hint=hint)
        if "@" in urlsplit(url).netloc:
            raise UsageError(
                "an address must not have a password", hint="give a key in VOXCLI_API_KEY"
            )
    if len(urls) > 1:
        _check_different(urls)
    return spec


def _check_different(urls: list[str]) -> None:
    """Refuse two names of one server."""
    from voxcli.engine.addresses import key_of

    named: dict[object, str] = {}
    for url in urls:
        before = named.setdefault(key_of(url), url)
        if before is not url:
            raise UsageError(f"--engine names a server twice: {before}, {url}", hint="name it once")


def _urls(spec: str) -> list[str]:
    """The servers that a spec names: with the address of the interface or without."""
    stripped = (_without_path(url.strip()) for url in spec.split(","))
    return [url for url in stripped if url]


def _without_path(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")


def wanted_by(config: EngineConfig, settings: UserSettings) -> Wanted:
    """What a running engine has to match."""
    return Wanted(
        config.model,
        config.device,
        config.precision,
        config.eager,
        cache_dir=None if settings.cache_dir is None else str(settings.cache_dir),
        folder=str(Path.cwd()),
        parameters=config.graphs,
    )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket or a port that is none
        return False
