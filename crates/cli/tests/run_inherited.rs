//! `becalm run` and `becalm trace` start a program with the signals, descriptors and environment that
//! they were started with.

mod support;

use std::path::Path;
use std::process::Command;

use support::store::{Store, nothing_to_test_with, text};
use support::{cc, run};

/// Prints whether `SIGPIPE` is ignored, which standard streams are open, and the environment.
const PROGRAM: &str = r#"
    #include <fcntl.h>
    #include <signal.h>
    #include <stdio.h>
    extern char **environ;
    int main(int count, char **arguments) {
        struct sigaction action;
        sigaction(SIGPIPE, 0, &action);
        FILE *out = fopen(arguments[1], "w");
        fprintf(out, "pipe %d\n", action.sa_handler == SIG_IGN);
        for (int stream = 0; stream < 3; stream++)
            fprintf(out, "stream %d %d\n", stream, fcntl(stream, F_GETFD) != -1);
        for (char **at = environ; *at; at++)
            fprintf(out, "%s\n", *at);
    }"#;

/// Executes its second argument and those after it, with more in the environment. The first has a
/// digit for each standard stream that is closed, and `p` if `SIGPIPE` is ignored.
const LAUNCHER: &str = r#"
    #include <signal.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    extern char **environ;
    int main(int count, char **arguments) {
        char *added[64] = {"TWICE=1", "TWICE=2", "NO_SIGN", "=nothing"};
        int at = 4;
        for (char **old = environ; *old && at < 63; old++)
            if (strncmp(*old, "HOME=", 5) == 0 || strncmp(*old, "PATH=", 5) == 0 ||
                strncmp(*old, "XDG_", 4) == 0)
                added[at++] = *old;
        for (char *what = arguments[1]; *what; what++)
            if (*what == 'p') signal(SIGPIPE, SIG_IGN);
            else close(*what - '0');
        execve(arguments[2], arguments + 2, added);
        return 99;
    }"#;

struct Scene {
    store: Store,
}

impl Scene {
    fn new() -> Self {
        let store = Store::new();
        for (name, source) in [("program", PROGRAM), ("launcher", LAUNCHER)] {
            std::fs::write(store.path(&format!("{name}.c")), source).expect("written");
            cc(&store.path("."), &[&format!("{name}.c"), "-o", name]);
        }
        Self { store }
    }

    /// Returns what the program prints when it is started with `before` in front of its path.
    fn start(&self, state: &str, before: &[&str]) -> Vec<String> {
        let (out, program) = (self.store.path("out"), self.store.path("program"));
        let becalm = self.store.becalm(&[]);
        let mut command = Command::new(self.store.path("launcher"));
        command.env_clear().arg(state);
        command.envs(becalm.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if !before.is_empty() {
            command.arg(Path::new(becalm.get_program())).args(before);
        }
        let ran = run(command.arg(text(&program)).arg(text(&out)));
        assert_eq!(ran.code, Some(0), "{before:?}: {ran:?}");
        let written = std::fs::read_to_string(&out).expect("written by the program");
        std::fs::remove_file(&out).expect("removed");
        written.lines().map(str::to_owned).collect()
    }
}

#[test]
fn signals_streams_and_environment_are_as_without_becalm() {
    if nothing_to_test_with() {
        return;
    }
    let scene = Scene::new();
    // What becalm sets itself.
    let own = ["LD_AUDIT=", "GLIBC_TUNABLES=", "BECALM=learn:"];
    for state in ["", "p", "0", "1", "2", "p012"] {
        let plain = scene.start(state, &[]);
        assert!(plain.contains(&"TWICE=2".to_owned()) && plain.contains(&"NO_SIGN".to_owned()));
        assert!(plain.contains(&format!("pipe {}", u8::from(state.contains('p')))), "{plain:?}");
        for before in [&["run", "--strict", "--"][..], &["run", "--"], &["trace", "--"]] {
            let mut started = scene.start(state, before);
            started.retain(|line| !own.iter().any(|name| line.starts_with(name)));
            assert_eq!(started, plain, "{before:?} with {state:?}");
        }
    }
}
