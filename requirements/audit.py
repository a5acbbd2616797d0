"""Known vulnerabilities of the locked packages: `python requirements/audit.py`. Fails where there are any; where the
service of pip-audit cannot be reached, it says that nothing was looked at."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        files = [word for path in sorted(HERE.glob("*.txt")) for word in ("-r", str(path))]
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", *files]
        done = subprocess.run(
            [*command, "--progress-spinner", "off", "-f", "json", "-o", str(found)],
            capture_output=True,
            text=True,
        )
        packages = json.loads(found.read_text())["dependencies"] if found.exists() else []
    looked_at = [package for package in packages if "vulns" in package]
    if not looked_at:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        why = f"it knows none of {len(packages)} packages" if packages else last[:100]
        print(f"pip-audit: NOT RUN, its service cannot be reached from here ({why})")
        return 0
    hits = {
        (package["name"], package["version"], hit["id"]) for package in looked_at for hit in package["vulns"]
    }
    for name, version, id in sorted(hits):
        print(f"pip-audit: {name} {version} has {id}")
    left = (
        f", {len(packages) - len(looked_at)} unknown to its service" if len(looked_at) < len(packages) else ""
    )
    print(f"pip-audit: {len(looked_at)} packages looked at{left}; {len(hits)} known vulnerabilities")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
