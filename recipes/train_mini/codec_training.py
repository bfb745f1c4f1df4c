"""Step `codec`: the AudioVAE is trained, by mel distance alone, then against discriminators too.

Source of the losses: Descript Audio Codec, arXiv:2306.06546. On a card each kind of step is one
CUDA graph; without one it is the same function.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recipes.train_mini.captured import Captured, averaged, captured, capturing_stream
from recipes.train_mini.codec import AudioVae
from recipes.train_mini.judges import (
    Discriminators,
    MelDistance,
    feature_loss,
    fooling_loss,
    judged_loss,
    split_rows,
)
from recipes.train_mini.pool import SAMPLE_RATE, Pool, Samples
from recipes.train_mini.progress import Budget, Log, append_json, save
from recipes.train_mini.resample import ToEncoderRate
from recipes.train_mini.settings import Codec, Settings

LAST_RATE = 0.03  # of the learning rate, at the end
CLIP_VAE, CLIP_DISCRIMINATORS = 200.0, 50.0
NAMES = ("mel", "fooling", "features", "judged", "peak", "divergence")
HELD_ROWS = 24
STATE = "codec.pt"


class Trainer:
    """Weights, optimisers and what one step does to them.

    Args:
        settings: of the codec.
        device: where it is trained.
    """

    def __init__(self, settings: Codec, device: torch.device) -> None:
        torch.manual_seed(settings.seed)
        self.settings, self.device = settings, device
        self.vae = AudioVae(settings).to(device)
        channels = settings.period_channels, settings.spectral_channels
        self.judges = Discriminators(*channels).to(device, memory_format=torch.channels_last)
        self.mel = MelDistance(SAMPLE_RATE).to(device)
        self.to_encoder = ToEncoderRate().to(device)
        self.vae.encoder.requires_grad_(settings.is_encoder_trained)
        weights = self.vae.state_dict()
        self.average = {name: value.clone() for name, value in weights.items()}
        self._weights = list(weights.values())
        self.step = 0
        self.judges_age = 0  # steps that the discriminators have been trained
        self.new_optimisers()
        self.kl_weight = torch.zeros((), device=device)
        self.shown = torch.zeros(len(NAMES), device=device)

    def new_optimisers(self) -> None:
        self.optimisers_age = 0
        self.rates = [torch.zeros((), device=self.device) for _ in range(2)]
        groups = [p for p in self.vae.parameters() if p.requires_grad], self.judges.parameters()
        is_card = self.device.type == "cuda"
        self.optimisers = [
            torch.optim.AdamW(
                group, lr=rate, betas=(0.8, 0.99), weight_decay=1e-3, fused=is_card,
                capturable=is_card, foreach=False,
            )
            for group, rate in zip(groups, self.rates, strict=True)
        ]  # fmt: skip

    def state(self) -> dict[str, Any]:
        """Everything, to go on as if nothing had happened."""
        return {
            "vae": self.vae.state_dict(),
            "judges": self.judges.state_dict(),
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "ages": (self.step, self.judges_age, self.optimisers_age),
        }

    def load(self, state: dict[str, Any]) -> None:
        """A state, whole or packed; a packed one goes on from the averaged weights."""
        for name, value in self.average.items():
            value.copy_(state["average"][name])
        self.vae.load_state_dict(state.get("vae", self.average))
        if "judges" in state:  # a checkpoint has none
            self.judges.load_state_dict(state["judges"])
        self.step, self.judges_age, self.optimisers_age = state["ages"]
        if "optimisers" not in state:
            return
        both = zip(self.optimisers, self.rates, state["optimisers"], strict=True)
        for optimiser, rate, kept in both:
            optimiser.load_state_dict(kept)
            for group in optimiser.param_groups:
                group["lr"] = rate  # one tensor, which a graph has captured

    @property
    def is_adversarial(self) -> bool:
        """Whether discriminators take part."""
        return self.step >= self.settings.warm_steps

    def set_rates(self) -> None:
        """Learning rates and weights of the step that comes."""
        settings = self.settings
        done = self.step / settings.steps
        falling = max(0.0, (done - 1 + settings.decay_share) / max(settings.decay_share, 1e-9))
        share = LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * min(1.0, falling)))
        share *= min(1.0, (self.optimisers_age + 1) / settings.restart_steps)
        waits = self.is_adversarial and self.judges_age < settings.discriminator_start_steps
        self.rates[0].fill_(0.0 if waits else settings.learning_rate * share)
        self.rates[1].fill_(settings.discriminator_rate * share)
        rise = min(1.0, (self.step + 1) / max(1, settings.kl_warm_steps))
        self.kl_weight.fill_(settings.kl_weight * rise)

    def _autocast(self) -> torch.autocast:
        # without its cache: what is cached in a capture would be read by no later step
        is_card = self.device.type == "cuda"
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=is_card, cache_enabled=False
        )

    def encode(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        with torch.set_grad_enabled(self.settings.is_encoder_trained and torch.is_grad_enabled()):
            at_rate = self.to_encoder(samples)
            with self._autocast():
                return self.vae.encoder(at_rate)

    def made(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Samples through the codec, with noise of the posterior, and the divergence."""
        mean, log_variance = self.encode(samples)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        size = 0.25 + 0.75 * torch.rand(len(mean), 1, 1, device=mean.device)
        noisy = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() * size
        return self.vae.decoder(noisy), divergence

    def _seen(self, samples: Tensor) -> Tensor:
        """What the losses see: not the context."""
        return samples[..., self.settings.context_frames * self.vae.hop :]

    def warm_step(self, samples: Tensor) -> None:
        made, divergence = self.made(samples)
        real, made = self._seen(samples), self._seen(made)
        mel = self.mel(real, made)
        self.optimisers[0].zero_grad(set_to_none=True)
        (self.settings.mel_weight * mel + self.kl_weight * divergence).backward()
        self._move(0, self.vae, CLIP_VAE)
        zero = mel.detach() * 0
        self._show(mel, zero, zero, zero, made.abs().max(), divergence)

    def adversarial_step(self, samples: Tensor) -> None:
        made, divergence = self.made(samples)
        real, made = self._seen(samples), self._seen(made)
        rows = len(real)
        with self._autocast():
            features = self.judges(torch.cat((real, made.detach())))
            judged = judged_loss(features, rows)
        real_features, _ = split_rows(features, rows)
        self.optimisers[1].zero_grad(set_to_none=True)
        judged.backward()
        self.judges.requires_grad_(False)
        mel = self.mel(real, made)
        with self._autocast():
            made_features = self.judges(made)
            fooling = fooling_loss(made_features)
            distance = feature_loss(real_features, made_features)
        settings = self.settings
        loss = settings.mel_weight * mel + fooling + settings.feature_weight * distance
        if settings.is_encoder_trained:
            loss = loss + self.kl_weight * divergence
        self.optimisers[0].zero_grad(set_to_none=True)
        loss.backward()
        self.judges.requires_grad_(True)
        self._move(0, self.vae, CLIP_VAE)
        self._move(1, self.judges, CLIP_DISCRIMINATORS)
        self._show(mel, fooling, distance, judged, made.abs().max(), divergence)

    def _move(self, index: int, module: nn.Module, clip: float) -> None:
        torch.nn.utils.clip_grad_norm_([p for p in module.parameters() if p.grad is not None], clip)
        self.optimisers[index].step()

    def _show(self, *values: Tensor) -> None:
        self.shown.copy_(torch.stack([value.detach().float() for value in values]))

    def follow(self) -> None:
        """The average moves towards the weights; before the discriminators it is the weights."""
        share = 1 - self.settings.ema if self.is_adversarial else 1.0
        torch._foreach_lerp_(list(self.average.values()), self._weights, share)

    def held_mel(self, samples: Tensor) -> float:
        """Mel distance of the averaged weights on fixed crops, without noise."""
        with averaged(self.vae, self.average):
            made = self.vae.decoder(self.encode(samples)[0])
            distance = self.mel(self._seen(samples), self._seen(made))
        return float(distance)


