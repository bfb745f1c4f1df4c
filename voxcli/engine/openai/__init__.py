"""Speech servers that speak as OpenAI's does: vLLM-Omni and others."""
