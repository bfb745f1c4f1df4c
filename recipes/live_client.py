"""Speaks what comes from a pipe while it is still being written, by a server's WebSocket.

    voxcli serve --background
    ollama run llama3.2 "Tell me a story." | python recipes/live_client.py
    ollama run llama3.2 "Tell me a story." | python recipes/live_client.py story.wav

Without a file it plays, which needs sounddevice. `--url` names another server. Who is interrupted
sends `response.cancel`, empties the player and goes on with `input.text` (docs/server.md).
"""

import argparse
import asyncio
import codecs
import json
import os
import sys
import wave

from websockets.asyncio.client import connect

KEY = os.environ.get("VOXCLI_API_KEY", "")


async def write(socket):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := await asyncio.to_thread(os.read, 0, 4096):
        await socket.send(json.dumps({"type": "input.text", "text": decoder.decode(piece)}))
    await socket.send(json.dumps({"type": "session.close"}))  # once all was spoken


def open_sound(rate, path=None):
    if path:
        sound = wave.open(path, "wb")  # noqa: SIM115 (closed by the caller)
        sound.setparams((1, 2, rate, 0, "NONE", ""))
        return sound, sound.writeframes
    import sounddevice

    sound = sounddevice.RawOutputStream(rate, channels=1, dtype="int16")
    return sound, sound.write


async def main(path, url):
    headers = {"Authorization": f"Bearer {KEY}"} if KEY else None
    address = f"{url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
    async with connect(address, additional_headers=headers) as socket:
        await socket.send(json.dumps({"type": "session.config", "response_format": "pcm"}))
        created = json.loads(await socket.recv())
        sound, play = open_sound(created["sample_rate"], path)
        writing = asyncio.create_task(write(socket))
        with sound:
            async for message in socket:
                if isinstance(message, bytes):
                    await asyncio.to_thread(play, message)
                else:
                    print(message, file=sys.stderr)  # what is said when, and what went wrong
        await writing


parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("path", nargs="?", help="a WAV file")
parser.add_argument("--url", default="http://127.0.0.1:8091", help="of the server")
options = parser.parse_args()
try:
    asyncio.run(main(options.path, options.url))
except OSError as err:
    parser.error(f"no server answers at {options.url}, or the file cannot be written: {err}")
