//! Changes that the process itself makes below a package: its later lookups find them at once, whatever
//! name the directory was reached by.

use std::fs;
use std::os::unix::fs::symlink;

use crate::paths::{A, B, scene, skip_here};

/// A process finds the files that it makes in a package; other packages are answered as before.
#[test]
fn what_the_process_itself_makes_is_seen_at_once() {
    if skip_here() {
        return;
    }
    let ways = [
        "close(open(in(N), O_CREAT | O_WRONLY, 0644));",
        "fclose(fopen(in(N), \"w\"));",
        "mkdir(in(N), 0755);",
        "symlink(\"x\", in(N));",
        "close(creat(in(N), 0644));",
        "mkfifo(in(N), 0644);",
        "mknod(in(N), 0100644, 0);",
        "strcpy(to, in(N)); link(in(\"lib/file\"), to);",
        "strcpy(to, in(N)); rename(in(\"lib/empty\"), to);",
        "chdir(in(\"lib\")); mkdir(N + 4, 0755);",
        "chdir(in(\"lib/python\")); strcat(strcpy(to, \"../\"), N + 4); mkdir(to, 0755);",
        "int d = open(in(\"lib\"), O_RDONLY); mkdirat(d, N + 4, 0755);",
        "syscall(SYS_mkdir, in(N), 0755);",
        "freopen(in(N), \"w\", stdin);",
    ];
    let cases = ways.iter().enumerate().map(|(at, way)| format!("case {at}: {{ {way} break; }}\n"));
    let scene = scene();
    scene.asks(
        "ask",
        &format!(
            "static char N[20], to[4096];\n
             int main(int n, char **a) {{ struct stat s; sprintf(N, \"lib/new%s\", a[1]);
               int before = lstat(in(N), &s); switch (atoi(a[1])) {{ {} }}
               printf(\"%d %d\\n\", before, lstat(in(N), &s)); }}",
            cases.collect::<String>()
        ),
    );
    scene.index_paths(&["ask"]);
    for (at, way) in ways.iter().enumerate() {
        let (ran, said) = scene.with_paths(&[scene.text("ask"), at.to_string()]);
        assert!(said.starts_with("served\t"), "{said}");
        assert_eq!(ran.stdout, "-1 0\n", "{way}");
    }
}

/// Each way makes `new` in `lib` of A or in B, by another name of the directory, as `lib64` of a
/// virtual environment is one of `lib`. The last one replaces the store.
#[test]
fn what_the_process_makes_through_another_name_of_a_directory_is_seen_at_once() {
    if skip_here() {
        return;
    }
    let ways = [
        "mkdir(in(\"lib64/new\"), 0755);",
        "close(open(in(\"lib64/new\"), O_CREAT | O_WRONLY, 0644));",
        "mkdir(in(\"../../outside/new\"), 0755);",
        "mkdir(in(\"../../outside/./python/../new//\"), 0755);",
        "mkdir(in(\"lib/link/../new\"), 0755);",
        "sprintf(to, \"/proc/self/fd/%d/new\", dir(\"lib\")); mkdir(to, 0755);",
        "sprintf(to, \"/proc/self/root%s\", in(\"lib/new\")); mkdir(to, 0755);",
        "mkdirat(dir(\"\"), \"lib64/new\", 0755);",
        "mkdirat(dir(\"lib64\"), \"new\", 0755);",
        "close(openat(dir(\"\"), \"lib64/new\", O_CREAT | O_WRONLY, 0644));",
        "chdir(in(\"../../outside\")); mkdir(\"new\", 0755);",
        "chdir(in(\"../..\")); close(creat(\"outside/new\", 0644));",
        "strcpy(to, in(\"lib/empty\")); rename(to, in(\"lib64/new\"));",
        "fclose(fopen(in(\"../../dangling\"), \"w\"));",
        "syscall(SYS_mkdirat, dir(\"lib64\"), \"new\", 0755);",
        "chdir(in(\"../..\")); rename(\"store\", \"old\"); rename(\"other\", \"store\");",
        // A child that says so.
        "pipe((int *)p); if (fork() == 0) { mkdir(in(\"lib/new\"), 0755); write(p[1], \"x\", 1); _exit(0); } read(p[0], to, 1);",
        "socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)p); \
         if (fork() == 0) { mkdir(in(\"lib/new\"), 0755); write(p[1], \"x\", 1); _exit(0); } recv(p[0], to, 1, 0);",
        "int child = fork(); if (child == 0) { mkdir(in(\"lib/new\"), 0755); _exit(0); } \
         struct pollfd end = { syscall(SYS_pidfd_open, child, 0), POLLIN, 0 }; poll(&end, 1, -1);",
        "p[0] = 0; signal(SIGUSR1, heard); int me = getpid(); \
         if (fork() == 0) { mkdir(in(\"lib/new\"), 0755); kill(me, SIGUSR1); _exit(0); } while (!p[0]) usleep(1000);",
    ];
    let cases = ways.iter().enumerate().map(|(at, way)| format!("case {at}: {{ {way} break; }}\n"));
    let scene = scene();
    symlink("lib", scene.path(A).join("lib64")).unwrap();
    symlink(scene.path(A).join("lib"), scene.path("outside")).unwrap();
    symlink(scene.path(A).join("lib/new"), scene.path("dangling")).unwrap();
    fs::create_dir_all(scene.path(&A.replace("store/", "other/")).join("lib/new")).unwrap();
    scene.asks(
        "ask",
        &format!(
            "#include <poll.h>\n#include <signal.h>\n#include <sys/socket.h>
             static char to[4096]; static volatile int p[2];
             static void heard(int number) {{ p[0] = number; }}
             static int dir(const char *p) {{ return open(in(p), O_RDONLY); }}
             int main(int n, char **a) {{ struct stat s; int before = stat(a[2], &s);
               switch (atoi(a[1])) {{ {} }}
               printf(\"%d %d\\n\", before, stat(a[2], &s)); }}",
            cases.collect::<String>()
        ),
    );
    scene.index_paths(&["ask"]);
    for (at, way) in ways.iter().enumerate() {
        let new = scene.path(if way.contains("link") { B } else { A });
        let new = if way.contains("link") { new.join("new") } else { new.join("lib/new") };
        let line = [scene.text("ask"), at.to_string(), new.to_str().unwrap().to_owned()];
        let (ran, said) = scene.with_paths(&line);
        assert!(said.starts_with("served\t"), "{said}");
        assert_eq!(ran.stdout, "-1 0\n", "way {at}: {way}");
        let _ = fs::remove_file(&new);
        let _ = fs::remove_dir(&new);
        let _ = fs::create_dir(scene.path(A).join("lib/empty"));
    }
}

/// A file that a call removes through another name is the kernel's as well.
#[test]
fn what_the_process_removes_through_another_name_is_no_file_any_more() {
    if skip_here() {
        return;
    }
    let scene = scene();
    symlink("lib", scene.path(A).join("lib64")).unwrap();
    scene.asks(
        "ask",
        r#"int main(void) { char b[4096]; errno = 0; int before = readlink(in("lib/python/pkg/m3.py"), b, sizeof b); int why = errno;
           unlink(in("lib64/python/pkg/m3.py"));
           int after = readlink(in("lib/python/pkg/m3.py"), b, sizeof b);
           printf("%d %d %d %d\n", before, why == EINVAL, after, errno == ENOENT); }"#,
    );
    scene.index_paths(&["ask"]);
    let (ran, said) = scene.with_paths(&[scene.text("ask")]);
    assert!(said.starts_with("served\t"), "{said}");
    assert_eq!(ran.stdout, "-1 1 -1 1\n");
}

#[test]
fn what_stat_says_of_a_directory_is_new_after_its_mode_owner_or_times_changed() {
    if skip_here() {
        return;
    }
    let ways = [
        "chmod(in(D), 0700);",
        "fchmod(open(in(D), O_RDONLY), 0700);",
        "fchmodat(AT_FDCWD, in(D), 0700, 0);",
        "chown(in(D), -1, -1); chmod(in(D), 0700);",
        "utimensat(AT_FDCWD, in(D), old, 0);",
        "futimens(open(in(D), O_RDONLY), old);",
        "utimes(in(D), 0);",
        "syscall(SYS_fchmodat, AT_FDCWD, in(D), 0700);",
        "char c[4096]; sprintf(c, \"chmod 700 '%s'\", in(D)); system(c);",
        "int p[2]; pipe(p); if (fork() == 0) { chmod(in(D), 0700); write(p[1], \"x\", 1); _exit(0); } \
         char c; read(p[0], &c, 1);",
    ];
    let cases = ways.iter().enumerate().map(|(at, way)| format!("case {at}: {{ {way} break; }}\n"));
    let scene = scene();
    scene.asks(
        "ask",
        &format!(
            "#include <sys/time.h>
             static const char *D = \"lib/python\";
             int main(int n, char **a) {{ struct stat one, two, now; struct timespec old[2] = {{ {{ 5, 5 }}, {{ 6, 6 }} }};
               stat(in(D), &one); stat(in(D), &two);
               switch (atoi(a[1])) {{ {} }}
               stat(in(D), &two); fstat(open(in(D), O_PATH), &now);
               printf(\"%d %d\\n\", memcmp(&one.st_mode, &now.st_mode, 4) != 0 || one.st_ctim.tv_nsec != now.st_ctim.tv_nsec,
                 memcmp(&two, &now, sizeof now)); }}",
            cases.collect::<String>()
        ),
    );
    scene.index_paths(&["ask"]);
    for (at, way) in ways.iter().enumerate() {
        fs::set_permissions(
            scene.path(A).join("lib/python"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        let (ran, said) = scene.with_paths(&[scene.text("ask"), at.to_string()]);
        assert!(said.starts_with("served\t"), "{said}");
        assert_eq!(ran.stdout, "1 0\n", "{way}");
    }
}
