"""Prints a CSV table to try `voxcli batch` with. A row has one to three short sentences.

python recipes/rows.py 1000 > rows.csv
"""

from __future__ import annotations

import argparse
import csv
import random
import sys

SENTENCES = (
    "The ferry leaves at noon.", "Bring a warm jacket.", "Two trains stop here every hour.",
    "Nobody came.", "My sister found three letters under the stairs.", "Mind the step, please.",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("num_rows", type=int, help="how many rows")
    options = parser.parse_args()
    numbers = random.Random(1)
    writer = csv.writer(sys.stdout)
    writer.writerow(("id", "text", "seed"))
    for number in range(1, options.num_rows + 1):
        words = " ".join(numbers.choices(SENTENCES, k=numbers.randint(1, 3)))
        writer.writerow((f"{number:05}", f"Row {number}. {words}", number))


if __name__ == "__main__":
    main()
