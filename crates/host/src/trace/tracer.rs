//! The event loop: receives stops, counts calls and resumes tasks.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use becalm_core::fs::Errno;
use becalm_core::observe::Lookup;
use becalm_core::path::name;
use rustc_hash::{FxHashMap, FxHashSet};

use super::arch;
use super::calibrate::nanos;
use super::calls::{Role, is_of_descriptor, lookup};
use super::count::{Call, Counting};
use super::exec::{Breakpoint, Program};
use super::shared_cpu::SharedCpu;
use super::spawn::{Exec, NO_FILTER, NO_NEW_PRIVILEGES, Spawned};
use super::stopped::{self, Stopped, Until, Waited, Why};
use super::sys::{self, AtCall, Pid, SyscallInfo};
use super::{Entering, Exit, Note, Options, Overhead, TraceError, calibrate};

/// A thread of the program.
#[derive(Debug, Default)]
struct Task {
    /// Its process; `None` until the thread's first stop.
    process: Option<Pid>,
    call: Option<Call>,
    /// True after the stop of the task that created it.
    announced: bool,
}

/// The note on a program whose set-id bits or file capabilities the kernel ignores.
pub(super) const DROPPED: &str = "its set-id or file-capability rights are dropped under a tracer";

/// State of a traced run.
pub(super) struct Tracer<'a> {
    pub(super) options: Options,
    pub(super) overhead: Overhead,
    pub(super) apart: Option<Overhead>,
    entering: &'a mut Entering<'a>,
    exec: Exec,
    pub(super) child: Spawned,
    /// True if every call stops because there is no filter.
    no_filter: bool,
    tasks: FxHashMap<Pid, Task>,
    /// Tasks that appeared and ended before the stop of their creator. That stop must not add them
    /// again.
    gone: FxHashSet<Pid>,
    /// The image of each counted process.
    processes: FxHashMap<Pid, usize>,
    pub(super) images: Vec<Counting>,
    pub(super) notes: Vec<Note>,
    pub(super) exit: Option<Exit>,
    /// Set while tracer and program share a processor.
    shared_cpu: Option<SharedCpu>,
    /// Time at which sharing began, while the program reads its CPU affinity.
    shared_since: Option<Instant>,
    /// True if the program is stopped and the supervisor was stopped with it.
    supervisor_stopped: bool,
}

