"""Tiny random Qwen3-TTS checkpoints in the official layout.

    python tiny.py FOLDER [NAME...]

Every value follows from checkpoint, key and index by splitmix64, so `goldens/` (what the official
package qwen-tts 0.1.1 makes of these checkpoints: fp32 on a CPU, eager attention, greedy unless
said) can be made anew in any language. Key names and shapes are in `manifest.json`, written from
the official modules. Codec ids, languages, speakers and ranges are the real ones; the text
vocabulary is a small byte BPE with ids of its own, so nothing may be known but from `config.json`.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
GOLDENS = HERE / "goldens"
LANGUAGES = {
    "chinese": 2055, "english": 2050, "german": 2053, "italian": 2070, "portuguese": 2071,
    "spanish": 2054, "japanese": 2058, "korean": 2064, "french": 2061, "russian": 2069,
}  # fmt: skip
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {
    "serena": 3066, "vivian": 3065, "uncle_fu": 3010, "ryan": 3061, "aiden": 2861,
    "ono_anna": 2873, "sohee": 2864, "eric": 2875, "dylan": 2878,
}  # fmt: skip
DIALECT_OF = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}
# the text vocabulary: 256 bytes, what makes these words, then special tokens
WORDS = ["assistant", "user", "Ġthe", "Ġof", "hello", "ing"]
SPECIALS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>",
]  # fmt: skip

# name -> kind, size, talker width; a talker wider than the predictor has a projection between them
CHECKPOINTS = {
    "cv_1b7": ("custom_voice", "1b7", 48),
    "cv_0b6": ("custom_voice", "0b6", 32),
    "vd_1b7": ("voice_design", "1b7", 48),
    "base_1b7": ("base", "1b7", 48),
    "base_0b6": ("base", "0b6", 32),
}
SPEECH_TOKENIZER = "tokenizer12"  # the same in all of them
# Row 2150 of the talker's head (the end) is a multiple of another code's, so that greedy runs stop:
# cv_1b7 in row 1 of the batch (step 3); cv_0b6 prefers the end at step 0, where it is forbidden,
# and stops at step 6; vd_1b7 stops in both runs.
END_ROW = {"cv_1b7": (145, 1.5), "cv_0b6": (1583, 2.5), "vd_1b7": (1686, 2.0)}


def byte_chars() -> list[str]:
    """GPT-2's alphabet of bytes: printable ones stand for themselves, others for U+0100 and up."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = [byte for byte in range(256) if byte not in keep]
    table = {byte: chr(byte) for byte in keep}
    table |= {byte: chr(256 + index) for index, byte in enumerate(extra)}
    return [table[byte] for byte in range(256)]


def vocabulary() -> tuple[dict[str, int], list[tuple[str, str]], dict[str, int]]:
    """Tokens, merges, special tokens."""
    tokens = {char: index for index, char in enumerate(byte_chars())}
    merges = []
    for word in WORDS:
        left = word[0]
        for right in word[1:]:
            if (left, right) not in merges:
                merges.append((left, right))
                tokens.setdefault(left + right, len(tokens))
            left += right
    return tokens, merges, {name: len(tokens) + index for index, name in enumerate(SPECIALS)}


