"""vLLM-Omni in this process."""
