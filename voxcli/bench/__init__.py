"""`voxcli bench`: how fast this machine speaks, measured, reported, compared.

`session.py` drives any `SpeechEngine` and times it from outside; the rest turns its runs into
numbers, tables, files and plots. What every number means: `metrics.DEFINITIONS`,
`docs/benchmarks.md`.
"""
