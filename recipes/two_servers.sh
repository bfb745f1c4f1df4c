#!/bin/sh
# Two servers of the bundled voice on this machine, and a batch of 1,000 rows over them.
#
#     recipes/two_servers.sh [ROWS]
#
# 1,000 rows are 80 minutes of speech, which take about ten minutes on two cores. 50 are enough to try
# it. Expected: out/two/ with a file for each row, and a report.json whose `servers` shows how many
# rows each server spoke. The servers end with the script. On several machines, start `voxcli serve`
# on each of them with --host and VOXCLI_API_KEY, and pass all URLs to the batch.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."
mkdir -p out
python recipes/rows.py "${1:-1000}" > out/two.csv
servers=
trap 'kill $servers 2> /dev/null || true' EXIT
for port in 8101 8102; do
    voxcli serve --no-socket --port "$port" --threads 1 --quiet & servers="$servers $!"
done
for port in 8101 8102; do
    until python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health')" \
        2> /dev/null; do sleep 0.5; done
done
voxcli batch out/two.csv -o out/two --engine http://127.0.0.1:8101,http://127.0.0.1:8102
