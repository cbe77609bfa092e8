"""Loads the Spack recipe with as much of Spack as it uses, and runs its install phase and its test
on a stub of the binary. Spack itself is not needed."""

import importlib.util
import sys
import tempfile
import types
from pathlib import Path

here = Path(__file__).resolve().parent
seen = []


def directive(name):
    def record(*args, **kwargs):
        seen.append((name, args, kwargs))

    return record


class Prefix(str):
    def __getattr__(self, name):
        return Prefix(f"{self}/{name}")


class Executable:
    def __init__(self, path):
        self.path = path

    def __call__(self, *args, output=None, error=None):
        seen.append(("run", args, {}))
        if hasattr(output, "write"):
            output.write("completion\n")
        return "static"


def mkdirp(path):
    Path(path).mkdir(parents=True, exist_ok=True)


class CargoPackage:
    def __init__(self, prefix):
        self.prefix = Prefix(prefix)
        self.stage = types.SimpleNamespace(source_path="/stage")


package = types.ModuleType("spack.package")
for name in ("license", "version", "depends_on"):
    setattr(package, name, directive(name))
package.run_after = lambda phase: lambda function: function
package.Executable = package.which = Executable
package.mkdirp = mkdirp
package.join_path = lambda *parts: "/".join(parts)
for shell, folder in [
    ("bash", "bash-completion/completions"),
    ("zsh", "zsh/site-functions"),
    ("fish", "fish/vendor_completions.d"),
]:
    setattr(package, f"{shell}_completion_path", lambda prefix, to=folder: f"{prefix}/share/{to}")
cargo = types.ModuleType("spack_repo.builtin.build_systems.cargo")
cargo.CargoPackage = CargoPackage
sys.modules["spack"] = types.ModuleType("spack")
sys.modules["spack.package"] = package
for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[cargo.__name__] = cargo

spec = importlib.util.spec_from_file_location("recipe", here / "packages/becalm/package.py")
recipe = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(recipe)

with tempfile.TemporaryDirectory() as prefix:
    becalm = recipe.Becalm(prefix)
    becalm.install_manual_and_completions()
    assert (Path(prefix) / "share/zsh/site-functions/_becalm").read_text() == "completion\n"
    assert (Path(prefix) / "share/man/man1").is_dir()
    assert becalm.build_directory == "/stage/crates/cli"
    becalm.test_check()
checkout = Path(recipe.Becalm.git.removeprefix("file://"))
assert (checkout / "crates/cli/Cargo.toml").exists(), checkout
needs = [args[0] for name, args, _ in seen if name == "depends_on"]
manifest = (checkout / "Cargo.toml").read_text()
assert any(f'rust-version = "{need[5:-1]}"' in manifest for need in needs if need.startswith("rust@"))
assert any(name == "version" for name, _, _ in seen)
