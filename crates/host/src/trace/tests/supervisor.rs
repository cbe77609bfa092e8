//! The supervisor. Each test runs itself again in a process of its own, which forks into supervisor
//! and tracer.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Host, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::fixture::{compile, run};
use super::parent::wait_for;
use crate::trace::{Command, Options, Supervisor};

const HEAD: &str = "#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static void write_down(const char *name) {
    FILE *f = fopen(\"/proc/self/status\", \"r\");
    FILE *out = fopen(name, \"w\");
    fputs(f ? \"fine\" : \"blind\", out);
    fclose(out);
}
";

/// Variable with the path of a folder that has the program to trace.
const PLACE: &str = "BECALM_TEST_PLACE";

/// Compiles `body` and starts this test again to trace it.
fn start_again(test: &str, body: &str) -> (super::fixture::Fixture, Child) {
    let fixture = compile(&format!("{HEAD}{body}"), &[]);
    let child = Host::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("trace::tests::supervisor::{test}"),
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PLACE, fixture.dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (fixture, child)
}

/// Traces the program if this is the second run: the supervisor stays in `enter`, and the tracer
/// exits here.
fn as_supervisor_and_tracer() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let me = std::process::id().to_string();
    let supervisor = Supervisor::enter().unwrap();
    let mut command = Command::new(place.join("program"), []);
    command.env = Some(vec![("SUPERVISOR".into(), me.into())]);
    command.dir = Some(place.clone());
    let options = Options { supervisor: Some(supervisor.clone()), ..Options::default() };
    let traced = run(&command, options).unwrap();
    std::fs::write(place.join("report"), "given").unwrap();
    let code = traced.exit.code().unwrap();
    if let Some(rest) = traced.rest {
        supervisor.release(code);
        let _ = rest.finish();
    }
    std::process::exit(i32::from(code));
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn in_place(fixture: &super::fixture::Fixture, name: &str) -> PathBuf {
    Path::new(fixture.dir.path()).join(name)
}

#[test]
fn killing_the_supervisor_ends_neither_program_nor_tracer() {
    as_supervisor_and_tracer();
    let body = "int main(void) {
            pid_t supervisor = atoi(getenv(\"SUPERVISOR\"));
            kill(supervisor, SIGKILL);
            while (kill(supervisor, 0) == 0) usleep(1000);
            write_down(\"seen\"); return 0;
        }";
    let (fixture, mut child) =
        start_again("killing_the_supervisor_ends_neither_program_nor_tracer", body);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(wait_for(&in_place(&fixture, "seen")), "fine");
    assert_eq!(wait_for(&in_place(&fixture, "report")), "given");
}

#[test]
fn a_shell_sees_the_program_stop_and_makes_it_go_on() {
    as_supervisor_and_tracer();
    let body = "int main(void) { raise(SIGTSTP); write_down(\"seen\"); return 23; }";
    let (fixture, mut child) =
        start_again("a_shell_sees_the_program_stop_and_makes_it_go_on", body);
    let (_, status) = waitpid(Some(pid(&child)), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{status:?}");
    assert!(!in_place(&fixture, "seen").exists());
    kill_process(pid(&child), Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(23));
    assert_eq!(wait_for(&in_place(&fixture, "seen")), "fine");
}

#[test]
fn a_signal_to_the_supervisor_is_the_programs() {
    as_supervisor_and_tracer();
    let body = "static void on(int s) { _exit(44); }
        int main(void) { signal(SIGTERM, on); write_down(\"ready\"); for (;;) pause(); }";
    let (fixture, mut child) = start_again("a_signal_to_the_supervisor_is_the_programs", body);
    assert_eq!(wait_for(&in_place(&fixture, "ready")), "fine");
    kill_process(pid(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(44));
}

#[test]
fn the_supervisor_ends_with_the_program_while_its_children_are_served() {
    as_supervisor_and_tracer();
    let body = "int main(void) {
            struct stat s;
            if (fork()) return 5;
            while (stat(\"go\", &s)) usleep(5000);
            write_down(\"seen\");
            return 0;
        }";
    let (fixture, mut child) =
        start_again("the_supervisor_ends_with_the_program_while_its_children_are_served", body);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    std::fs::write(in_place(&fixture, "go"), "go").unwrap();
    assert_eq!(wait_for(&in_place(&fixture, "seen")), "fine");
}
