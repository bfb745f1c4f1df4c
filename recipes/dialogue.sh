#!/bin/sh
# Speaks a dialogue of three bundled voices into one file, with subtitles that name who speaks.
#
#     recipes/dialogue.sh [SCRIPT.txt CAST.csv]
#
# Without arguments it writes out/dialogue.txt and out/cast.csv, unless they are there. Needs the extra
# dub. Expected: out/dialogue.wav, in which emma, george and mia speak in turn and nobody says a name,
# out/dialogue.vtt, and out/dialogue/ with a file for each line. Give a speaker another voice in
# out/cast.csv and run it again: only the lines of that speaker are spoken again.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac
[ $# -gt 0 ] || cd "$(dirname "$0")/.."
mkdir -p out
script=${1:-out/dialogue.txt} cast=${2:-out/cast.csv}
if [ $# -eq 0 ] && [ ! -e "$cast" ]; then
    cat > "$script" << 'END'
Emma: The lighthouse has been dark since Tuesday.
George: Then who lit the lamp last night?
Mia: Nobody did. I walked up all 84 steps, and the room was empty.
George: Empty, with a warm lamp?
Emma: Warm, and beside it a cup of tea.
END
    cat > "$cast" << 'END'
speaker,voice
Emma,emma
George,george
Mia,mia
END
fi
voxcli batch "$script" -o out/dialogue --name '{index:02d}_{speaker}' --cast "$cast" --seed 1 \
    --mix out/dialogue.wav --subtitles out/dialogue.vtt
