"""Packages that a plain install leaves out: which extra brings one, and what to type for it.

Which extra has which package is read from the metadata of the installed voxcli. Imports none of the
packages.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from voxcli.errors import MissingPackageError

NOT_FOR_USERS = ("dev", "eval")  # extras for work on voxcli itself
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")


def require(what: str, *modules: str) -> None:
    """Raise MissingPackageError unless all modules can be imported.

    Args:
        what: what needs them, as the subject of a sentence: "'--mix'".
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing(module, what)


def missing(module: str, what: str = "this") -> MissingPackageError:
    """The error for a module that cannot be imported.

    Args:
        module: its name; its package has the same name but for dashes.
        what: as in `require`.
    """
    package = module.partition(".")[0].replace("_", "-")
    extra = _extra_with(package)
    return MissingPackageError(
        f"{what} needs the Python package {package}, which is not installed",
        hint=f"run: {install_command(package if extra is None else f'voxcli[{extra}]')}",
    )


def install_command(requirement: str) -> str:
    """What installs a requirement where this voxcli is, whichever tool installed it."""
    import shlex

    return f"{shlex.join(_installer(Path(sys.prefix)))} '{requirement}'"


def _installer(prefix: Path) -> list[str]:
    """The words before a requirement, for the environment of this process, in `prefix`."""
    if (prefix / "pipx_metadata.json").is_file():
        return ["pipx", "runpip", prefix.name, "install"]
    if (prefix / "uv-receipt.toml").is_file():
        return ["uv", "pip", "install", "--python", str(prefix)]
    if sys.prefix == sys.base_prefix:
        return ["pip", "install"]
    return [str(_shortest(Path(sys.executable))), "-m", "pip", "install"]


def _shortest(path: Path) -> Path:
    """Relative to the present folder where it lies below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _extra_with(package: str) -> str | None:
    """The extra of voxcli that brings a package; None where none does."""
    from importlib import metadata  # brings a dozen modules, for an error alone

    try:
        requirements = metadata.requires("voxcli") or []
    except metadata.PackageNotFoundError:  # run from a folder of sources
        return None
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].replace("_", "-").lower()
        found = _EXTRA.search(requirement)
        if name == package.lower() and found and found[1] not in NOT_FOR_USERS:
            return found[1]
    return None