def config(name: str) -> dict[str, Any]:
    """The root `config.json`."""
    kind, size, hidden = CHECKPOINTS[name]
    tokens, _, special = vocabulary()
    is_custom = kind == "custom_voice"
    stack = {
        "attention_bias": False, "attention_dropout": 0, "head_dim": 16, "hidden_act": "silu",
        "initializer_range": 0.02, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_code_groups": 16, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "use_cache": True,
        "sliding_window": None, "use_sliding_window": False,
    }  # fmt: skip
    predictor = {
        **stack, "model_type": "qwen3_tts_talker_code_predictor", "hidden_size": 32,
        "intermediate_size": 64, "layer_types": ["full_attention"] * 2, "max_length": 20,
        "max_position_embeddings": 65536, "max_window_layers": 28, "num_hidden_layers": 2,
        "rope_scaling": None, "tie_word_embeddings": False, "vocab_size": 2048,
    }  # fmt: skip
    rope = {"interleaved": True, "mrope_section": [4, 2, 2]}
    talker = {
        **stack, "model_type": "qwen3_tts_talker", "code_predictor_config": predictor,
        "codec_bos_id": 2149, "codec_eos_token_id": 2150, "codec_think_id": 2154,
        "codec_nothink_id": 2155, "codec_pad_id": 2148, "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": LANGUAGES | (DIALECTS if is_custom else {}),
        "spk_id": SPEAKERS if is_custom else {},
        "spk_is_dialect": {each: DIALECT_OF.get(each, False) for each in SPEAKERS if is_custom},
        "hidden_size": hidden, "intermediate_size": 2 * hidden, "max_position_embeddings": 32768,
        "num_hidden_layers": 3, "position_id_per_seconds": 13,
        "rope_scaling": {**rope, "rope_type": "default", "type": "default"},
        "text_hidden_size": 24, "text_vocab_size": max(special.values()) + 11, "vocab_size": 3072,
    }  # fmt: skip
    found = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": tokens["assistant"],
        "im_end_token_id": special["<|im_end|>"],
        "im_start_token_id": special["<|im_start|>"],
        "tts_bos_token_id": special["<tts_text_bos>"],
        "tts_eos_token_id": special["<tts_text_eod>"],
        "tts_pad_token_id": special["<tts_pad>"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": size,
        "tts_model_type": kind,
        "talker_config": talker,
        # up to 4.57.2 the official package keeps the plain split pattern on a local folder
        "transformers_version": "4.57.1",
    }
    if kind == "base":  # the official file gives the first two alone; the others are small here
        found["speaker_encoder_config"] = {
            "enc_dim": hidden, "sample_rate": 24000, "mel_dim": 128,
            "enc_channels": [16, 16, 16, 16, 48], "enc_kernel_sizes": [5, 3, 3, 3, 1],
            "enc_dilations": [1, 2, 3, 4, 1], "enc_attention_channels": 8,
            "enc_res2net_scale": 8, "enc_se_channels": 8,
        }  # fmt: skip
    return found


def speech_tokenizer_config() -> dict[str, Any]:
    """`speech_tokenizer/config.json`.

    The decoder's window is 16 frames (real: 72); the encoder's, 4, must be without effect.
    """
    decoder = {
        "attention_bias": False, "attention_dropout": 0.0, "latent_dim": 24, "codebook_dim": 16,
        "codebook_size": 2048, "decoder_dim": 32, "hidden_act": "silu", "hidden_size": 16,
        "intermediate_size": 32, "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000, "head_dim": 8, "num_attention_heads": 4,
        "num_hidden_layers": 3, "num_key_value_heads": 4, "num_quantizers": 16,
        "num_semantic_quantizers": 1, "rms_norm_eps": 1e-5, "rope_theta": 10000,
        "semantic_codebook_size": 4096, "sliding_window": 16, "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2], "vector_quantization_hidden_dimension": 16,
    }  # fmt: skip
    encoder = {
        "_frame_rate": 12.5, "attention_bias": False, "attention_dropout": 0.0,
        "audio_channels": 1, "codebook_dim": 8, "codebook_size": 2048, "compress": 2,
        "dilation_growth_rate": 2, "dtype": "float32", "head_dim": 8, "hidden_act": "gelu",
        "hidden_size": 24, "initializer_range": 0.02, "intermediate_size": 48, "kernel_size": 7,
        "last_kernel_size": 3, "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000, "norm_eps": 1e-5, "normalize": False,
        "num_attention_heads": 3, "num_filters": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 3, "num_quantizers": 20, "num_residual_layers": 1,
        "num_semantic_quantizers": 1, "pad_mode": "constant", "residual_kernel_size": 3,
        "rope_theta": 10000, "sampling_rate": 24000, "sliding_window": 4,
        "trim_right_ratio": 1.0, "upsample_groups": 24, "upsampling_ratios": [8, 6, 5, 4],
        "use_cache": False, "use_causal_conv": True, "use_conv_shortcut": False,
        "vector_quantization_hidden_dimension": 8,
    }  # fmt: skip
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"], "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": 16, "input_sample_rate": 24000,
        "output_sample_rate": 24000, "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920, "decoder_config": decoder, "encoder_config": encoder,
        "transformers_version": "4.57.1",
    }  # fmt: skip


GENERATION = {
    "do_sample": True, "repetition_penalty": 1.05, "temperature": 0.9, "top_p": 1.0, "top_k": 50,
    "subtalker_dosample": True, "subtalker_temperature": 0.9, "subtalker_top_p": 1.0,
    "subtalker_top_k": 50, "max_new_tokens": 8192,
}  # fmt: skip


