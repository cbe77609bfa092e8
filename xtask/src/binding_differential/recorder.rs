//! The recorder (`recorder.c`): an audit module that serves a start's memory on a socket.

use object::{Endian as _, Endianness};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use becalm_core::elf::Ident;
use bstr::BString;

use crate::audit_trial::make;
use crate::command::succeed;

/// The time that a start may take, under an emulator as well.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Objects and bytes of a name that a message may claim.
const MAX_OBJECTS: u64 = 4096;
const MAX_NAME: u64 = 1 << 16;

/// Builds the recorder of a machine, as `uname -m` has it, by the compiler that `CC_<MACHINE>`
/// names, else by the usual one.
pub(crate) fn build(machine: &str, folder: &Path) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let audit = sources.join("../crates/audit/module");
    let out = folder.join(format!("recorder-{machine}.so"));
    let compiler = make::compiler(machine);
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().context("no compiler")?);
    command
        .args(words)
        .args(["-std=c11", "-O2", "-ffreestanding", "-fno-builtin", "-nostdlib", "-fPIC"])
        .args(["-fvisibility=hidden", "-fno-stack-protector", "-shared"])
        .args(["-fno-tree-loop-distribute-patterns", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-I{}", audit.display()))
        .args([sources.join("src/binding_differential/recorder.c"), audit.join("memory.c")])
        .arg("-o")
        .arg(&out);
    succeed(&mut command).context("the recorder cannot be built (Debian: gcc, gcc-<machine>)")?;
    Ok(out)
}

/// One object as the loader has it.
#[derive(Clone, Debug)]
pub(super) struct RecordedObject {
    /// `l_addr`.
    pub(super) base: u64,
    /// `l_ld`.
    pub(super) dynamic: u64,
    /// `l_name`.
    pub(super) name: BString,
}

/// A start that waits in the recorder.
pub(super) struct Recording {
    socket: UnixStream,
    ident: Ident,
    /// The objects of the base namespace, in the order of `la_objopen`.
    pub(super) objects: Vec<RecordedObject>,
}

impl Recording {
    /// Reads the objects; `None` if the start ended before the recorder was reached.
    pub(super) fn open(socket: UnixStream, ident: Ident) -> Result<Option<Self>> {
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut recording = Self { socket, ident, objects: Vec::new() };
        let mut head = [0; 8];
        match recording.socket.read(&mut head)? {
            0 => return Ok(None),
            got => recording.socket.read_exact(&mut head[got..])?,
        }
        let count = ident.endian.u64(&head, 0).unwrap_or(0);
        ensure!(count <= MAX_OBJECTS, "{count} objects");
        for _ in 0..count {
            let mut message = [0; 24];
            recording.socket.read_exact(&mut message)?;
            let field = |index: usize| ident.endian.u64(&message, index * 8).unwrap_or(0);
            let (base, dynamic, size) = (field(0), field(1), field(2));
            ensure!(size <= MAX_NAME, "a name of {size} bytes");
            let mut name = vec![0; size as usize];
            recording.socket.read_exact(&mut name)?;
            recording.objects.push(RecordedObject { base, dynamic, name: name.into() });
        }
        Ok(Some(recording))
    }

    /// The bytes at an address of the process.
    pub(super) fn memory(&mut self, address: u64, size: u64) -> Result<Vec<u8>> {
        if size == 0 {
            return Ok(Vec::new());
        }
        self.request(address, size)?;
        let mut bytes = vec![0; usize::try_from(size)?];
        if let Err(error) = self.socket.read_exact(&mut bytes) {
            bail!("{size} bytes at {address:#x} cannot be read: {error}");
        }
        Ok(bytes)
    }

    /// Lets the process exit.
    pub(super) fn close(mut self) -> Result<()> {
        self.request(0, 0)
    }

    fn request(&mut self, address: u64, size: u64) -> Result<()> {
        let number = |value: u64| Endianness::from(self.ident.endian).write_u64(value);
        let message = [number(address), number(size)].concat();
        Ok(self.socket.write_all(&message)?)
    }
}
