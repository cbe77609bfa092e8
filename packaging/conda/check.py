"""Reads the conda recipe, compares its version with Cargo.toml, has bash parse its script and
rattler-build's own library (scripts/setup installs it) render it."""

import re
import subprocess
import sys
from pathlib import Path

try:
    import yaml
except ImportError:
    sys.exit("conda/check.py needs Python's yaml (Debian: python3-yaml)")

here = Path(__file__).resolve().parent
recipe = yaml.safe_load((here / "recipe.yaml").read_text())
checkout = (here / recipe["source"]["path"]).resolve()
version = re.search(r'^version = "(.+)"$', (checkout / "Cargo.toml").read_text(), re.M).group(1)
assert recipe["context"]["version"] == version, "the version is not Cargo.toml's"
known = {"schema_version", "context", "package", "source", "build", "requirements", "tests", "about"}
assert set(recipe) <= known, set(recipe) - known
script = recipe["build"]["script"]["content"]
assert all(isinstance(line, str) for line in script), "a line of the script is no string"
subprocess.run(["bash", "-n"], input="\n".join(script), text=True, check=True)
for line in script:
    for source in re.findall(r"(?<=\s)(?:integrations|crates)/\S+", line):
        assert (checkout / source).exists(), source
for name in recipe["about"]["license_file"]:
    assert (checkout / name).exists(), name

python = checkout / "target/tools/bin/python"
render = """
import sys, rattler_build
recipe = rattler_build.Stage0Recipe.from_file(sys.argv[1])
(variant,) = recipe.render(rattler_build.VariantConfig())
assert (variant.recipe.package.name, str(variant.recipe.package.version)) == ("becalm", sys.argv[2])
"""
if not python.exists():
    sys.exit("conda/check.py needs rattler-build's library (scripts/setup)")
subprocess.run([python, "-c", render, here / "recipe.yaml", version], check=True)
