//! A standard error whose writes the kernel stamps with their times (`SO_TIMESTAMPNS` of socket(7)). The
//! writer does not wait for a reader to look at a clock.

use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, SystemTime};

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

/// The longest write that is kept whole.
const LONGEST: usize = 64 << 10;

/// A write and its time.
type Write = (SystemTime, Vec<u8>);

/// The writes to a stream, received by a thread.
#[derive(Debug)]
pub struct Stamped {
    socket: OwnedFd,
    reader: JoinHandle<Vec<Write>>,
}

/// Makes a stream. One write is one message, in order.
///
/// # Errors
/// Returns an error if there can be no socket.
pub fn stamped() -> io::Result<(File, Stamped)> {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (socket, stream) = socketpair(unix, kind, SocketFlags::CLOEXEC, None)?;
    let on: libc::c_int = 1;
    #[allow(unsafe_code, reason = "rustix has no such option")]
    // SAFETY: the kernel reads an integer of this size.
    let set = unsafe {
        let (level, size) = (libc::SOL_SOCKET, size_of::<libc::c_int>() as libc::socklen_t);
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size,
        )
    };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    let own = socket.try_clone()?;
    let reader = spawn(move || std::iter::from_fn(|| receive(&own)).collect());
    Ok((stream.into(), Stamped { socket, reader }))
}

impl Stamped {
    /// Returns the writes until now. A process that keeps the stream open does not delay this.
    #[must_use]
    pub fn finish(self) -> Vec<Write> {
        // Fails only for a socket without a peer, whose reader has ended.
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.reader.join().unwrap_or_default()
    }
}

/// Receives a message; `None` at the end, and for a message without a time.
#[allow(unsafe_code, reason = "rustix parses no message with a time")]
fn receive(socket: &OwnedFd) -> Option<Write> {
    let mut text = vec![0_u8; LONGEST];
    let mut control = [0_u64; 16];
    let mut vector = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    // SAFETY: a message header of zeros is valid, and names no memory.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header names buffers that live as long as it, with their lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
    // SAFETY: the kernel has filled the control buffer, and set its length. A message of this type has a
    // `timespec` as its data.
    let time = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const header).as_ref()?;
        let is_time =
            (first.cmsg_level, first.cmsg_type) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
        is_time.then(|| libc::CMSG_DATA(first).cast::<libc::timespec>().read_unaligned())?
    };
    let since = Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?);
    text.truncate(length);
    Some((SystemTime::UNIX_EPOCH + since, text))
}
