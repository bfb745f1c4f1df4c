"""The hot engine as other commands see it: find a running `voxcli serve`, ask it, or do without.

No torch, no numpy until samples come, nothing of the extra `serve`: through a hot engine the first
sound is there before a model of one's own would have begun to load.
"""
