//! Programs whose rights the kernel withholds under a tracer, and a tracer that lacks the right to
//! trace.

use std::path::Path;

use super::fixture::{run, trace};
use super::parent::program;
use crate::trace::tracer::DROPPED;
use crate::trace::{Command, Exit, Note, Options, TraceError};
use becalm_testing::skip;

/// Traces the program in `tree`, as a user without rights.
fn assert_rights_are_dropped(tree: &Path) {
    let traced = trace(&tree.join("program"), Options::default());
    assert_eq!(traced.exit, Exit::Code(6));
    let dropped = |note: &Note| matches!(note, Note::OfProgram { what, .. } if *what == DROPPED);
    assert!(traced.notes.iter().any(dropped), "{:?}", traced.notes);
    assert!(traced.notes.contains(&Note::NoNewPrivileges), "{:?}", traced.notes);
}

#[test]
fn a_program_with_capabilities_runs_without_them_and_gets_a_note() {
    let name =
        "trace::tests::rights::a_program_with_capabilities_runs_without_them_and_gets_a_note";
    if let Some(tree) = std::env::var_os("BECALM_TEST_TREE") {
        return assert_rights_are_dropped(Path::new(&tree));
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give capabilities to a file");
    }
    use std::os::unix::fs::PermissionsExt;
    // CapEff of its own status shows whether it has any.
    let body = "int main(void) {
            char line[256]; unsigned long long effective = 1;
            FILE *f = fopen(\"/proc/self/status\", \"r\");
            while (f && fgets(line, sizeof line, f)) sscanf(line, \"CapEff: %llx\", &effective);
            return effective ? 1 : 6;
        }";
    let fixture = program(body);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(fixture.dir.path(), open).unwrap();
    // struct vfs_ns_cap_data's shorter form: revision 2 with the effective bit, then
    // permitted and inheritable, 32 bits each, low halves first; 13 is CAP_NET_RAW.
    let words = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    let none = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&fixture.program, "security.capability", &words, none).is_err() {
        return skip("this file system keeps no capabilities");
    }
    becalm_testing::test_user::run_again(name, fixture.dir.path());
}

#[test]
fn a_set_id_program_runs_without_its_rights_and_gets_a_note() {
    let name = "trace::tests::rights::a_set_id_program_runs_without_its_rights_and_gets_a_note";
    if let Some(tree) = std::env::var_os("BECALM_TEST_TREE") {
        return assert_rights_are_dropped(Path::new(&tree));
    }
    if !rustix::process::geteuid().is_root() {
        return skip("only root can make a set-id program of root");
    }
    use std::os::unix::fs::PermissionsExt;
    let fixture = program("int main(void) { return geteuid() == 0 ? 1 : 6; }");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(fixture.dir.path(), 0o755);
    mode(&fixture.program, 0o4755);
    becalm_testing::test_user::run_again(name, fixture.dir.path());
}

#[test]
fn a_forbidden_ptrace_is_an_error_of_its_own() {
    let forbidden = std::thread::spawn(|| {
        forbid_ptrace_in_this_thread();
        run(&Command::new("/bin/true", []), Options::default()).map(|_| ())
    });
    let error = forbidden.join().unwrap().unwrap_err();
    assert!(matches!(error, TraceError::NotPermitted { .. }), "{error:?}");
}

/// Installs a filter that forbids `ptrace`, as a container's policy does.
#[allow(unsafe_code, reason = "a filter has no safe form")]
fn forbid_ptrace_in_this_thread() {
    let step = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_ptrace as u32, 0, 1),
        step(libc::BPF_RET | libc::BPF_K, 0x0005_0000 | libc::EPERM as u32, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0x7fff_0000, 0, 0),
    ];
    let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel reads four instructions from an array of that length.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let set = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, 0, &raw const program), 0);
    }
}
