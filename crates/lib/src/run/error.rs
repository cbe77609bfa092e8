//! The reasons why a program is not started with an index.

use std::io;
use std::path::Path;

use anyhow::anyhow;
use becalm_core::closure::ClosureError;
use rustix::io::Errno;

use crate::index::error::UnknownLoader;

/// Returns the error of a program whose loader is musl's.
pub(crate) fn of_musl(program: &Path) -> anyhow::Error {
    anyhow!(
        "{}: musl's loader has no audit modules, so an index has no effect; becalm fix --with \
         absolute or farm can",
        program.display()
    )
}

/// True if the same attempt may succeed later, with the same files: a full disk, a lack of
/// memory or descriptors, a device or file server that did not answer.
pub(crate) fn is_temporary(error: &anyhow::Error) -> bool {
    let of_loader = error.downcast_ref().map(|UnknownLoader { error, .. }| error as _);
    let own = error.chain().chain(of_loader.into_iter().flat_map(anyhow::Chain::new));
    own.into_iter().any(|cause| match cause.downcast_ref() {
        Some(ClosureError::Open { errno, .. }) => is_of_now(&io::Error::from_raw_os_error(errno.0)),
        _ => cause.downcast_ref().is_some_and(is_of_now),
    })
}

fn is_of_now(error: &io::Error) -> bool {
    let of_disk = [Errno::NOSPC, Errno::FBIG, Errno::DQUOT, Errno::IO, Errno::ROFS];
    let of_kernel =
        [Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::INTR, Errno::BUSY];
    let of_server =
        [Errno::STALE, Errno::TIMEDOUT, Errno::NETDOWN, Errno::NETUNREACH, Errno::HOSTDOWN];
    let all = of_disk.iter().chain(&of_kernel).chain(&of_server);
    Errno::from_io_error(error).is_some_and(|errno| all.into_iter().any(|it| *it == errno))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use becalm_host::HostError;
    use becalm_host::write::WriteError;

    use super::*;
    use crate::index::error::of_closure;

    #[test]
    fn a_full_disk_is_temporary_wherever_it_is_met_and_a_missing_file_is_not() {
        let source = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        let all = |errno: Errno| {
            let path = PathBuf::from("/x");
            let write = WriteError::Failed {
                path: path.clone(),
                what: "cannot be opened".into(),
                source: source(errno),
            };
            let errno = becalm_core::fs::Errno(errno.raw_os_error());
            let io = || io::Error::from_raw_os_error(errno.0);
            [
                anyhow::Error::from(io()).context("/x"),
                of_closure(ClosureError::Open { path: "/x".into(), errno }),
                write.into(),
                ClosureError::Open { path: "/x".into(), errno }.into(),
                UnknownLoader {
                    program: path.clone(),
                    error: HostError::Read { path, source: io() },
                }
                .into(),
            ]
        };
        for errno in [Errno::NOSPC, Errno::FBIG, Errno::DQUOT, Errno::IO, Errno::NOMEM] {
            assert!(all(errno).iter().all(is_temporary), "{errno}");
        }
        assert!(!all(Errno::NOENT).iter().any(is_temporary));
    }
}
