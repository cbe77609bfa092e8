//! A ring buffer of `perf_event_open` (perf_event_open(2), "MMAP layout"): the page faults of a program on one
//! processor.

#![allow(unsafe_code, reason = "perf_event_open and its memory have no safe form")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN,
    PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_ADDR, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
    perf_event_attr, perf_event_mmap_page,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::trace::sys::Pid;

/// The events in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Page faults of any kind, when they begin.
    Began,
    /// Page faults that the kernel counts as minor, when they end.
    Minor,
    /// Page faults that the kernel counts as major, when they end; mappings, programs, processes, and when a
    /// thread sleeps.
    Major,
}

/// Memory of a ring in bytes: the rings of a processor are within an ordinary user's limit
/// (`perf_event_mlock_kb`, 516).
const SIZE: usize = 1 << 17;

/// A ring of events, from the program's `execve` on or from [`Ring::enable`] on.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) kind: Kind,
    event: OwnedFd,
    map: *mut u8,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel writes to it from any processor.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring for a process that is yet to call `execve`, and for the processes that it will create.
    /// Major faults are told from the `execve` on, others if `at_once`.
    pub(super) fn open(pid: Pid, processor: i32, kind: Kind, at_once: bool) -> io::Result<Ring> {
        let at_once = at_once || kind == Kind::Major;
        let of_all = Ring::with(pid, processor, (kind, at_once), false);
        // Without privileges, the faults of the kernel itself are not reported.
        of_all.or_else(|_| Ring::with(pid, processor, (kind, at_once), true))
    }

    fn with(
        pid: Pid,
        processor: i32,
        (kind, at_once): (Kind, bool),
        exclude_kernel: bool,
    ) -> io::Result<Ring> {
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_SOFTWARE,
            size: size_of::<perf_event_attr>() as u32,
            config: match kind {
                Kind::Began => PERF_COUNT_SW_PAGE_FAULTS,
                Kind::Minor => PERF_COUNT_SW_PAGE_FAULTS_MIN,
                Kind::Major => PERF_COUNT_SW_PAGE_FAULTS_MAJ,
            }
            .into(),
            sample_type: (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR).into(),
            clockid: libc::CLOCK_MONOTONIC,
            ..perf_event_attr::default()
        };
        attr.__bindgen_anon_1.sample_period = 1;
        // The first major fault wakes the collector.
        match kind {
            Kind::Major => attr.__bindgen_anon_2.wakeup_events = 1,
            Kind::Began | Kind::Minor => {
                attr.__bindgen_anon_2.wakeup_watermark = SIZE as u32 / 4;
                attr.set_watermark(1);
            }
        }
        attr.set_disabled(1);
        attr.set_enable_on_exec(at_once.into());
        attr.set_inherit(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.set_exclude_kernel(exclude_kernel.into());
        if kind == Kind::Major {
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_mmap_data(1);
            attr.set_comm(1);
            attr.set_comm_exec(1);
            attr.set_task(1);
            attr.set_context_switch(1);
        }
        // SAFETY: the kernel reads a struct of the size that it names, and returns a new descriptor.
        let event = unsafe {
            let flags = PERF_FLAG_FD_CLOEXEC.into();
            let event =
                perf_event_open_sys::perf_event_open(&raw mut attr, pid, processor, -1, flags);
            if event < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(event)
        };
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let map = unsafe {
            mmap(ptr::null_mut(), page + SIZE, access, MapFlags::SHARED, event.as_fd(), 0)?
        };
        Ok(Ring { kind, event, map: map.cast(), page })
    }

    /// Begins to report, for all processes of the program.
    pub(super) fn enable(&self) {
        // SAFETY: the call takes an integer. It fails only if the processes have ended.
        unsafe { perf_event_open_sys::ioctls::ENABLE(self.event.as_raw_fd(), 0) };
    }

    /// Returns the descriptor to wait for.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Passes each new record to `each`, and frees its memory.
    pub(super) fn read(&mut self, mut each: impl FnMut(&[u8])) {
        let header = self.map.cast::<perf_event_mmap_page>();
        // SAFETY: both are aligned fields of the first page of the mapping, which the kernel reads and writes
        // at the same time.
        let (head, tail) = unsafe {
            let head = AtomicU64::from_ptr(&raw mut (*header).data_head);
            (head.load(Ordering::Acquire), AtomicU64::from_ptr(&raw mut (*header).data_tail))
        };
        let mut at = tail.load(Ordering::Relaxed);
        let mut record = Vec::new();
        while at < head {
            self.copy(at, 8, &mut record);
            let length = usize::from(u16::from_ne_bytes([record[6], record[7]]));
            // The kernel writes whole records; anything else must not end in a loop.
            if length < 8 || (head - at) < length as u64 {
                break;
            }
            self.copy(at, length, &mut record);
            each(&record);
            at += length as u64;
        }
        tail.store(head, Ordering::Release);
    }

    /// Copies bytes that may continue at the begin of the ring.
    fn copy(&self, from: u64, length: usize, to: &mut Vec<u8>) {
        to.clear();
        let byte = |at: u64| self.page + (at % SIZE as u64) as usize;
        // SAFETY: the offsets are within the mapping, and the kernel does not change bytes before `data_tail` moves.
        to.extend((from..from + length as u64).map(|at| unsafe { *self.map.add(byte(at)) }));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of this ring, to which nothing else points. If it fails, it stays.
        let _ = unsafe { munmap(self.map.cast(), self.page + SIZE) };
    }
}
