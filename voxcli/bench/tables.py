"""The report as rows for people: for the terminal, Markdown and HTML alike."""

from __future__ import annotations

from typing import Any

from voxcli.bench.report import Report

HEADER = (
    "set", "lang", "load", "n", "failed", "TTFA p50", "TTFA p95", "RTF p50", "RTF p95",
    "speed", "audio s/s", "ms/frame", "underrun p99", "peak MB",
)  # fmt: skip
MISSING = "–"


def seconds(value: float | None) -> str:
    """Three digits with their unit: "83.1 ms", "1.39 s"."""
    if value is None:
        return MISSING
    return f"{number(1000 * value)} ms" if 0 < value < 0.9995 else f"{number(value)} s"


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def load_of(cell: dict[str, Any]) -> str:
    """Streams in flight ("4") or arrivals a second ("2.5/s")."""
    return f"{cell['rate']:g}/s" if cell["rate"] is not None else str(cell["concurrency"])


def cell_row(cell: dict[str, Any]) -> tuple[str, ...]:
    median = cell["rtf"]["p50"]
    return (
        cell["set"],
        cell["language"],
        load_of(cell),
        str(cell["n"]),
        str(cell["num_failed"]),
        seconds(cell["ttfa_s"]["p50"]),
        seconds(cell["ttfa_s"]["p95"]),
        number(median),
        number(cell["rtf"]["p95"]),
        f"{1 / median:.3g}x" if median else MISSING,
        number(cell["audio_throughput"]),
        number(cell["ms_per_frame"]["p50"]),
        seconds(cell["underrun_s"]["p99"]),
        _peak(cell.get("memory", {})),
    )


def _peak(memory: dict[str, int | None]) -> str:
    """Of the device that the model is on: the GPU's, else resident."""
    peak = memory.get("peak_gpu_allocated_bytes") or memory.get("peak_rss_bytes")
    return MISSING if peak is None else f"{peak / 1e6:,.0f}"


def rows(report: Report) -> list[tuple[str, ...]]:
    """Header and one row a cell."""
    return [HEADER, *(cell_row(cell) for cell in report["cells"])]


def facts(report: Report) -> list[tuple[str, str]]:
    """Who, where and how, as name and value."""
    who, setup, memory = report["identity"], report["setup"], report["memory"]
    captures = f", {setup['num_captures']} graphs in {seconds(setup['capture_s'])}"
    found = [
        ("model", f"{who['model']} ({who['precision']})"),
        ("engine", _engine(who)),
        ("checksum", (who.get("checksum") or MISSING)[:16]),
        ("device", f"{who['device_name']} ({who['device']}, {who['threads']} threads)"),
        ("voice", _voice(who)),
        ("driver", _driver(who)),
        ("software", _software(who)),
        ("commit", who["commit"] or MISSING),
        ("system", who["os"]),
        ("command", " ".join(who["command"])),
        ("time, seed", f"{who['time']}, {who['seed']}"),
        (
            "set-up",
            f"import {seconds(setup['import_s'])}, load {seconds(setup['load_s'])}"
            f"{captures if setup['num_captures'] else ', no graphs'}, "
            f"first request {seconds(setup['first_wall_s'])}{_encoding(setup)}",
        ),
        ("memory", _memory(memory)),
    ]
    return [(name, value) for name, value in found if value]


def _engine(who: dict[str, Any]) -> str:
    """Who spoke, where it was another process."""
    return f"{who['engine']} ({who['engine_name']})" if who.get("engine_name") else ""


def _software(who: dict[str, Any]) -> str:
    torch = f", torch {who['torch']}" if who["torch"] else ""
    return f"voxcli {who['version']}{torch}, Python {who['python']}"


def _voice(who: dict[str, Any]) -> str:
    if not who.get("voice_key") and not who.get("style"):
        return ""
    key = f", SHA-256 {who['voice_key'][:16]}" if who["voice_key"] else ""
    style = f", style '{who['style']}'" if who["style"] else ""
    return f"{who['voice'] or 'of the model'} (mode {who['mode']}){key}{style}"


def _encoding(setup: dict[str, Any]) -> str:
    if not setup.get("num_encoded"):
        return ""
    return f", {seconds(setup['encode_s'])} of it encoding the reference"


def _driver(who: dict[str, Any]) -> str:
    if not who.get("driver"):
        return ""
    power, clock = who.get("power_limit"), who.get("max_clock")
    return f"{who['driver']}, CUDA {who['cuda']}, limit {power}, {clock}"


def _memory(memory: dict[str, int | None]) -> str:
    names = {
        "peak_rss_bytes": "resident",
        "peak_gpu_allocated_bytes": "GPU allocated",
        "peak_gpu_reserved_bytes": "GPU reserved",
    }
    found = [
        f"{(memory[key] or 0) / 1e6:,.0f} MB {name}"
        for key, name in names.items()
        if memory[key] is not None
    ]
    return "peak " + ", ".join(found) if found else ""


def warnings(report: Report) -> list[str]:
    """What a reader must know before the numbers."""
    found = []
    if report["stamp"]:
        found.append(f"{report['stamp']}: speed only, no speech")
    if report["is_partial"]:
        found.append("PARTIAL: interrupted before the end")
    num_failed = sum(cell["num_failed"] for cell in report["cells"])
    if num_failed:
        first = next(run["error"] for run in report["runs"] if run["status"] == "failed")
        found.append(f"{num_failed} measured runs failed and are in no statistic, as: {first}")
    return found


def markdown(report: Report) -> str:
    """The table, what must be known first, and the facts, as Markdown."""
    header, *body = rows(report)
    lines = [f"**{warning}**\n" for warning in warnings(report)]
    lines += [_line(header), _line(["---"] * 2 + ["---:"] * (len(header) - 2))]
    lines += [_line(row) for row in body]
    lines.append("")
    lines += [f"- {name}: `{value}`" for name, value in facts(report)]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
