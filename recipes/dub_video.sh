#!/bin/sh
# Dubs a video from subtitles: the new voice sounds over the old sound, which is lower under speech.
#
#     recipes/dub_video.sh [VIDEO.mp4 CUES.srt OUT.mp4]
#
# The script needs ffmpeg. Without arguments it makes a test picture with a tone as sound, and dubs it
# with samples/dubbing.srt. Expected: out/dubbed.mp4 with the same length and picture, speech at the
# times of the cues, and the tone 12 dB lower under speech; and out/dubbed.srt with the spoken text.
# To replace the old sound instead, remove --bed from the script.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac
[ $# -gt 0 ] || cd "$(dirname "$0")/.."
video=${1:-out/test.mp4} cues=${2:-samples/dubbing.srt} dubbed=${3:-out/dubbed.mp4}
name=${dubbed%.*}
mkdir -p "$(dirname "$dubbed")"

if [ $# -eq 0 ] && [ ! -e "$video" ]; then
    ffmpeg -loglevel error -f lavfi -i testsrc=duration=24:size=320x180:rate=10 \
        -f lavfi -i sine=frequency=220:duration=24 -c:v mpeg4 -c:a aac -shortest "$video"
fi
voxcli batch "$cues" -o "$name-lines" --fit --max-speed 1.4 --seed 1 \
    --mix "$name.wav" --bed "$video" --bed-db -6 --lufs -16 --subtitles "$name.srt"
ffmpeg -loglevel error -y -i "$video" -i "$name.wav" -map 0:v -map 1:a \
    -c:v copy -c:a aac -b:a 128k "$dubbed"
echo "$dubbed"
