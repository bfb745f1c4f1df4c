"""`/v1/audio/voices`: the voices that speech can be asked in."""

from __future__ import annotations

from fastapi import APIRouter

from voxcli.server.schema import VoiceList, VoiceRow

router = APIRouter()
DEFAULT = VoiceRow(name="default")


@router.get("/v1/audio/voices")
async def list_voices() -> VoiceList:
    """The model's own voice."""
    return VoiceList(voices=[DEFAULT])