def _wait_for_speech(pool: Pool, settings: Codec, budget: Budget) -> bool:
    while not budget.is_spent:
        pool.take_in()
        wanted = settings.min_pool_seconds / max(1, len(pool.seconds))
        if min(pool.seconds) >= wanted:
            return True
        time.sleep(1.0)
    return False


def run(settings: Settings, device: torch.device, budget: Budget) -> bool:
    """Train until the steps are done or the budget is spent; True when done."""
    codec, folder = settings.codec, settings.work
    log = Log("codec", folder / "logs")
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    capturing_stream(device)
    trainer = Trainer(codec, device)
    if (folder / STATE).is_file():
        trainer.load(torch.load(folder / STATE, map_location=device))
        log(f"goes on from step {trainer.step}")
    pool = Pool(folder / "speech", codec, device)
    if not _wait_for_speech(pool, codec, budget):
        log(f"too little speech to begin with: {pool.seconds} s")
        return False
    sizes = [sum(p.numel() for p in m.parameters()) / 1e6 for m in (trainer.vae, trainer.judges)]
    log(f"codec {sizes[0]:.2f} M, discriminators {sizes[1]:.2f} M, speech {pool.seconds} s")
    return _train(trainer, pool, folder, budget, log)


def _train(trainer: Trainer, pool: Pool, folder: Path, budget: Budget, log: Log) -> bool:
    codec, device = trainer.settings, trainer.device
    length = (codec.context_frames + codec.frames) * trainer.vae.hop
    held = _held_crops(folder / "speech", length, device)
    runner: Captured | None = None
    was_adversarial, reported, at = False, trainer.step, time.monotonic()
    saved = time.monotonic()
    torch.manual_seed(codec.seed + trainer.step)
    while trainer.step < codec.steps and not budget.is_spent:
        if runner is None or was_adversarial != trainer.is_adversarial:
            was_adversarial, runner = trainer.is_adversarial, None
            function = trainer.adversarial_step if was_adversarial else trainer.warm_step
            like = pool.batch(codec.batch, length, trainer.step)
            if trainer.step:
                save(trainer.state(), folder / STATE)
            runner = captured(function, [like], trainer.rates, trainer.optimisers, log, budget)
            log(f"step {trainer.step}: {function.__name__}")
            reported, at = trainer.step, time.monotonic()
        if trainer.step % 50 == 0:
            pool.take_in()
        if device.type == "cpu":
            torch.manual_seed(codec.seed + trainer.step)
        trainer.set_rates()
        assert runner is not None
        runner(pool.batch(codec.batch, length, trainer.step))
        trainer.follow()
        trainer.step += 1
        trainer.optimisers_age += 1
        trainer.judges_age += was_adversarial
        if trainer.step % codec.report_steps == 0:
            values = trainer.shown.tolist()
            pace = (trainer.step - reported) / max(1e-9, time.monotonic() - at)
            record = dict(zip(NAMES, values, strict=True)) | {"step": trainer.step}
            if not all(map(math.isfinite, values)):
                raise SystemExit(
                    f"step {trainer.step} is not finite: {record}; the last save stands"
                )
            text = " ".join(f"{name} {value:.4g}" for name, value in record.items())
            is_tenth = trainer.step % (10 * codec.report_steps) == 0
            if is_tenth and held is None:  # the teachers may still have been at it
                held = _held_crops(folder / "speech", length, device)
            if is_tenth and held is not None:
                record["held_mel"] = trainer.held_mel(held)
                text += f" held mel {record['held_mel']:.4f}"
            hours = " + ".join(f"{seconds / 3600:.1f}" for seconds in pool.seconds)
            log(f"{text} | {pace:.1f} steps/s, {hours} h")
            append_json(folder / "logs" / "codec.jsonl", record)
            reported, at = trainer.step, time.monotonic()
        if time.monotonic() - saved > codec.save_seconds:
            save(trainer.state(), folder / STATE)
            saved = time.monotonic()
    save(trainer.state(), folder / STATE)
    log(f"saved at step {trainer.step} of {codec.steps}")
    return trainer.step >= codec.steps


def _held_crops(folder: Path, length: int, device: torch.device) -> Tensor | None:
    """Fixed crops of speech that is not trained on, if there is any."""
    if not list(folder.glob("held-*.npy")):
        return None
    held = Samples(folder, "held", 600.0, device)
    held.take_in()
    generator = torch.Generator(device).manual_seed(0)
    return held.crops(HELD_ROWS, length, generator).unsqueeze(1)
