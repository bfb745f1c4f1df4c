"""Step `language`: the language models and LocDiT are trained on packed latents."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from recipes.train_mini import checkpoint
from recipes.train_mini.captured import Captured, averaged, captured, capturing_stream
from recipes.train_mini.language import LanguageModel, Packed, PhoneHead, losses
from recipes.train_mini.packing import Steps, Store, on_device, packed_rows
from recipes.train_mini.progress import Budget, Log, append_json, save
from recipes.train_mini.settings import Language, Settings
from recipes.train_mini.tokens import Tokens, vocabulary

STATE = "language.pt"
CLIP = 1.0
NUM_WORKERS = 5  # that pack rows, beside a card
EMBEDDING = "base_lm.embed_tokens.weight"


@torch.no_grad()
def take_over(model: LanguageModel, folder: Path) -> list[str]:
    """Begin with a checkpoint's tensors; returns the names of those whose sizes differ.

    Rows of the embedding go by token, since a token may have had another id.

    Args:
        model: changed in place.
        folder: in the official layout.
    """
    weights, others = checkpoint.language_weights(folder), []
    for name, value in model.state_dict().items():
        if weights[name].shape != value.shape:
            others.append(name)
        elif name != EMBEDDING:
            value.copy_(weights[name])
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    theirs, embedding = tokenizer["model"]["vocab"], model.state_dict()[EMBEDDING]
    for token, number in vocabulary(len(embedding)).items():
        if EMBEDDING not in others and token in theirs:
            embedding[number] = weights[EMBEDDING][theirs[token]]
    return others


class Trainer:
    """Weights, optimiser and one step.

    Args:
        settings: of all steps.
        store: lines whose patches and phones are on the device.
        device: where it is trained.
    """

    names: tuple[str, ...] = ("diffusion", "stop", "phone", "right")  # of what a step tells

    def __init__(self, settings: Settings, store: Store, device: torch.device) -> None:
        torch.manual_seed(settings.language.seed)
        self.settings, self.store, self.device = settings.language, store, device
        self.is_card = device.type == "cuda"
        self.model = LanguageModel(settings.language, settings.codec).to(device)
        self.heads = PhoneHead(settings.language.hidden, settings.language.patch).to(device)
        parameters = list(self.trained().parameters())
        matrices = [p for p in parameters if p.ndim >= 2]
        vectors = [p for p in parameters if p.ndim < 2]
        self.learning_rate = torch.zeros((), device=device)
        self.optimiser = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": settings.language.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=self.learning_rate, betas=(0.9, 0.98), fused=self.is_card,
            capturable=self.is_card, foreach=False,
        )  # fmt: skip
        weights = self.model.state_dict()
        self.average = {name: value.clone() for name, value in weights.items()}
        self._weights = list(weights.values())
        self._all = [*matrices, *vectors]
        self._runner: Captured | None = None
        self.shown = torch.zeros(len(self.names), device=device)
        self.step = self.optimiser_age = 0
        if self.is_card:
            for module in self.model.modules():
                if type(module).__name__ == "Layer":
                    module.compile(dynamic=False)

    def trained(self) -> nn.Module:
        """What the optimiser moves."""
        return nn.ModuleList((self.model, self.heads))

    def losses(self, packed: Packed) -> dict[str, Tensor]:
        """Scalars under `names`."""
        return losses(self.model, self.heads, packed)

    def total(self, made: Mapping[str, Tensor]) -> Tensor:
        """What a step makes smaller."""
        settings = self.settings
        others = settings.stop_weight * made["stop"] + settings.phone_weight * made["phone"]
        return made["diffusion"] + others

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "heads": self.heads.state_dict(),
            "average": self.average,
            "optimiser": self.optimiser.state_dict(),
            "ages": (self.step, self.optimiser_age),
        }

    def load(self, state: dict[str, Any]) -> None:
        """A state, whole or packed."""
        for name, value in self.average.items():
            value.copy_(state["average"][name])
        self.model.load_state_dict(state.get("model", self.average))
        self.heads.load_state_dict(state["heads"])
        self.step, self.optimiser_age = state["ages"]
        if "optimiser" in state:
            self.optimiser.load_state_dict(state["optimiser"])
            for group in self.optimiser.param_groups:
                group["lr"] = self.learning_rate  # one tensor, which a graph has captured

    def rate(self, least_done: float) -> float:
        """Of the step that comes, where at least so much of the course counts as done."""
        settings = self.settings
        done = min(1.0, max(least_done, self.step / settings.steps))
        fallen = 0.5 * (1 + math.cos(math.pi * done))
        rate = settings.last_rate + (settings.learning_rate - settings.last_rate) * fallen
        return rate * min(1.0, (self.optimiser_age + 1) / settings.warm_steps)

    def _step(self, *item: Tensor) -> None:
        # without its cache: what is cached in a capture would be read by no later step
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.is_card, cache_enabled=False
        ):
            made = self.losses(packed_rows(self.store, item))
        self.optimiser.zero_grad(set_to_none=True)
        self.total(made).backward()
        torch.nn.utils.clip_grad_norm_(self._all, CLIP)
        self.optimiser.step()
        self.shown.copy_(torch.stack([made[name].detach().float() for name in self.names]))

    def held_loss(self, rows: Packed) -> float:
        """Diffusion loss of the averaged weights on fixed rows, with the same noise each time."""
        with (
            averaged(self.model, self.average),
            torch.random.fork_rng([self.device] if self.is_card else []),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_card),
        ):
            torch.manual_seed(0)
            return float(losses(self.model, self.heads, rows)["diffusion"])

    def capture(self, like: Sequence[Tensor], log: Log, budget: Budget) -> None:
        """Make the step a graph over inputs like these."""
        rates, optimisers = [self.learning_rate], [self.optimiser]
        self._runner = captured(self._step, like, rates, optimisers, log, budget)

    def move(self, item: Sequence[Tensor], least_done: float) -> None:
        """One step."""
        assert self._runner is not None
        self.learning_rate.fill_(self.rate(least_done))
        if not self.is_card:
            torch.manual_seed(self.settings.seed + self.step)
        self._runner(*item)
        self.step += 1
        self.optimiser_age += 1
        share = 1 - min(self.settings.ema, (1 + self.step) / (20 + self.step))
        torch._foreach_lerp_(list(self.average.values()), self._weights, share)


def open_store(settings: Settings, step: str, device: torch.device) -> tuple[Log, Store]:
    """A training step's log and all lines, on the host; work goes to a stream of its own."""
    log = Log(step, settings.work / "logs")
    capturing_stream(device)
    store = Store.read(settings.work / "latents", Tokens(settings.language.vocabulary))
    if store is None:
        raise SystemExit(f"no latents in {settings.work / 'latents'}; run the step latents first")
    seconds = len(store.patches) * settings.language.patch * hop_length(settings) / 24_000
    log(f"{len(store.tokens):,} lines, {seconds / 3600:.2f} h")
    return log, store


