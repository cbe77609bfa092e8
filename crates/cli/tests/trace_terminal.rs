//! `becalm trace` at a real terminal: typed input and the terminal's own signals reach the program,
//! and a shell's job control works.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use becalm_testing::skip;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(50);

/// A terminal and the command that runs at it.
struct Terminal {
    side: File,
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Runs a command as the leader of a session with a new terminal. `None` if that is not
    /// possible.
    fn run(line: &[&str]) -> Option<Terminal> {
        if Command::new("setsid").arg("--version").output().is_err() {
            skip("no setsid");
            return None;
        }
        let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&side).expect("granted");
        unlockpt(&side).expect("unlocked");
        let name = ptsname(&side, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let other = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("opened");
        let copy = |fd: &OwnedFd| fd.try_clone().expect("copied");
        let child = Command::new("setsid")
            .args(["--ctty", "--wait"])
            .args(line)
            .env("TERM", "dumb")
            .env("PS1", "")
            .env_remove("LD_LIBRARY_PATH")
            .stdin(copy(&other))
            .stdout(copy(&other))
            .stderr(other)
            .spawn()
            .expect("starts");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reading, into) = (File::from(copy(&side)), Arc::clone(&seen));
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            // Reading fails once the other side is closed.
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                into.lock().expect("whole").extend_from_slice(&buffer[..count]);
            }
        });
        Some(Terminal { side: File::from(side), child, seen })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("whole")).into_owned()
    }

    fn type_in(&mut self, text: &str) {
        self.side.write_all(text.as_bytes()).expect("typed");
    }

    /// Waits until this is on the screen.
    fn shows(&self, words: &str) {
        let began = Instant::now();
        while !self.text().contains(words) {
            assert!(began.elapsed() < DEADLINE, "no {words:?}: {:?}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end.
    fn code(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("waited for") {
                return status.code();
            }
            assert!(began.elapsed() < DEADLINE, "no end: {:?}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Has ended already, unless the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line that traces a shell script.
fn traced(script: &str) -> [&str; 8] {
    ["trace", "-o", "/dev/null", "--", "sh", "-c", script, "sh"]
}

fn at_terminal(script: &str) -> Option<Terminal> {
    let becalm = [env!("CARGO_BIN_EXE_becalm")];
    Terminal::run(&[&becalm[..], &traced(script)].concat())
}

#[test]
fn an_interrupt_typed_reaches_the_program_once_and_its_code_is_ours() {
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready
        while [ $n = 0 ]; do sleep 0.05; done; sleep 0.2; echo counted $n; exit 7";
    let Some(mut terminal) = at_terminal(script) else { return };
    terminal.shows("ready");
    terminal.type_in("\x03");
    terminal.shows("counted 1");
    assert_eq!(terminal.code(), Some(7));
}

#[test]
fn an_interrupt_that_the_program_dies_of_is_told_as_a_shell_tells_it() {
    let Some(mut terminal) = at_terminal("echo ready; exec sleep 100") else { return };
    terminal.shows("ready");
    terminal.type_in("\x03");
    assert_eq!(terminal.code(), Some(128 + 2));
}

#[test]
fn a_window_that_changes_its_size_is_the_programs_to_know() {
    let script = "trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done";
    let Some(mut terminal) = at_terminal(script) else { return };
    terminal.shows("ready");
    let size = Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal.side, size).expect("set");
    terminal.shows("33 77");
    assert_eq!(terminal.code(), Some(5));
}

#[test]
fn what_is_typed_is_the_programs_to_read() {
    let Some(mut terminal) = at_terminal("echo ready; read line; echo got-$line") else { return };
    terminal.shows("ready");
    terminal.type_in("words\n");
    terminal.shows("got-words");
    assert_eq!(terminal.code(), Some(0));
}

#[test]
fn a_shell_stops_it_and_takes_it_to_the_foreground_again() {
    if Command::new("bash").arg("--version").output().is_err() {
        skip("no bash");
        return;
    }
    let dir = tempfile::tempdir().expect("a scratch directory");
    let mark = dir.path().join("go");
    let shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"];
    let Some(mut terminal) = Terminal::run(&shell) else { return };
    // Quotes within the words keep the typed text apart from the printed one. The script waits
    // without starting anything: a shell whose child stops between vfork and exec does not stop
    // itself.
    let line = format!(
        "{} trace -o /dev/null -- sh -c \"echo rea''dy; while [ ! -e {} ]; do :; done; \
         echo o''ver; exit 9\"\n",
        env!("CARGO_BIN_EXE_becalm"),
        mark.display()
    );
    terminal.type_in(&line);
    terminal.shows("ready");
    terminal.type_in("\x1a");
    terminal.shows("Stopped");
    fs::write(&mark, "").expect("written");
    thread::sleep(Duration::from_millis(200));
    assert!(!terminal.text().contains("over"), "not stopped: {:?}", terminal.text());
    terminal.type_in("fg\n");
    terminal.shows("over");
    terminal.type_in("echo code=$?\n");
    terminal.shows("code=9");
    terminal.type_in("exit\n");
    terminal.code();
}
