"""Which packages vLLM-Omni needs, and whether those that are installed go together.

Found from metadata alone: a wrong pair only warns when it is imported, and then fails anywhere.
Facts: METADATA of vllm-omni 0.26.0 and 0.30.0, and the pins of the vllm of the same minor version.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from voxcli.errors import EngineError

EXTRA = "voxcli[omni]"
PYTHONS = ((3, 11), (3, 13))  # first and last that vllm-omni takes
CARD = Path("/dev/nvidiactl")  # is there when the driver has a card

Release = tuple[int, int]


@dataclass(frozen=True)
class PackageSet:
    """Versions that go together, each a major and a minor one.

    Attributes:
        release: of vllm and vllm-omni.
        is_tolerated: it works, and was not tested by us.
    """

    release: Release
    torch: Release
    is_tolerated: bool = False

    @property
    def command(self) -> str:
        """What installs it."""
        version = _text(self.release)
        return (
            f"pip install 'torch=={_text(self.torch)}.*' 'vllm=={version}.*' "
            f"'vllm-omni=={version}.*' 'voxcpm>=2.0.3' ninja"
        )


SETS = (
    PackageSet((0, 26), (2, 11)),
    PackageSet((0, 30), (2, 13)),
    PackageSet((0, 28), (2, 13), is_tolerated=True),
)


@dataclass(frozen=True)
class Machine:
    """What is there.

    Attributes:
        versions: of packages, by name; those that are missing are not in it.
        has_ninja: as a program.
    """

    python: Release
    platform: str
    has_card: bool
    has_ninja: bool
    versions: dict[str, str]

    @classmethod
    def this(cls) -> Machine:
        return cls(
            sys.version_info[:2],
            sys.platform,
            CARD.exists(),
            shutil.which("ninja") is not None,
            {name: found for name in _NAMES if (found := _version(name))},
        )

    @property
    def fitting(self) -> PackageSet | None:
        """The set that goes with the torch that is installed; None where none does."""
        torch = _release(self.versions.get("torch", ""))
        found = [each for each in SETS if each.torch == torch and not each.is_tolerated]
        return found[0] if found else None

    @property
    def is_able(self) -> bool:
        """Whether it could run here, were the right packages installed."""
        return self._why_not_here() is None

    @property
    def has_omni(self) -> bool:
        """Whether somebody has begun to install it."""
        return bool({"vllm", "vllm-omni"} & set(self.versions))

    @property
    def release(self) -> Release:
        """Of the vllm-omni that is installed."""
        return _release(self.versions["vllm-omni"]) or (0, 0)

    def problem(self, *, needs_voxcpm: bool = True) -> tuple[str, str] | None:
        """Why vLLM-Omni cannot run here, and what to do; None if it can.

        Args:
            needs_voxcpm: whether the model is one whose code it takes from that package.
        """
        why = self._why_not_here()
        if why is not None:
            return why
        fitting = self.fitting
        torch = self.versions.get("torch", "none")
        if fitting is None:
            known = " or ".join(_text(each.torch) for each in SETS if not each.is_tolerated)
            return f"vLLM-Omni needs torch {known}, and {torch} is installed", SETS[0].command
        needed = ["vllm", "vllm-omni", *(["voxcpm"] if needs_voxcpm else [])]
        missing = [name for name in needed if name not in self.versions]
        if missing or not self.has_ninja:
            names = ", ".join([*missing, *([] if self.has_ninja else ["ninja"])])
            return f"vLLM-Omni is not complete: {names} is missing", fitting.command
        return self._why_no_set()

    def _why_not_here(self) -> tuple[str, str] | None:
        native = "use --engine native"
        if self.platform != "linux":
            return f"vLLM-Omni runs only on Linux, and this is {self.platform}", native
        if not PYTHONS[0] <= self.python <= PYTHONS[1]:
            last = _text(PYTHONS[1])
            here = _text(self.python)
            return f"vLLM-Omni supports Python up to {last}, and this is {here}", native
        if not self.has_card:
            return "vLLM-Omni needs an NVIDIA GPU, and none is found", native
        return None

    def _why_no_set(self) -> tuple[str, str] | None:
        vllm, omni = _release(self.versions["vllm"]), _release(self.versions["vllm-omni"])
        torch = _release(self.versions["torch"])
        fitting = self.fitting
        assert fitting is not None
        if vllm != omni:
            pair = f"vllm {self.versions['vllm']} and vllm-omni {self.versions['vllm-omni']}"
            return f"{pair} are not compatible", fitting.command
        if not any(each.release == omni and each.torch == torch for each in SETS):
            version = self.versions["vllm-omni"]
            return f"vllm-omni {version} with torch {self.versions['torch']} is not supported", (
                fitting.command
            )
        return None


_NAMES = ("torch", "vllm", "vllm-omni", "voxcpm")


def require(*, needs_voxcpm: bool = False) -> Machine:
    """The packages of this machine.

    Raises:
        EngineError: they cannot run here, or are not compatible.
    """
    machine = Machine.this()
    problem = machine.problem(needs_voxcpm=needs_voxcpm)
    if problem is not None:
        why, hint = problem
        raise EngineError(why, hint=hint)
    return machine


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _release(version: str) -> Release | None:
    try:
        major, minor = version.split("+")[0].split(".")[:2]
        return int(major), int(minor)
    except ValueError:
        return None


def _text(release: Release) -> str:
    return ".".join(map(str, release))
