"""Lock files hold what `pyproject.toml` asks for, by hash; the bill of materials is made of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"
_PIN = re.compile(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)")
_WANTED = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)")


def pins(name: str) -> dict[str, str]:
    found = (_PIN.match(line) for line in (LOCKS / name).read_text().splitlines())
    return {pin[1]: pin[2] for pin in found if pin}


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def test_every_dependency_is_locked_in_a_version_that_fits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    run, groups = project["project"]["dependencies"], project["dependency-groups"]
    for name, wanted in {
        "run.txt": run,
        "dev.txt": [*run, *groups["dev"]],
        "release.txt": groups["release"],
    }.items():
        locked = pins(name)
        for each in wanted:
            package = _WANTED.match(each)
            assert package is not None, each
            version = locked.get(package[1].lower().replace("_", "-"))
            assert version is not None and numbers(version) >= numbers(package[2]), f"{each}: run `make lock`"
    dev = pins("dev.txt")
    assert all(dev[package] == version for package, version in pins("run.txt").items())


@pytest.mark.parametrize("name", ["run.txt", "dev.txt", "release.txt"])
def test_every_locked_file_has_a_hash_and_no_lock_names_a_server(name: str) -> None:
    text = (LOCKS / name).read_text()
    for package in re.split(r"\n(?=\S)", text.strip()):
        assert _PIN.match(package) and "--hash=sha256:" in package, package
    assert "://" not in text and "index" not in re.sub(r"--hash=\S+", "", text)


def test_the_bill_of_materials_names_what_a_user_installs(tmp_path: Path) -> None:
    out = tmp_path / "refold.cdx.json"
    subprocess.run([sys.executable, LOCKS / "sbom.py", out], check=True)
    bom = json.loads(out.read_text())
    parts = {part["name"]: part["version"] for part in bom["components"]}
    assert parts == pins("run.txt") and all(part["hashes"] for part in bom["components"])
    [root] = bom["dependencies"]
    assert set(root["dependsOn"]) <= {part["bom-ref"] for part in bom["components"]}
    before = out.read_bytes()
    subprocess.run([sys.executable, LOCKS / "sbom.py", out], check=True)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("found", "code", "says"),
    [
        (None, 0, "NOT RUN"),
        ([{"name": "a", "skip_reason": "not found"}], 0, "NOT RUN"),
        ([{"name": "a", "version": "1", "vulns": []}], 0, "1 packages looked at; 0 known"),
        ([{"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]}], 1, "a 1 has CVE-1"),
    ],
)
def test_known_vulnerabilities_fail_and_an_audit_that_was_not_made_says_so(
    found: object, code: int, says: str, tmp_path: Path
) -> None:
    """A program in the place of pip-audit: what its service says differs from day to day."""
    stand_in = "import pathlib, sys\n"
    if found is None:
        stand_in += "sys.exit('ConnectionError: no route')"
    else:
        text = json.dumps({"dependencies": found})
        stand_in += f"pathlib.Path(sys.argv[sys.argv.index('-o') + 1]).write_text({text!r})"
    (tmp_path / "pip_audit.py").write_text(stand_in)
    done = subprocess.run(
        [sys.executable, LOCKS / "audit.py"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, says in done.stdout) == (code, True), done.stdout + done.stderr
