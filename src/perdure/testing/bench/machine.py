"""What the figures hold for: the machine, its load, the disk. For people to compare by."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Machine:
    """Of one run. `load` is the load average of the last minute at the beginning and the end; 0 where there is none."""

    system: str
    processor: str
    cores: int
    python: str
    sqlite: str
    filesystem: str
    device: str

    @classmethod
    def here(cls, folder: Path) -> Self:
        """The machine of this process, and the disk that holds the folder."""
        filesystem, device = _disk(folder)
        return cls(
            system=f"{platform.system()} {platform.release()}",
            processor=_processor(),
            cores=os.cpu_count() or 0,
            python=platform.python_version(),
            sqlite=sqlite3.sqlite_version,
            filesystem=filesystem,
            device=device,
        )


def load() -> float:
    """How many processes wanted to run, over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _disk(folder: Path) -> tuple[str, str]:
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown", "unknown"
    best = ("", "unknown", "unknown")
    for line in mounts.read_text().splitlines():
        device, mounted, filesystem, *_ = line.split(" ")
        if folder.resolve().is_relative_to(mounted.replace("\\040", " ")) and len(mounted) >= len(best[0]):
            best = (mounted, filesystem, device)
    return best[1], best[2]
