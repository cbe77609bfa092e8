//! Sockets by which processes of one user find each other, with abstract names.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};
use rustix::process::geteuid;

pub use rustix::net::SocketType;

/// Processes that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Maximum number of descriptors in a message.
const MOST: usize = 2;

/// A message and its descriptors.
pub type Message = (Vec<u8>, Vec<OwnedFd>);

fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Listens at a name.
///
/// # Errors
/// Returns an error if another process has the name, or no socket can be made.
pub fn listener(name: &str, kind: SocketType) -> io::Result<OwnedFd> {
    let socket = socket(kind)?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to the process of this user that listens at a name.
///
/// # Errors
/// Returns an error if no process of this user listens there.
pub fn connection(name: &str, kind: SocketType) -> io::Result<OwnedFd> {
    let socket = socket(kind)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    peer(&socket).map(|_| socket).ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

/// Waits for a process of this user that connects, for at most this time. Returns the connection and the
/// number of the process.
#[must_use]
pub fn accept(listener: &OwnedFd, patience: Duration) -> Option<(OwnedFd, u32)> {
    if !is_readable(listener, patience) {
        return None;
    }
    let connection = accept_with(listener, SocketFlags::CLOEXEC).ok()?;
    let process = peer(&connection)?;
    Some((connection, process))
}

/// Returns the process at the other end, if it belongs to this user.
fn peer(connection: &OwnedFd) -> Option<u32> {
    let peer = socket_peercred(connection).ok().filter(|peer| peer.uid == geteuid())?;
    Some(peer.pid.as_raw_nonzero().get().cast_unsigned())
}

fn is_readable(socket: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    poll(&mut [PollFd::new(socket, PollFlags::IN)], patience.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Waits for a message of at most so many bytes. Its descriptors are closed by `execve`.
#[must_use]
pub fn receive(connection: &OwnedFd, most: usize, patience: Duration) -> Option<Message> {
    if !is_readable(connection, patience) {
        return None;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; most];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(connection, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
    let length = received.ok().filter(|received| received.bytes > 0)?.bytes;
    bytes.truncate(length);
    let of = |message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    };
    let descriptors = control.drain().filter_map(of).flatten().collect();
    Some((bytes, descriptors))
}

/// Sends a message at once, with at most two descriptors.
///
/// # Errors
/// Returns an error if it cannot be sent.
pub fn send(connection: &OwnedFd, bytes: &[u8], descriptors: &[&OwnedFd]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    if !borrowed.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&borrowed));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(connection, &[IoSlice::new(bytes)], &mut control, flags)?;
    Ok(())
}
