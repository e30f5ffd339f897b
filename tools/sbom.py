"""Write the software bill of materials of a built package: what an installer puts beside it, with versions, as CycloneDX.

`python tools/sbom.py dist/jax2onnx_lax-0.1.0-py3-none-any.whl --wheels dist --output dist` writes
`jax2onnx_lax-0.1.0.cdx.json`, for the Python that runs it. The same wheel and the same installed versions give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import skew

PACKAGES = Path(__file__).parent.parent / "packages"


def write_bill(wheel: Path, wheels: Path, output: Path) -> Path:
    """Write the bill of materials of a wheel, whose first-party requirements may be among other wheels; returns its path."""
    name, version = wheel.name.split("-")[:2]
    distribution = name.replace("_", "-")
    file = output / f"{name}-{version}.cdx.json"
    with tempfile.TemporaryDirectory() as scratch:
        python = skew.environment(
            Path(scratch, "environment"), [wheels], [f"{distribution} @ {wheel.resolve().as_uri()}"]
        )
        project = PACKAGES / distribution / "pyproject.toml"
        bill = [
            "cyclonedx_py",
            "environment",
            "--pyproject",
            str(project),
            "--mc-type",
            "library",
            "--output-reproducible",
        ]
        subprocess.run([sys.executable, "-m", *bill, "-o", str(file), python], check=True)
    described = json.loads(file.read_text())
    described["metadata"]["component"]["version"] = version  # which the project's table leaves to the build
    file.write_text(json.dumps(described, indent=2))
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", nargs="+", type=Path, help="the wheels to describe")
    parser.add_argument(
        "--wheels", type=Path, required=True, help="a folder of wheels that are preferred to the registry's"
    )
    parser.add_argument("--output", type=Path, required=True, help="the folder to write to")
    options = parser.parse_args()
    for wheel in options.wheel:
        print(write_bill(wheel, options.wheels, options.output))


if __name__ == "__main__":
    main()
