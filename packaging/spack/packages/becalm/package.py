# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import os

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *


class Becalm(CargoPackage):
    """Starts programs without searching for their libraries: predicts every path that the dynamic
    loader tries, and answers the search from an index on an unmodified glibc."""

    # The checkout that this file is in.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))

    license("Apache-2.0 OR MIT", checked_by="becalm")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")

    sanity_check_is_file = ["bin/becalm"]

    @property
    def build_directory(self):
        return os.path.join(self.stage.source_path, "crates", "cli")

    @run_after("install")
    def install_manual_and_completions(self):
        becalm = Executable(self.prefix.bin.becalm)
        man = self.prefix.share.man.man1
        mkdirp(man)
        becalm("generate", "man", man)
        for shell, folder, name in [
            ("bash", bash_completion_path(self.prefix), "becalm"),
            ("zsh", zsh_completion_path(self.prefix), "_becalm"),
            ("fish", fish_completion_path(self.prefix), "becalm.fish"),
        ]:
            mkdirp(folder)
            with open(join_path(folder, name), "w") as file:
                becalm("generate", "completions", shell, output=file)

    def test_check(self):
        """predict a start"""
        becalm = which(self.prefix.bin.becalm)
        out = becalm("check", self.prefix.bin.becalm, output=str.split, error=str.split)
        assert "static" in out