def run(settings: Settings, device: torch.device, budget: Budget) -> bool:
    """Train until the steps are done or the budget is spent; True when done."""
    language, folder = settings.language, settings.work
    log, store = open_store(settings, "language", device)
    held = _held_rows(folder / "latents", Tokens(language.vocabulary), language, device)
    trainer = Trainer(settings, store.to(device), device)
    if language.start_from and not (folder / STATE).is_file():
        others = take_over(trainer.model, settings.path(language.start_from))
        log(f"begins with {language.start_from}; anew: {', '.join(others) or 'nothing'}")
    return go_on(trainer, store, folder / STATE, log, budget, held)


def go_on(
    trainer: Trainer, store: Store, path: Path, log: Log, budget: Budget, held: Packed | None = None
) -> bool:
    """Train from the state in a file, if it is there, and keep it there; True when all is done.

    Args:
        store: all lines, on the host.
        held: rows that are not trained on.
    """
    settings, device, steps = trainer.settings, trainer.device, Steps(store, trainer.settings)
    if path.is_file():
        trainer.load(torch.load(path, map_location=device))
        log(f"goes on from step {trainer.step}")
    size = sum(p.numel() for p in trainer.trained().parameters()) / 1e6
    log(f"{size:.2f} M parameters are trained")
    loader = DataLoader(
        steps, batch_size=None, sampler=range(trainer.step, settings.steps),
        num_workers=NUM_WORKERS if device.type == "cuda" else 0,
    )  # fmt: skip
    begun = trainer.step / settings.steps
    if begun < 1:
        trainer.capture(on_device(steps[trainer.step], device), log, budget)
    saved = at = time.monotonic()
    reported = trainer.step
    for arrays in loader:
        is_timed = settings.ends_with_seconds
        least_done = begun + (1 - begun) * budget.share if is_timed else 0.0
        trainer.move(on_device(arrays, device), least_done)
        if trainer.step % settings.report_steps == 0:
            record = dict(zip(trainer.names, trainer.shown.tolist(), strict=True))
            pace = (trainer.step - reported) / max(1e-9, time.monotonic() - at)
            if not all(map(math.isfinite, record.values())):
                raise SystemExit(f"step {trainer.step} is not finite: {record}")
            text = " ".join(f"{name} {value:.4g}" for name, value in record.items())
            if held is not None and trainer.step % (10 * settings.report_steps) == 0:
                record["held"] = trainer.held_loss(held)
                text += f" held diffusion {record['held']:.4f}"
            log(f"step {trainer.step} {text} | {pace:.1f} steps/s")
            append_json(log.path.with_suffix(".jsonl"), record | {"step": trainer.step})
            reported, at = trainer.step, time.monotonic()
        if time.monotonic() - saved > settings.save_seconds:
            save(trainer.state(), path)
            saved = time.monotonic()
        if budget.is_spent:
            break
    save(trainer.state(), path)
    log(f"saved at step {trainer.step} of {settings.steps}")
    return trainer.step >= settings.steps


def _held_rows(
    folder: Path, tokens: Tokens, settings: Language, device: torch.device
) -> Packed | None:
    """Fixed rows of speech that is not trained on, if there is any."""
    store = Store.read(folder, tokens, is_held=True)
    if store is None:
        return None
    item = on_device(Steps(store, settings)[0], device)
    return packed_rows(store.to(device), item)


def hop_length(settings: Settings) -> int:
    """Samples a latent."""
    return math.prod(settings.codec.decoder_rates)
