//! Resources that the children of this process have used.

use std::time::Duration;

/// Usage of resources by all children that were waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// User and kernel time.
    pub(crate) cpu: Duration,
    /// Page faults that waited for the disk.
    pub(crate) major_faults: u64,
    /// Bytes read from the disk.
    pub(crate) read_bytes: u64,
}

impl Used {
    /// Returns the usage up to now.
    pub(crate) fn by_children() -> Self {
        /// The unit of `ru_inblock` (getrusage of Linux kernel/sys.c).
        const BLOCK: u64 = 512;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        #[allow(unsafe_code, reason = "rustix has no getrusage")]
        // SAFETY: the kernel fills a structure of that type, and it was zeroed, so it is valid even if
        // the call fails.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
            usage.assume_init()
        };
        let of = |time: libc::timeval| {
            Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
                + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
        };
        Self {
            cpu: of(usage.ru_utime) + of(usage.ru_stime),
            major_faults: u64::try_from(usage.ru_majflt).unwrap_or(0),
            read_bytes: u64::try_from(usage.ru_inblock).unwrap_or(0) * BLOCK,
        }
    }
}
