"""The two encoders of recordings against the official package, fp32 on a CPU.

`goldens/encoders.safetensors` is from qwen-tts 0.1.1 on the tiny checkpoint `base_0b6`. Codes are
equal, mel and x-vector within 1e-5, stages of the encoder within 1e-4.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file
from torch import Tensor

from voxcli.errors import CheckpointError, RecordingError
from voxcli.models.qwen3_tts import encoder, speaker
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.encoder import SpeechEncoder
from voxcli.models.qwen3_tts.speaker import SpeakerEncoder
from voxcli.models.sources import CheckpointSource, ShapeSource

GOLDENS = Path(__file__).parent / "goldens" / "encoders.safetensors"
FILES = {
    "": ("model.safetensors",),
    "speech_tokenizer.": ("speech_tokenizer/model.safetensors",),
}
OTHERS = ("talker.*", "speech_tokenizer.decoder.*")  # other modules' weights
CPU = torch.device("cpu")

Encoders = tuple[SpeechEncoder, SpeakerEncoder]


@pytest.fixture(scope="module")
def goldens() -> dict[str, Tensor]:
    return load_file(GOLDENS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("qwen3_tts"), "base_0b6")


def source_of(
    folder: Path, *, unused: tuple[str, ...], dtype: torch.dtype = torch.float32
) -> CheckpointSource:
    return CheckpointSource(folder, FILES, CPU, dtype, unused=unused + OTHERS)


@pytest.fixture(scope="module")
def encoders(folder: Path) -> Encoders:
    config = Qwen3TTSConfig.load(folder)
    source = source_of(folder, unused=encoder.UNUSED + speaker.UNUSED)
    loaded = SpeechEncoder(source, config), SpeakerEncoder(source, config.speaker)
    source.finish()  # every weight is used or declared
    return loaded


def long_wav() -> Tensor:
    return torch.from_numpy(tiny.reference_wav(40 * 1920, "long"))


# ---------------------------------------------------------------- codes


@pytest.mark.parametrize("length", [1920, 1921, 5760, 10_300])
def test_codes_are_the_official_ones(
    encoders: Encoders, goldens: dict[str, Tensor], length: int
) -> None:
    codes = encoders[0](goldens["ref_wav"][:length])
    assert codes.dtype == torch.int64
    assert torch.equal(codes, goldens[f"codes_{length}"].long())


def test_attention_reaches_further_than_the_window_that_the_file_names(
    encoders: Encoders, goldens: dict[str, Tensor]
) -> None:
    assert tiny.speech_tokenizer_config()["encoder_config"]["sliding_window"] == 4
    assert torch.equal(encoders[0](long_wav()), goldens["long_codes"].long())


def test_stages_are_the_official_ones(encoders: Encoders, goldens: dict[str, Tensor]) -> None:
    speech = encoders[0]
    with torch.inference_mode():
        convolved = speech.convolve(goldens["ref_wav"])  # [N, D]
        attended = speech.attend(convolved)
        vectors = speech.downsample(attended)
    for found, name in ((convolved.T, "conv"), (attended, "transformer"), (vectors.T, "latent")):
        torch.testing.assert_close(found[None], goldens[f"enc_{name}"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("num_frames", [1, 3, 7])
def test_blocks_change_nothing(encoders: Encoders, num_frames: int) -> None:
    speech, samples = encoders[0], long_wav()[:-700]
    with torch.inference_mode():
        whole = speech.convolve(samples)
        speech.block_length, default = num_frames * 1920, speech.block_length
        try:
            in_blocks = speech.convolve(samples)
        finally:
            speech.block_length = default
    torch.testing.assert_close(in_blocks, whole, atol=1e-5, rtol=0)


def test_what_follows_changes_no_code_before(encoders: Encoders) -> None:
    samples = long_wav()
    codes = encoders[0](samples)
    for num_frames in (1, 8, 39):
        assert torch.equal(encoders[0](samples[: num_frames * 1920]), codes[:num_frames])


def test_a_recording_without_samples_has_no_codes(encoders: Encoders) -> None:
    with pytest.raises(RecordingError, match="no samples"):
        encoders[0](torch.zeros(0))
    assert encoders[0](torch.zeros(1)).shape == (1, 16)


# ---------------------------------------------------------------- x-vector


def test_mel_is_the_official_one(encoders: Encoders, goldens: dict[str, Tensor]) -> None:
    mel = encoders[1].log_mel(goldens["ref_wav"])
    torch.testing.assert_close(mel.T[None], goldens["mel"], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("length", "name"), [(10_300, "xvector"), (1280, "xvector_1280")])
def test_x_vector_is_the_official_one(
    encoders: Encoders, goldens: dict[str, Tensor], length: int, name: str
) -> None:
    vector = encoders[1](goldens["ref_wav"][:length])
    torch.testing.assert_close(vector, goldens[name], atol=1e-5, rtol=0)


@pytest.mark.parametrize("length", [0, 1, 400, 1279])
def test_a_recording_too_short_for_a_voice_is_refused(encoders: Encoders, length: int) -> None:
    assert encoders[1].min_samples == 1280
    message = rf"has {length} samples at 24000 Hz.* 1280 \(53 ms\) or more"
    with pytest.raises(RecordingError, match=message):
        encoders[1](torch.zeros(length))


def test_x_vector_is_fp32_whatever_the_weights(
    encoders: Encoders, folder: Path, goldens: dict[str, Tensor]
) -> None:
    config = Qwen3TTSConfig.load(folder)
    coarse = SpeakerEncoder(source_of(folder, unused=(), dtype=torch.bfloat16), config.speaker)
    vector = coarse(goldens["ref_wav"])
    assert vector.dtype == torch.float32
    assert torch.cosine_similarity(vector, goldens["xvector"], dim=0) > 0.999


# ---------------------------------------------------------------- weights


def test_undeclared_weights_are_an_error(folder: Path) -> None:
    source = source_of(folder, unused=speaker.UNUSED)
    config = Qwen3TTSConfig.load(folder)
    SpeechEncoder(source, config), SpeakerEncoder(source, config.speaker)
    with pytest.raises(
        CheckpointError, match=r"were not used: speech_tokenizer\.encoder\.quantizer"
    ):
        source.finish()


def test_sizes_are_known_without_weights(folder: Path) -> None:
    config = Qwen3TTSConfig.load(folder)
    speech = SpeechEncoder(ShapeSource(torch.float32), config)
    voice = SpeakerEncoder(ShapeSource(torch.float32), config.speaker)
    assert speech(torch.empty(5000, device="meta")).shape == (3, 16)
    assert voice(torch.empty(5000, device="meta")).shape == (config.talker.hidden_size,)
