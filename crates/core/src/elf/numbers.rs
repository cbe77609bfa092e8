//! Numbers in a byte order, read and written one after the other.

use object::{Endian as _, Endianness};

use super::Endian;

/// Bytes written in a byte order.
pub(crate) struct Writer {
    pub(crate) endian: Endian,
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(endian: Endian) -> Self {
        Self { endian, bytes: Vec::new() }
    }

    pub(crate) fn half(&mut self, value: u16) {
        self.bytes.extend_from_slice(&Endianness::from(self.endian).write_u16(value));
    }

    pub(crate) fn word(&mut self, value: u32) {
        self.bytes.extend_from_slice(&Endianness::from(self.endian).write_u32(value));
    }

    pub(crate) fn words(&mut self, values: impl IntoIterator<Item = u32>) {
        values.into_iter().for_each(|value| self.word(value));
    }

    pub(crate) fn long(&mut self, value: u64) {
        self.bytes.extend_from_slice(&Endianness::from(self.endian).write_u64(value));
    }

    pub(crate) fn set_word(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&Endianness::from(self.endian).write_u32(value));
    }
}

/// Numbers read in a byte order; `None` beyond the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) endian: Endian,
    pub(crate) bytes: &'a [u8],
}

impl Reader<'_> {
    pub(crate) fn half(&self, at: usize) -> Option<u16> {
        self.endian.u16(self.bytes, at)
    }

    pub(crate) fn word(&self, at: usize) -> Option<u32> {
        self.endian.u32(self.bytes, at)
    }

    pub(crate) fn long(&self, at: usize) -> Option<u64> {
        self.endian.u64(self.bytes, at)
    }
}
