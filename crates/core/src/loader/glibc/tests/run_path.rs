//! Tests that [`look`] along an object's own run path agrees with the model of a start.

use bstr::{BStr, BString, ByteSlice};

use super::{base, facts, paths, program, walk};
use crate::elf::{Class, Ident};
use crate::fs::MemFs;
use crate::fs::mem::ObjectBuilder;
use crate::loader::Environment;
use crate::loader::glibc::run_path::{Look, fixed_dir, look};

/// Directories of every kind. Most have no file that answers.
const DIRS: [&str; 8] =
    ["/absent", "/file", "/file/below", "/loop", "/denied", "/entry-loop", "/entry-file", "/other"];

fn odd_tree() -> MemFs {
    let library = || ObjectBuilder::library("liba.so");
    base()
        .file("/file", "")
        .link("/loop", "/loop")
        .object("/denied/liba.so", library())
        .mode("/denied/liba.so", 0)
        .link("/entry-loop/liba.so", "/entry-loop/liba.so")
        .link("/entry-file/liba.so", "/file/liba.so")
        .object("/other/liba.so", library().class(Class::Elf32))
        .object("/good/liba.so", library())
}

/// Looks in one directory after another and returns the file that answers.
fn by_looks(fs: &MemFs, dirs: &[&str], host: &Ident, minor: u16) -> Option<BString> {
    for element in dirs {
        let dir = fixed_dir(BStr::new(element), "/bin".into()).expect("an absolute directory");
        match look(fs, dir.as_ref(), "liba.so".into(), host, Some(minor)) {
            Look::Found(_) => return Some([dir.as_bytes(), b"liba.so"].concat().into()),
            Look::Absent | Look::PassedOver | Look::Denied => {}
            Look::EndsSource(_) | Look::Refused => return None,
        }
    }
    None
}

#[test]
fn look_and_the_model_agree_on_every_odd_directory_before_the_answer() {
    for minor in [31, 36, 38, 39, 43] {
        for first in DIRS {
            for second in DIRS {
                let dirs = [first, second, "/good"];
                let program = program().needed("liba.so").runpath(dirs.join(":"));
                let fs = odd_tree().object("/bin/prog", program);
                let closure = walk(&fs, facts(minor), &Environment::default());
                let host = closure.subject.view.ident;
                let found = by_looks(&fs, &dirs, &host, minor).map(|path| path.to_string());
                assert_eq!(found, paths(&closure).pop(), "2.{minor} {dirs:?}");
            }
        }
    }
}

#[test]
fn without_a_release_an_entry_below_a_file_ends_the_source() {
    let fs = odd_tree();
    let host = ObjectBuilder::library("x").build().ident;
    let at = |minor| look(&fs, "/entry-file/".into(), "liba.so".into(), &host, minor);
    assert!(matches!(at(None), Look::EndsSource(_)));
    assert!(matches!(at(Some(39)), Look::Absent));
}

#[test]
fn a_directory_is_fixed_only_if_it_is_the_same_in_every_process() {
    let of = |element: &str| fixed_dir(BStr::new(element), "/s/p/lib".into());
    assert_eq!(of("$ORIGIN/../x//"), Some("/s/p/lib/../x/".into()));
    assert_eq!(of("/a/$HOME"), Some("/a/$HOME/".into()));
    for element in ["", "lib", "/usr/$LIB", "/x/$PLATFORM", "/", "//"] {
        assert_eq!(of(element), None, "{element}");
    }
}
