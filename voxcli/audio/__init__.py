"""Samples on the host: formats, writing, resampling, time-stretch, checks of what was generated.

Imports nothing by itself, so `voxcli.audio.formats` stays cheap; knows no model and no torch.
"""
