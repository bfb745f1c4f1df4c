"""Qwen3-TTS (12 Hz) in voxcli's own code: preset voices, design by words, cloning."""