impl<'a> Tracer<'a> {
    /// Creates the state for `child`, which was started with a filter or without.
    pub(super) fn new(
        child: Spawned,
        exec: Exec,
        options: Options,
        (overhead, shared_cpu): (Overhead, Option<SharedCpu>),
        entering: &'a mut Entering<'a>,
    ) -> Tracer<'a> {
        let no_filter = !options.wants_filter();
        let root = Task { process: Some(child.pid), call: None, announced: true };
        Tracer {
            tasks: [(child.pid, root)].into_iter().collect(),
            options,
            overhead,
            // The child ran on a processor of its own choice, so one measurement serves for both.
            apart: shared_cpu.is_none().then_some(overhead),
            entering,
            exec,
            child,
            no_filter,
            gone: FxHashSet::default(),
            processes: FxHashMap::default(),
            images: Vec::new(),
            notes: Vec::new(),
            exit: None,
            shared_cpu,
            shared_since: None,
            supervisor_stopped: false,
        }
    }

    /// Traces until the program ends or is detached.
    pub(super) fn watch(&mut self) -> Result<(), TraceError> {
        while self.exit.is_none() {
            match stopped::wait(None) {
                Ok(Waited::Stop(task, why)) => self.stopped(task, why),
                Ok(Waited::End(pid, end)) => self.ended(pid, end)?,
                Err(source) => {
                    return Err(TraceError::failed(&self.exec.file(), "wait failed", source));
                }
            }
        }
        let processes: FxHashSet<Pid> =
            self.tasks.iter().map(|(pid, task)| task.process.unwrap_or(*pid)).collect();
        // A filter cannot be removed, so only tasks without one may run on alone.
        if self.no_filter {
            self.let_go();
        }
        if !processes.is_empty() {
            self.note(Note::LeftRunning { processes: processes.len() });
        }
        Ok(())
    }

    /// Returns true if processes with the filter are still running.
    pub(super) fn leaves_filtered(&self) -> bool {
        !self.no_filter && !self.tasks.is_empty()
    }

    fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn stopped(&mut self, task: Stopped, why: Why) {
        // A new task's first stop and its creator's stop come in either order. After execve the
        // task takes over the process's id, which is known.
        let pid = task.pid;
        if why != Why::Exec && self.tasks.get(&pid).is_none_or(|task| task.process.is_none()) {
            self.appeared(pid);
        }
        match why {
            Why::Call => self.at_call(task),
            Why::Exec => self.became_program(task),
            Why::Birth => {
                self.created(task.former_id());
                self.go_on(task, 0);
            }
            Why::Group(_) => {
                if pid == self.child.pid {
                    self.supervisor_stopped = true;
                    self.options.supervisor.iter().for_each(super::Supervisor::stop);
                }
                task.listen();
            }
            Why::Attention => {
                if pid == self.child.pid && std::mem::take(&mut self.supervisor_stopped) {
                    self.options.supervisor.iter().for_each(super::Supervisor::go_on);
                }
                self.go_on(task, 0);
            }
            Why::Signal(signal) if signal == libc::SIGTRAP => self.trapped(task),
            Why::Signal(signal) => self.go_on(task, signal),
        }
    }

    /// Adds a task that another has created, unless it has ended already.
    fn created(&mut self, newborn: Option<Pid>) {
        if let Some(newborn) = newborn.filter(|newborn| !self.gone.remove(newborn)) {
            self.tasks.entry(newborn).or_default().announced = true;
        }
    }

    /// Removes a task that has ended or is no longer traced.
    fn forget(&mut self, pid: Pid) {
        if self.tasks.remove(&pid).is_some_and(|task| !task.announced) {
            self.gone.insert(pid);
        }
    }

    /// Adds the process of a task that stops for the first time.
    fn appeared(&mut self, pid: Pid) {
        let (process, parent) = sys::process_and_parent(pid).unwrap_or((pid, 0));
        self.tasks.entry(pid).or_default().process = Some(process);
        if process == pid
            && self.options.follow
            && let Some(&image) = self.processes.get(&parent)
        {
            let counting = self.images[image].forked(pid, &self.options);
            self.begin(pid, counting);
        }
    }

    fn begin(&mut self, pid: Pid, counting: Counting) {
        if let Some(before) = self.processes.insert(pid, self.images.len()) {
            self.images[before].end();
        }
        self.images.push(counting);
    }

    /// Resumes a task until the next stop that its process needs.
    fn go_on(&mut self, task: Stopped, signal: i32) {
        let counted = self.image_of(task.pid).is_some();
        match (counted, self.no_filter) {
            (true, true) => task.resume(Until::Call, signal),
            // Before the first execve nothing is counted, but the program is still to come.
            (false, true) if task.pid != self.child.pid => {
                self.forget(task.pid);
                task.detach(signal);
            }
            _ => task.resume(Until::Filter, signal),
        }
    }

    /// Returns the image of a task's process, if that is counted.
    fn image_of(&self, pid: Pid) -> Option<usize> {
        self.processes.get(&self.tasks.get(&pid)?.process?).copied()
    }

    /// Handles the start or the end of a call.
    fn at_call(&mut self, task: Stopped) {
        let began = self.tasks.get_mut(&task.pid).and_then(|task| task.call.take());
        let now = Instant::now();
        let Ok(info) = task.call() else { return self.go_on(task, 0) };
        match info.at() {
            AtCall::Entry { number, args } => self.call_begins(task, &info, number, args),
            AtCall::Exit { value, is_error } => {
                if let Some(call) = began {
                    let errno = is_error.then(|| Errno(i32::try_from(-value).unwrap_or(0)));
                    self.images[call.image].count(task.pid, call, errno, now);
                }
                self.share_cpu_again(task.pid);
                self.go_on(task, 0);
            }
            AtCall::None => self.go_on(task, 0),
        }
    }

    fn call_begins(&mut self, task: Stopped, info: &SyscallInfo, number: u32, args: [u64; 6]) {
        let pid = task.pid;
        let Some(image) = self.image_of(pid) else { return self.go_on(task, 0) };
        let Some(abi) = arch::abi(info.arch) else {
            self.note(Note::Undecoded { arch: info.arch });
            return self.go_on(task, 0);
        };
        let known = abi.known(number);
        let role = match known {
            Some((_, Role::Lookup { flags, .. })) if is_of_descriptor(flags, &args) => Role::Other,
            known => known.map_or(Role::Other, |(_, role)| role),
        };
        // The loader's calls come from its own code; those of an initialiser do not.
        let by_loader = self.images[image].is_loader(info.instruction_pointer);
        let lookup = match role {
            Role::Lookup { kind, at, .. } => Some(lookup(&task, kind, at, &args, by_loader)),
            Role::Ptrace | Role::ReadsAffinity | Role::SetsAffinity | Role::Other => None,
        };
        self.note_call(pid, role, lookup.as_ref());
        if lookup.is_none() && !self.options.all_syscalls {
            return match self.shared_since {
                // The end of this call must stop, so that tracer and program can share a processor
                // again.
                Some(_) => task.resume(Until::Call, 0),
                None => self.go_on(task, 0),
            };
        }
        let name = match known {
            Some((name, _)) => Cow::Borrowed(name),
            None => Cow::Owned(format!("syscall_{number}")),
        };
        let (cost, phase) = (self.cost(image), self.images[image].phase);
        if let Some(entry) = self.tasks.get_mut(&pid) {
            entry.call = Some(Call { name, image, phase, lookup, cost, began: Instant::now() });
        }
        task.resume(Until::Call, 0);
    }

    /// Adds notes about a call and ends the sharing of a processor if the call requires that.
    fn note_call(&mut self, pid: Pid, role: Role, lookup: Option<&Lookup>) {
        if role == Role::Ptrace {
            self.note(Note::TracesItself { pid: pid.unsigned_abs() });
        }
        // A second task would run at the same time, and sharing would slow it down.
        if role == Role::ReadsAffinity {
            let shared_cpu = self.shared_cpu.take();
            self.shared_since =
                shared_cpu.filter(|_| self.tasks.len() == 1).map(|shared| shared.since);
        }
        // `/proc/PID/status` shows the CPU affinity, under any spelling of its directory.
        let of_status = lookup.is_some_and(|lookup| name(&lookup.path) == "status");
        let over = self.shared_cpu.as_ref().is_some_and(SharedCpu::is_over);
        if role == Role::SetsAffinity || of_status || over {
            self.shared_cpu = None;
        }
    }

    /// Shares a processor again after the program has read its CPU affinity.
    fn share_cpu_again(&mut self, pid: Pid) {
        if let Some(since) = self.shared_since.take().filter(|_| self.tasks.len() == 1) {
            self.shared_cpu = SharedCpu::move_here(pid, since);
        }
    }

    /// Returns the current cost of a call of this image. The cost on different processors is
    /// measured when it is first needed; that time counts as the tracer's.
    fn cost(&mut self, image: usize) -> Overhead {
        // Sharing resumes right after this call, so the second measurement is not worth its time.
        if self.shared_cpu.is_some() || self.shared_since.is_some() {
            return self.overhead;
        }
        if self.apart.is_none() {
            let began = Instant::now();
            // If no more processes can be created, the first measurement must do.
            self.apart = Some(calibrate::apart().unwrap_or(self.overhead));
            self.images[image].delayed(nanos(began, Instant::now()));
        }
        self.apart.unwrap_or(self.overhead)
    }

    /// Handles a successful `execve`: one image ends and another begins.
    fn became_program(&mut self, task: Stopped) {
        let (pid, now) = (task.pid, Instant::now());
        // A thread other than the leader gets the leader's id in `execve`. The event message has
        // its former id (ptrace(2), "execve(2) under ptrace").
        let former = task.former_id().unwrap_or(pid);
        let call = self.tasks.get_mut(&former).and_then(|task| task.call.take());
        let announced = self.tasks.get(&pid).is_some_and(|task| task.announced);
        // execve has ended the other threads, and the calling thread now has the process's id.
        self.tasks.retain(|other, task| task.process != Some(pid) && *other != former);
        self.tasks.insert(pid, Task { process: Some(pid), call: None, announced });
        if let Some(call) = call {
            self.images[call.image].count(pid, call, None, now);
        }
        if self.images.is_empty() {
            self.started();
        }
        if pid == self.child.pid || self.options.follow {
            self.new_image(&task);
        }
        self.go_on(task, 0);
    }

    fn new_image(&mut self, task: &Stopped) {
        let mut program = Program::of(task);
        // A static program has no loader phase, so it needs no breakpoint.
        let breakpoint = program.entry.and_then(|entry| Breakpoint::set(task, entry));
        let no_entry = breakpoint.is_none() && program.image.interpreter.is_some();
        program.entry = program.entry.filter(|_| !no_entry);
        for (is_so, what) in [
            // The tracer has no right to trace a privileged program.
            (program.drops_privileges, DROPPED),
            (program.is_32_bit, "a 32-bit program"),
            // `ld.so PROGRAM`.
            (program.is_loader, "a loader run as a program; its work is counted as the program's"),
            (no_entry, "its entry point cannot be watched; all is the program's share"),
        ] {
            if is_so {
                self.note(Note::OfProgram { path: program.image.path.clone(), what });
            }
        }
        if task.pid == self.child.pid {
            self.share_cpu();
        }
        let mut counting = Counting::new(task.pid, Arc::new(program), &self.options);
        counting.breakpoint = breakpoint;
        self.begin(task.pid, counting);
    }

    /// Shares a processor with a new program as long as it has one task.
    fn share_cpu(&mut self) {
        if self.tasks.len() > 1 {
            self.shared_cpu = None;
        } else if self.shared_cpu.is_none() {
            self.shared_cpu = SharedCpu::move_here(self.child.pid, Instant::now());
        }
    }

    /// Reads the child's reports when the first program starts.
    fn started(&mut self) {
        for report in self.child.reports() {
            match report {
                (NO_FILTER, errno) => {
                    self.no_filter = true;
                    self.note(Note::NoFilter { errno });
                }
                (NO_NEW_PRIVILEGES, _) => self.note(Note::NoNewPrivileges),
                _ => {}
            }
        }
    }

    /// Handles `SIGTRAP`, from the breakpoint or from the program itself.
    fn trapped(&mut self, task: Stopped) {
        let Some(image) = self.image_of(task.pid) else { return self.go_on(task, libc::SIGTRAP) };
        let hit = self.images[image].breakpoint.take_if(|breakpoint| breakpoint.is_hit(&task));
        let Some(breakpoint) = hit else { return self.go_on(task, libc::SIGTRAP) };
        // Removal fails only if the program was killed meanwhile. Otherwise it would run on after a
        // missing instruction.
        let _ = breakpoint.take_out(&task);
        self.images[image].enter();
        (self.entering)(image, &self.images[image].image);
        if self.options.until_entry {
            self.shared_cpu = None;
            self.images[image].end();
            self.exit = Some(Exit::Running);
            self.tasks.remove(&task.pid);
            return task.detach(0);
        }
        self.go_on(task, 0);
    }

    fn ended(&mut self, pid: Pid, end: Exit) -> Result<(), TraceError> {
        self.forget(pid);
        if let Some(image) = self.processes.remove(&pid) {
            self.images[image].end();
        }
        if pid != self.child.pid {
            return Ok(());
        }
        self.shared_cpu = None;
        if self.images.is_empty() {
            return Err(self.child.never_started(&self.exec));
        }
        self.exit = Some(end);
        Ok(())
    }

    /// Kills all remaining tasks and waits for their ends.
    pub(super) fn kill_rest(&mut self) {
        self.tasks.keys().for_each(|pid| sys::kill(*pid, libc::SIGKILL));
        self.drain(|_, task, _| {
            // A new task stops before it runs.
            sys::kill(task.pid, libc::SIGKILL);
            task.resume(Until::Filter, 0);
        });
    }

    /// Detaches from all remaining tasks. None of them has a filter.
    fn let_go(&mut self) {
        // ptrace can detach only from a stopped task.
        for pid in self.tasks.keys() {
            stopped::interrupt(*pid);
        }
        self.drain(|tracer, task, why| {
            tracer.forget(task.pid);
            // A signal that was about to be delivered would be lost otherwise.
            task.detach(match why {
                Why::Signal(signal) | Why::Group(signal) => signal,
                _ => 0,
            });
        });
    }

    /// Handles the stops of all remaining tasks until none is left.
    fn drain(&mut self, at_stop: impl Fn(&mut Self, Stopped, Why)) {
        while !self.tasks.is_empty() {
            match stopped::wait(None) {
                Ok(Waited::Stop(task, why)) => {
                    if why == Why::Birth {
                        self.created(task.former_id());
                    }
                    at_stop(self, task, why);
                }
                Ok(Waited::End(pid, _)) => self.forget(pid),
                Err(_) => break,
            }
        }
    }
}
