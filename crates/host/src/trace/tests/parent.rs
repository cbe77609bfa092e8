//! A traced program behaves as it does untraced.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command as Host, Stdio};
use std::time::{Duration, Instant};

use super::fixture::{build, compile, option_sets, run, trace, trace_in};
use crate::trace::{Command, Exit, Note, Options, TraceError};
use becalm_testing::skip;

fn opens_after_entry(path: &str) -> String {
    format!("open(\"{path}\", O_RDONLY)")
}

const HEAD: &str = "#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
";

pub(super) fn program(body: &str) -> super::fixture::Fixture {
    compile(&format!("{HEAD}{body}"), &[])
}

#[test]
fn the_exit_code_is_the_programs() {
    let fixture = program("int main(void) { return 42; }");
    for options in option_sets() {
        let traced = trace(&fixture.program, options);
        assert_eq!((traced.exit, traced.exit.code()), (Exit::Code(42), Some(42)));
        assert!(traced.rest.is_none());
        let image = &traced.images[0];
        assert!(image.reached_entry && image.interpreter.is_some());
        assert!(image.pid > 0);
    }
}

#[test]
fn a_signal_that_ends_the_program_is_reported() {
    let fixture = program("int main(void) { raise(SIGSEGV); }");
    for options in option_sets() {
        let traced = trace(&fixture.program, options);
        assert_eq!((traced.exit, traced.exit.code()), (Exit::Signal(11), Some(139)));
    }
}

#[test]
fn real_time_signals_and_traps_of_its_own_reach_it() {
    let body = "static volatile int seen;
        static void on(int s) { seen += s == SIGTRAP ? 1 : 10; }
        int main(void) {
            signal(SIGTRAP, on); signal(SIGRTMIN + 3, on);
            raise(SIGTRAP); raise(SIGRTMIN + 3); raise(SIGTRAP);
            return seen;
        }";
    let fixture = program(body);
    for options in option_sets() {
        assert_eq!(trace(&fixture.program, options).exit, Exit::Code(12));
    }
}

