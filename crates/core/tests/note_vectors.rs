//! Runs the cases of `vectors/` against the readers and writers of this crate.

use becalm_core::closure::{Subject, resolve};
use becalm_core::edit::Edit;
use becalm_core::elf::resolution_note::{Answer, COMPLETE, NoteError, Record, records};
use becalm_core::elf::{self, ObjectView};
use becalm_core::facts::Readers;
use becalm_core::loader::{Environment, GlibcVersion, Libc, LoaderFacts, facts};
use becalm_core::probe::Call;
use becalm_core::search::Stores;
use becalm_core::strategy::{Settings, note, patchelf};
use becalm_testing::elf::{FileHeader, encoding, segment, write};
use becalm_testing::mem::{MemFs, ObjectBuilder};
use becalm_testing::vectors::{Case, cases, unescaped};
use bstr::{BString, ByteSlice};
use object::elf::{ET_DYN, PF_R, PT_LOAD, PT_NOTE};

/// The directory of a case, which the vectors call `@`.
const ROOT: &str = "/r";
const PROGRAM: &str = "/r/s/p/bin/prog";

fn list(record: &Record<'_>) -> BString {
    let element = |answer: &Answer<'_>| match answer {
        Answer::Exact(path) => [b"=", path.as_bytes()].concat(),
        Answer::Hint(dir) => [b"?", dir.as_bytes()].concat(),
    };
    bstr::join(":", record.answers.iter().map(element)).into()
}

#[test]
fn descriptors_are_read_as_the_vectors_say() {
    for case in cases("descriptors.txt", ROOT) {
        let name = &case.name;
        let bytes = case.bytes("descriptor").expect("a descriptor");
        let read: Result<Vec<_>, NoteError> = records(&bytes).collect();
        let verdict = match &read {
            Err(_) => "invalid",
            Ok(_) if bytes.starts_with(COMPLETE) => "complete",
            Ok(_) => "unmarked",
        };
        assert_eq!(Some(verdict), case.one("verdict"), "{name}");
        let read = read.unwrap_or_default();
        let lookup = |name: &[u8]| read.iter().find(|record| record.needed == name).map(list);
        for line in case.all("list") {
            let (needed, expected) = line.split_once(' ').unwrap_or((line, ""));
            assert_eq!(lookup(&unescaped(needed)), Some(unescaped(expected).into()), "{name}");
        }
        for needed in case.all("none") {
            assert_eq!(lookup(&unescaped(needed)), None, "{name}");
        }
    }
}

#[test]
fn notes_are_found_in_segments_as_the_vectors_say() {
    for case in cases("segments.txt", ROOT) {
        let bytes = case.bytes("segment").expect("a segment");
        let align = case.one("align").map_or(4, |align| align.parse().expect("a number"));
        let (encoding, size) = (encoding(true, false), bytes.len() as u64);
        let (mut file, header) =
            (Vec::new(), FileHeader { e_type: ET_DYN, ..FileHeader::default() });
        let head = write(&mut file, encoding, &header, 2, |writer| {
            let start = writer.write_align(8);
            writer.write(&bytes);
            let of = |kind, align| segment(kind, PF_R, start, size, 0, align);
            vec![of(PT_LOAD, 0x1000), of(PT_NOTE, align)]
        });
        file[..head.len()].copy_from_slice(&head);
        let view = elf::parse(file.as_slice()).expect("an object");
        assert_eq!(view.notes.resolution, case.bytes("descriptor"), "{}", case.name);
    }
}

/// Makes the file system of a case, with the program's note.
fn files(case: &Case, interpreter: &str, note: Option<Vec<u8>>) -> MemFs {
    let mut program = ObjectBuilder::program().interpreter(interpreter);
    for needed in case.all("needed") {
        program = program.needed(needed);
    }
    for path in case.all("runpath") {
        program = program.runpath(path);
    }
    for path in case.all("rpath") {
        program = program.rpath(path);
    }
    let mut view: ObjectView = program.into();
    view.notes.resolution = note;
    let mut fs = MemFs::new().object(PROGRAM, view);
    for path in case.all("dir") {
        fs = fs.dir(path);
    }
    for path in case.all("junk") {
        fs = fs.file(path, "no library");
    }
    for path in case.all("file") {
        fs = fs.object(path, ObjectBuilder::library(""));
    }
    fs.object(interpreter, ObjectBuilder::library(""))
}

/// The note of a layout: its descriptor, or a complete one with its records.
fn note_of(case: &Case) -> Option<Vec<u8>> {
    let mut bytes = COMPLETE.to_vec();
    for record in case.all("note") {
        let (needed, list) = record.split_once(' ').unwrap_or((record, ""));
        bytes.extend([needed.as_bytes(), b"\0", list.as_bytes(), b"\0"].concat());
    }
    bytes.push(0);
    case.bytes("descriptor").or_else(|| case.one("note").map(|_| bytes))
}

#[test]
fn layouts_are_searched_as_the_vectors_say() {
    let glibc = Libc::Glibc(GlibcVersion { major: 2, minor: 41 });
    for (column, libc, interpreter) in
        [("glibc", glibc, "/lib64/ld-linux-x86-64.so.2"), ("musl", Libc::Musl, "/lib/ld-musl.so.1")]
    {
        for mut case in cases("layouts.txt", ROOT) {
            case.lines.push(("needed".into(), "liba.so".into()));
            let fs = files(&case, interpreter, note_of(&case));
            let environment = Environment {
                library_path: case.one("library-path").map(BString::from),
                secure: case.one("secure").is_some(),
                reads: Readers { note: true, ..Readers::default() },
                ..Environment::default()
            };
            let subject = Subject::open(&fs, PROGRAM.into()).expect("the program");
            let facts = LoaderFacts { libc, ..facts::musl() };
            let closure = resolve(&fs, subject, interpreter.into(), facts, &environment);
            let closure = closure.expect("a start");
            let opens = closure.probes().filter(|probe| probe.call == Call::Open);
            let paths = opens.map(|probe| probe.path.to_string());
            let opened: Vec<String> = paths.filter(|path| path.starts_with("/r/")).collect();
            let expected = case.one(column).or(case.one("opens")).expect("the opens");
            assert_eq!(opened.join(" "), expected, "{column}: {}", case.name);
        }
    }
}

#[test]
fn descriptors_are_written_as_the_vectors_say() {
    for case in cases("writers.txt", ROOT) {
        let fs = files(&case, "/lib64/ld-linux-x86-64.so.2", None);
        let subject = Subject::open(&fs, PROGRAM.into()).expect("the program");
        let stores = Stores::parse(format!("{ROOT}/s").as_str().into());
        let settings = Settings { stores, glibc_minor: Some(41), ..Settings::default() };
        let plan = note::plan(&fs, &subject, &settings);
        let written = plan.files[0].edits.iter().find_map(|edit| match edit {
            Edit::ResolutionNote(descriptor) => descriptor.clone(),
            _ => None,
        });
        let shown = |bytes: Option<Vec<u8>>| bytes.map(BString::from);
        assert_eq!(shown(written), shown(case.bytes("becalm")), "{}", case.name);
        let written = patchelf::descriptor(&fs, &subject.view);
        assert_eq!(shown(written), shown(case.bytes("patchelf")), "{}", case.name);
    }
}
