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
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recvmsg, socket_with,
};
use rustix::process::geteuid;

/// Processes that may wait to be accepted.
const BACKLOG: i32 = 64;
/// The longest time for a process that has connected to send its byte.
const PATIENCE: Duration = Duration::from_millis(50);

/// Receives descriptors of processes of this user.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Makes a listener and returns its name.
    ///
    /// # Errors
    /// Returns an error if no socket can be made.
    pub fn new() -> io::Result<(Self, String)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let name = format!("becalm-{}-{:016x}", std::process::id(), fastrand::u64(..));
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&socket, BACKLOG)?;
        Ok((Self(socket), name))
    }

    /// Waits for a process that connects, for at most this time.
    #[must_use]
    pub fn accept(&self, patience: Duration) -> Option<Connection> {
        if !is_readable(&self.0, patience) {
            return None;
        }
        let connection = accept_with(&self.0, SocketFlags::CLOEXEC).ok()?;
        let peer = socket_peercred(&connection).ok().filter(|peer| peer.uid == geteuid())?;
        let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
        let descriptor = receive(&connection)?;
        Some(Connection { pid, descriptor, _held: connection })
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

fn is_readable(socket: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    poll(&mut [PollFd::new(socket, PollFlags::IN)], patience.as_ref()).is_ok_and(|ready| ready > 0)
}

impl From<OwnedFd> for Listener {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> Self {
        listener.0
    }
}

/// Receives the byte that a process sends, and its descriptor; `None` if it sends nothing: it only
/// looked whether somebody listens.
fn receive(connection: &OwnedFd) -> Option<Option<OwnedFd>> {
    if !is_readable(connection, PATIENCE) {
        return None;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(connection, &mut [IoSliceMut::new(&mut byte)], &mut control, flags);
    received.ok().filter(|received| received.bytes == 1)?;
    Some(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
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