#[test]
fn every_call_that_creates_a_process_works_and_children_count_only_if_followed() {
    let child = opens_after_entry("/nonexistent-becalm/child");
    let body = format!(
        "static int run(void *unused) {{ return 0; }}
        int main(int argc, char **argv) {{
            if (argc > 1) {{ {child}; return 0; }}
            int status; pid_t pid;
            char *args[] = {{ \"program\", \"child\", 0 }};
            if ((pid = fork()) == 0) {{ {child}; _exit(1); }}
            if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 1) return 1;
            if ((pid = vfork()) == 0) {{ execv(\"/proc/self/exe\", args); _exit(9); }}
            if (waitpid(pid, &status, 0) != pid || status) return 2;
            if (posix_spawn(&pid, \"/proc/self/exe\", 0, 0, args, environ)) return 3;
            if (waitpid(pid, &status, 0) != pid || status) return 4;
            struct {{ unsigned long f[11]; }} a = {{ {{ 0, 0, 0, 0, SIGCHLD }} }};
            pid = syscall(435, &a, sizeof a);
            if (pid == 0) {{ {child}; _exit(5); }}
            if (pid > 0 && (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 5)) return 5;
            return 0;
        }}"
    );
    let fixture = program(&body);
    for options in option_sets() {
        let follow = options.follow;
        let traced = trace(&fixture.program, options);
        assert_eq!(traced.exit, Exit::Code(0));
        let missed: u64 = traced.images.iter().map(|image| image.program.missed.opens).sum();
        // Two forks that open the file themselves, and two programs.
        assert_eq!(missed, if follow { 4 } else { 0 }, "{:?}", traced.images);
        let programs = traced.images.iter().filter(|image| !image.forked).count();
        assert_eq!(programs, if follow { 3 } else { 1 });
        assert!(traced.images.iter().filter(|i| !i.forked).all(|image| image.reached_entry));
    }
}

#[test]
fn lookups_of_threads_count_in_their_process() {
    let look = opens_after_entry("/nonexistent-becalm/thread");
    let body = format!(
        "static void *run(void *unused) {{ for (int i = 0; i < 50; i++) {look}; return 0; }}
        int main(void) {{
            pthread_t threads[8];
            for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, run, 0);
            for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
            return 0;
        }}"
    );
    let fixture = program(&body);
    for options in option_sets() {
        let traced = trace(&fixture.program, options);
        assert_eq!(traced.exit, Exit::Code(0));
        assert_eq!(traced.images.len(), 1);
        assert_eq!(traced.images[0].program.missed.opens, 400);
    }
}

#[test]
fn a_thread_that_execs_becomes_the_process() {
    let body = "static void *run(void *path) { execl(path, path, \"again\", NULL); return 0; }
        static void *idle(void *unused) { for (;;) pause(); }
        int main(int argc, char **argv) {
            pthread_t thread;
            if (argc > 1) return 17;
            pthread_create(&thread, 0, idle, 0);
            pthread_create(&thread, 0, run, argv[0]);
            for (;;) pause();
        }";
    let fixture = program(body);
    for options in option_sets() {
        let traced = trace(&fixture.program, options);
        assert_eq!(traced.exit, Exit::Code(17));
        assert_eq!(traced.images.len(), 2);
        assert!(traced.images.iter().all(|image| image.reached_entry));
        assert_eq!(traced.images[0].pid, traced.images[1].pid);
    }
}

#[test]
fn a_wrapper_shows_where_the_real_program_begins() {
    let fixture = program("int main(void) { return 3; }");
    let wrapper = fixture.dir.path().join("wrapper");
    let line = format!("#!/bin/bash\nexec -a name {}\n", fixture.program.display());
    std::fs::write(&wrapper, line).unwrap();
    make_executable(&wrapper);
    let traced = trace(&wrapper, Options::default());
    assert_eq!(traced.exit, Exit::Code(3));
    let [shell, real] = traced.images.as_slice() else { panic!("{:?}", traced.images) };
    assert_eq!(shell.exec_path, wrapper.as_os_str().as_encoded_bytes());
    assert!(shell.path.ends_with(b"/bash"), "{}", shell.path);
    assert_eq!(real.path, fixture.program.as_os_str().as_encoded_bytes());
    assert_eq!(shell.pid, real.pid);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_program_that_calls_ptrace_gets_eperm_and_a_note() {
    let fixture = program("int main(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0) ? 7 : 0; }");
    for options in option_sets() {
        let traced = trace(&fixture.program, options);
        assert_eq!(traced.exit, Exit::Code(7));
        let traces = |note: &Note| matches!(note, Note::TracesItself { .. });
        assert!(traced.notes.iter().any(traces), "{:?}", traced.notes);
    }
}

#[test]
fn a_program_that_dies_in_the_loader_never_reaches_its_entry_point() {
    let dir = tempfile::tempdir().unwrap();
    let library =
        build(dir.path(), "libgone.so", "int gone(void) { return 0; }", &["-shared", "-fPIC"]);
    let main = "int gone(void); int main(void) { return gone(); }";
    let program = build(dir.path(), "program", main, &[library.to_str().unwrap()]);
    std::fs::remove_file(library).unwrap();
    for options in option_sets() {
        let traced = trace(&program, options);
        assert_eq!(traced.exit, Exit::Code(127));
        assert!(!traced.images[0].reached_entry);
        assert!(traced.images[0].loader.missed.opens >= 1);
        assert_eq!(traced.images[0].program.hits, 0);
    }
}

#[test]
fn a_program_never_sees_that_it_shares_a_processor() {
    let body = "static int mine(void) {
            cpu_set_t set; sched_getaffinity(0, sizeof set, &set); return CPU_COUNT(&set);
        }
        static void *inside(void *seen) { *(int *)seen = mine(); return 0; }
        static __attribute__((constructor)) void early(void) { if (getenv(\"EARLY\")) _exit(mine()); }
        int main(void) {
            int here, there, status; pthread_t thread;
            if (fork() == 0) _exit(mine());
            wait(&status);
            pthread_create(&thread, 0, inside, &there);
            pthread_join(thread, 0);
            here = mine();
            return WEXITSTATUS(status) == here && there == here ? here : 200;
        }";
    let fixture = program(body);
    let all = rustix::thread::sched_getaffinity(None).unwrap().count();
    let expected = Exit::Code(u8::try_from(all).unwrap());
    for env in [&[][..], &[("EARLY", "1")]] {
        for options in option_sets() {
            assert_eq!(trace_in(&fixture.program, env, options).exit, expected);
        }
    }
    assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), all);
}

#[test]
fn a_program_that_reads_its_affinity_shares_a_processor_again_afterwards() {
    let body = "static int mine(void) {
            cpu_set_t set; sched_getaffinity(0, sizeof set, &set); return CPU_COUNT(&set);
        }
        int main(void) {
            char line[256]; int differ = 0, first = mine();
            open(\"/proc/filesystems\", O_RDONLY); open(\"/nonexistent/a\", O_RDONLY);
            if (mine() != first) return 200;
            FILE *status = getenv(\"STATUS\") ? fopen(\"/proc/self/status\", \"r\") : 0;
            while (status && fgets(line, sizeof line, status)) {
                unsigned long allowed;
                if (sscanf(line, \"Cpus_allowed: %lx\", &allowed) == 1)
                    differ += __builtin_popcountl(allowed) != first;
            }
            open(\"/nonexistent/b\", O_RDONLY);
            return differ ? 201 : first;
        }";
    let fixture = program(body);
    let all = rustix::thread::sched_getaffinity(None).unwrap().count();
    if all < 2 {
        skip("one processor");
        return;
    }
    let expected = Exit::Code(u8::try_from(all).unwrap());
    for options in option_sets() {
        let traced = trace_in(&fixture.program, &[], options);
        assert_eq!(traced.exit, expected);
        // The cost on different processors is measured at the first lookup made there.
        assert!(traced.apart.is_none(), "the program no longer shared a processor");
    }
    // That file shows the affinity too, and the program may read it at any later time.
    let traced = trace_in(&fixture.program, &[("STATUS", "1")], Options::default());
    assert_eq!(traced.exit, expected);
    assert!(traced.apart.is_some(), "the program still shared a processor");
}

#[test]
fn a_static_program_has_no_loader_share() {
    let look = opens_after_entry("/nonexistent-becalm/static");
    let fixture = compile(&format!("{HEAD} int main(void) {{ {look}; return 0; }}"), &["-static"]);
    let traced = trace(&fixture.program, Options::default());
    let image = &traced.images[0];
    assert_eq!((image.interpreter.clone(), image.reached_entry), (None, true));
    assert_eq!((image.loader.hits, image.loader.missed.total()), (0, 0));
    assert_eq!(image.program.missed.opens, 1);
}

#[test]
fn a_program_can_be_stopped_and_continued() {
    let body = "int main(void) {
            pid_t me = getpid(), child; int status;
            if ((child = fork()) == 0) for (;;) { kill(me, SIGCONT); usleep(1000); }
            raise(SIGSTOP);
            kill(child, SIGKILL);
            wait(&status);
            return 23;
        }";
    let fixture = program(body);
    for options in option_sets() {
        assert_eq!(trace(&fixture.program, options).exit, Exit::Code(23));
    }
}

#[test]
fn after_the_entry_point_the_program_runs_untraced_and_its_lookups_work() {
    let body = "int main(void) {
            char line[256]; int traced = -1;
            FILE *f = fopen(\"/proc/self/status\", \"r\");
            while (f && fgets(line, sizeof line, f)) sscanf(line, \"TracerPid: %d\", &traced);
            return traced == 0 ? 11 : 1;
        }";
    let fixture = program(body);
    let options = Options { until_entry: true, ..Options::default() };
    let traced = trace(&fixture.program, options);
    assert_eq!(traced.exit, Exit::Running);
    assert!(traced.images[0].loader.hits >= 1);
    assert_eq!(traced.images[0].program.hits, 0);
    assert_eq!(traced.rest.unwrap().finish(), Some(Exit::Code(11)));
}

#[test]
fn children_that_outlive_the_program_are_served_to_their_end() {
    let body = "int main(int argc, char **argv) {
            pid_t parent = getpid();
            if (fork() == 0) {
                while (getppid() == parent) usleep(1000);
                FILE *f = fopen(\"/proc/self/status\", \"r\");
                FILE *out = fopen(\"orphan\", \"w\");
                fputs(f ? \"fine\" : \"blind\", out);
                fclose(out);
                _exit(0);
            }
            return 0;
        }";
    let fixture = program(body);
    for options in option_sets() {
        let orphan = fixture.dir.path().join("orphan");
        let filtered = !options.all_syscalls;
        let mut command = Command::new(&fixture.program, []);
        command.dir = Some(fixture.dir.path().to_owned());
        let traced = run(&command, options).unwrap();
        assert_eq!(traced.exit, Exit::Code(0));
        assert_eq!(traced.rest.is_some(), filtered);
        if let Some(rest) = traced.rest {
            assert_eq!(rest.finish(), None);
        }
        assert_eq!(wait_for(&orphan), "fine");
        std::fs::remove_file(orphan).unwrap();
    }
}

/// Waits until another process has written this file, and reads it.
pub(super) fn wait_for(path: &Path) -> String {
    let began = Instant::now();
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return text,
            _ if began.elapsed() > Duration::from_secs(20) => {
                panic!("{}: never written", path.display())
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[test]
fn output_and_input_pass_through() {
    // A process of its own traces, so that this test can read and write its streams.
    let Some(text) = again_with("output_and_input_pass_through", "one\ntwo\n") else {
        let traced = trace_in(Path::new("/bin/cat"), &[], Options::default());
        assert_eq!(traced.exit, Exit::Code(0));
        return;
    };
    assert!(text.contains("one\ntwo\n"), "{text}");
}

/// Runs the named test again in a process of its own with this input and returns its output.
/// Returns `None` in that process.
fn again_with(test: &str, input: &str) -> Option<String> {
    use std::io::Write;
    if std::env::var_os("BECALM_TEST_AGAIN").is_some() {
        return None;
    }
    let mut child = Host::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("trace::tests::parent::{test}"), "--nocapture"])
        .env("BECALM_TEST_AGAIN", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn signals_sent_to_the_tracer_are_forwarded() {
    let body = "static void on(int s) { _exit(s == SIGTERM ? 33 : 1); }
        int main(void) { signal(SIGTERM, on); kill(atoi(getenv(\"SENDER\")), SIGCONT); for (;;) pause(); }";
    let fixture = program(body);
    // A sender that is neither the program nor the tracer.
    let mut sender = Host::new("sh")
        .args(["-c", "trap 'kill -TERM $PPID; exit' CONT; echo; while :; do sleep 0.02; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The line says that the shell has set its trap.
    let mut line = String::new();
    BufReader::new(sender.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let id = sender.id().to_string();
    let traced = trace_in(&fixture.program, &[("SENDER", &id)], Options::default());
    assert_eq!(traced.exit, Exit::Code(33));
    // The tracer waits for all children of its thread, so it may have reaped the sender.
    let _ = sender.wait();
}

#[test]
fn a_failed_start_is_an_error_and_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let attempt = |program: &Path| {
        run(&Command::new(program, []), Options::default()).map(|_| ()).unwrap_err()
    };
    assert!(matches!(attempt(Path::new("/nonexistent-becalm")), TraceError::NotFound { .. }));
    assert!(matches!(attempt(Path::new("nonexistent-becalm")), TraceError::NotFound { .. }));
    assert!(matches!(attempt(Path::new("")), TraceError::NotFound { .. }));
    let errno = |error: TraceError| match error {
        TraceError::Exec { source, .. } => source.raw_os_error(),
        other => panic!("{other:?}"),
    };
    assert_eq!(errno(attempt(&plain)), Some(libc::EACCES));
    assert_eq!(errno(attempt(dir.path())), Some(libc::EACCES));
    make_executable(&plain);
    assert_eq!(errno(attempt(&plain)), Some(libc::ENOEXEC));
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/nonexistent-becalm\n").unwrap();
    make_executable(&script);
    assert_eq!(errno(attempt(&script)), Some(libc::ENOENT));
    let mut elsewhere = Command::new("/bin/true", []);
    elsewhere.dir = Some(plain.clone());
    let error = run(&elsewhere, Options::default()).map(|_| ()).unwrap_err();
    assert!(
        matches!(error, TraceError::Failed { path, what: "cannot be entered", .. } if path == plain)
    );
    let nul = Command::new("/bin/true", [OsString::from("a\0b")]);
    assert!(matches!(run(&nul, Options::default()), Err(TraceError::Nul { .. })));
    assert!(
        matches!(crate::trace::sys::wait(None), Err(e) if e.raw_os_error() == Some(libc::ECHILD))
    );
}
