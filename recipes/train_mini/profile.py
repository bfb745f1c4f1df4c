"""Where a codec step spends a card's time: `python -m recipes.train_mini.profile SETTINGS.toml`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from recipes.train_mini import settings
from recipes.train_mini.codec_training import Trainer
from recipes.train_mini.depthwise import depthwise, plain_depthwise

REPEATS = 5


def milliseconds(function: Callable[[], object]) -> float:
    """Of one call, after one that is not counted."""
    function()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(REPEATS):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / REPEATS * 1e3


def main() -> None:
    codec = settings.load(Path(sys.argv[1])).codec
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(codec, torch.device("cuda"))
    length = (codec.context_frames + codec.frames) * trainer.vae.hop
    samples = torch.randn(codec.batch, 1, length, device="cuda") * 0.1
    latents = trainer.encode(samples)[0].detach()
    seen = samples[..., codec.context_frames * trainer.vae.hop :]

    def judged() -> None:
        with trainer._autocast():
            features = trainer.judges(torch.cat((seen, seen)))
        torch.stack([member[-1].float().square().mean() for member in features]).sum().backward()

    def convolved(function: Callable[..., torch.Tensor]) -> Callable[[], object]:
        unit = trainer.vae.decoder.model[-4].block[-1].block[1]
        x = torch.randn(codec.batch, unit.in_channels, length, device="cuda", requires_grad=True)
        weights = unit.weight, unit.bias, unit.dilation[0]
        return lambda: function(x, *weights).square().mean().backward()

    parts: dict[str, Callable[[], object]] = {
        "encoder": lambda: trainer.encode(samples)[0].square().mean().backward(),
        "decoder": lambda: trainer.vae.decoder(latents).square().mean().backward(),
        "one depthwise convolution": convolved(depthwise),
        "one depthwise convolution, in torch": convolved(plain_depthwise),
        "discriminators, real and made": judged,
        "mel, forward": lambda: trainer.mel(seen, seen),
        "whole step": lambda: trainer.adversarial_step(samples),
    }
    for name, function in parts.items():
        print(f"{name}: {milliseconds(function):.1f} ms", flush=True)
    print(f"memory: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seconds:
        trainer.adversarial_step(samples)
        torch.cuda.synchronize()
    print(seconds.key_averages().table(sort_by="self_cuda_time_total", row_limit=30)[:9000])


if __name__ == "__main__":
    main()
