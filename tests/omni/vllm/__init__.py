"""A stand-in for the package vllm 0.26."""
