//! Requirements of a glibc build on this machine, checked before anything is fetched.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::child;

/// Prints the packages of the tools that are not on the search path, each after a blank: of those that a build runs, of
/// the arguments, and of the headers of the C library and of the kernel. The package of a tool has its name, or the one
/// after the colon.
const LACKING: &str = r#"
packages=
for tool in dpkg-deb:dpkg tar xz:xz-utils patch make gcc as:binutils gawk bison python3 perl "$@"; do
  command -v "${tool%:*}" >/dev/null || packages="$packages ${tool#*:}"
done
case $packages in
  *' gcc'*) ;;
  *)
    printf '#include <stdio.h>\n#include <linux/version.h>\n' | gcc -fsyntax-only -x c - 2>/dev/null ||
      packages="$packages libc6-dev" ;;
esac
printf %s "$packages""#;

/// Returns an error that says what to install if a requirement is missing.
pub(crate) fn check(fetches: bool) -> Result<()> {
    let packages = lacking(Command::new("/bin/sh"), fetches.then_some("apt-get:apt"))?;
    ensure!(
        packages.is_empty(),
        "packages for a build of glibc are missing: apt-get install{packages}"
    );
    Ok(())
}

fn lacking(mut shell: Command, further: Option<&str>) -> Result<String> {
    child::succeed(shell.args(["-euc", LACKING, "sh"]).args(further))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_absent_is_told_by_the_name_of_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let tools = "dpkg-deb tar patch make gcc as bison python3 perl";
        let lacking = |further| {
            let mut shell = Command::new("/bin/sh");
            shell.env("PATH", folder.path());
            lacking(shell, further).unwrap()
        };
        for tool in tools.split(' ') {
            fs::write(folder.path().join(tool), "#!/bin/sh\n").unwrap();
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.path().join(tool), mode).unwrap();
        }
        assert_eq!(lacking(None), " xz-utils gawk");
        assert_eq!(lacking(Some("apt-get:apt")), " xz-utils gawk apt");
        fs::write(folder.path().join("gcc"), "#!/bin/sh\nexit 1\n").unwrap();
        assert_eq!(lacking(None), " xz-utils gawk libc6-dev");
    }
}
