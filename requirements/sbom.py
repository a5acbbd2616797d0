"""The bill of materials of the wheel, as CycloneDX JSON: `python requirements/sbom.py OUT.json`. Its parts are the
packages of `run.txt`: versions, and the hashes of the files that may be installed. The same input, the same bytes."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)")


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def packages() -> dict[str, tuple[str, list[str]]]:
    """Name → version, and the hashes of its files."""
    found: dict[str, tuple[str, list[str]]] = {}
    hashes: list[str] = []
    for line in (HERE / "run.txt").read_text().splitlines():
        if package := _PACKAGE.match(line):
            hashes = []
            found[package[1].lower()] = package[2], hashes
        elif "--hash=sha256:" in line:
            hashes.append(line.partition("sha256:")[2].strip(" \\"))
    return found


def main(out: str) -> None:
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    root, known = purl(project["name"], project["version"]), packages()
    direct = {
        re.split(r"[^A-Za-z0-9._-]", each)[0].lower().replace("_", "-") for each in project["dependencies"]
    }
    parts = [
        {
            "type": "library",
            "bom-ref": purl(name, version),
            "name": name,
            "version": version,
            "purl": purl(name, version),
            "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
        }
        for name, (version, hashes) in sorted(known.items())
    ]
    licence = [{"license": {"id": project["license"]}}]
    about = {"name": project["name"], "version": project["version"], "purl": root, "licenses": licence}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "bom-ref": root, **about}},
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": sorted(purl(name, known[name][0]) for name in direct)}],
    }
    Path(out).write_text(json.dumps(bom, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
