//! Turns off the kernel's fault-around for files of another process, so that its page tables have
//! the touched pages alone.
//!
//! The kernel leaves fault-around out for mappings that a userfaultfd for writes has registered
//! (`uffd_disable_fault_around` of Linux include/linux/userfaultfd_k.h). With `WP_ASYNC` (Linux 6.7)
//! any file can be registered, no process has to answer a fault, and nothing else changes for the
//! process, because no page is ever protected. The descriptor has to come from the process: the
//! audit module makes one if `BECALM=learn:NAME` is set, and sends it to the [`Listener`] of that
//! name before the program begins. When the listener closes it, all is as before. At the end of the
//! process the module connects again and waits, so that a last look can be taken.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::local_socket::{self, SocketType};

/// The longest time for a process that has connected to send its byte.
const PATIENCE: Duration = Duration::from_millis(50);

/// Receives descriptors of processes of this user.
#[derive(Debug)]
pub struct Listener(pub OwnedFd);

impl Listener {
    /// Makes a listener and returns its name.
    ///
    /// # Errors
    /// Returns an error if no socket can be made.
    pub fn new() -> io::Result<(Self, String)> {
        let name = format!("becalm-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let socket = local_socket::listener(&name, SocketType::STREAM)?;
        Ok((Self(socket), name))
    }

    /// Waits for a process that connects, for at most this time.
    #[must_use]
    pub fn accept(&self, patience: Duration) -> Option<Connection> {
        let (connection, pid) = local_socket::accept(&self.0, patience)?;
        // Without a byte it only looked whether somebody listens.
        let (_, mut descriptors) = local_socket::receive(&connection, 1, PATIENCE)?;
        Some(Connection { pid, descriptor: descriptors.pop(), _held: connection })
    }
}

/// A process that has connected.
#[derive(Debug)]
pub struct Connection {
    /// Its number.
    pub pid: u32,
    /// The descriptor of its page tables; `None` if it is about to end, and waits until this connection
    /// is dropped.
    pub descriptor: Option<OwnedFd>,
    _held: OwnedFd,
}

/// `struct uffdio_register` of Linux include/uapi/linux/userfaultfd.h.
#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    calls: u64,
}

/// Turns fault-around off for a range of addresses of the process that the descriptor belongs to. A
/// range that cannot be registered stays as it is.
#[allow(unsafe_code, reason = "no crate that is used here has this ioctl")]
pub fn turn_off(descriptor: BorrowedFd<'_>, from: u64, to: u64) {
    /// `_IOWR(0xaa, 0, struct uffdio_register)`.
    const REGISTER: libc::Ioctl = 0xc020_aa00_u32 as libc::Ioctl;
    const MODE_WRITE_PROTECT: u64 = 1 << 1;
    let mut register =
        Register { start: from, length: to - from, mode: MODE_WRITE_PROTECT, calls: 0 };
    // SAFETY: the kernel reads and writes the structure, which has its layout. Nothing in this process
    // is registered: the descriptor belongs to another one.
    unsafe {
        libc::ioctl(descriptor.as_raw_fd(), REGISTER, &raw mut register);
    }
}