def unit(name: str, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform values of mean 0 and variance 1: splitmix64, seeded by the SHA-256 of "name/key"."""
    count = math.prod(shape)
    seed = int.from_bytes(hashlib.sha256(f"{name}/{key}".encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = np.uint64(seed) + steps
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    whole = (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return whole.reshape(shape) * math.sqrt(3.0)


def value(name: str, key: str, shape: tuple[int, ...]) -> np.ndarray:
    """One tensor of a checkpoint, scaled so that signals neither vanish nor grow."""
    values, last = unit(name, key, shape), key.rsplit(".", 1)[-1]
    fan_in = math.sqrt(math.prod(shape[1:]))
    is_upsampling = ".upsample." in f".{key}" and ".0.conv." in key
    is_block = key.startswith("decoder.decoder.")
    if last == "initialized":
        values = np.ones(shape)
    elif last == "cluster_usage":
        values = 1.5 + 0.5 * values
    elif last in ("embedding_sum", "embed_sum") or ("embedding" in key and last == "weight"):
        pass
    elif last in ("alpha", "beta"):
        values = 0.3 * values
    elif last in ("scale", "gamma"):
        values = 0.5 + 0.1 * values
    elif "norm" in key and last == "weight":
        values = 1.0 + 0.1 * values
    elif last == "bias":
        values = 0.1 * values
    elif "codec_head" in key or "lm_head" in key:
        values = values * 3.0 / math.sqrt(shape[1])
    elif len(shape) == 3 and (is_upsampling or (is_block and ".block.1.conv.weight" in key)):
        values = values / math.sqrt(shape[0])  # transposed convolution [in, out, k]
    elif key == "decoder.decoder.6.conv.weight":  # about 0.2 rms at the output, a few clipped
        values = values * 0.022 / fan_in
    elif is_block and (".conv1." in key or ".conv2." in key):
        values = values * 0.5 / fan_in
    else:
        values = values / fan_in
    return values.astype(np.float32)


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Keys of a checkpoint, or of the speech tokenizer, and their shapes."""
    manifest = json.loads((HERE / "manifest.json").read_text("utf-8"))
    return {key: tuple(shape) for key, shape in manifest[name].items()}


def weights(name: str) -> dict[str, np.ndarray]:
    """All tensors of a checkpoint, or of the speech tokenizer."""
    found = {key: value(name, key, shape) for key, shape in shapes(name).items()}
    if name in END_ROW:
        row, factor = END_ROW[name]
        head = found["talker.codec_head.weight"]
        head[2150] = np.float32(factor) * head[row]
    return found


def write(root: Path | str, name: str) -> Path:
    """A checkpoint in a folder of its name."""
    folder = Path(root) / name
    codec = folder / "speech_tokenizer"
    codec.mkdir(parents=True, exist_ok=True)
    tokens, merges, special = vocabulary()
    _dump(folder / "config.json", config(name))
    _dump(folder / "generation_config.json", GENERATION)
    _dump(folder / "vocab.json", tokens)
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    _dump(folder / "tokenizer_config.json", _tokenizer_config(special))
    _dump(codec / "config.json", speech_tokenizer_config())
    save_file(weights(name), folder / "model.safetensors", metadata={"format": "pt"})
    save_file(weights(SPEECH_TOKENIZER), codec / "model.safetensors", metadata={"format": "pt"})
    return folder


def _tokenizer_config(special: dict[str, int]) -> dict[str, Any]:
    token = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {
        "add_bos_token": False, "add_prefix_space": False, "bos_token": None,
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
        "errors": "replace", "model_max_length": 131072, "clean_up_tokenization_spaces": False,
        "split_special_tokens": False, "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": {
            str(index): {"content": name, "special": True, **token}
            for name, index in special.items()
        },
        "additional_special_tokens": SPECIALS[1:],
    }  # fmt: skip


def _dump(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False), "utf-8")


def reference_wav(samples: int, seed: str = "ref") -> np.ndarray:
    """Like speech, 24 kHz: a gliding tone with harmonics, a slow envelope, a little noise."""
    time = np.arange(samples) / 24000.0
    tone = sum(np.sin(2 * np.pi * (110 * h * time + 25 * h * time**2)) / h for h in range(1, 9))
    envelope = 0.55 + 0.45 * np.sin(2 * np.pi * 3.1 * time)
    noise = 0.02 * unit(seed, "noise", (samples,))
    return (0.15 * tone * envelope + noise).astype(np.float32)


if __name__ == "__main__":
    for checkpoint in sys.argv[2:] or CHECKPOINTS:
        print(write(sys.argv[1], checkpoint))
