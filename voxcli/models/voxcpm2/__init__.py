"""VoxCPM2: text and reference audio to speech by a language model over latent patches."""
