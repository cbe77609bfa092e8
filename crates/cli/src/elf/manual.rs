//! The manual's sections of `becalm elf`.

/// The sections at the end of the help and the page of `becalm elf`.
pub(crate) const ELF: &[&str] = &[STATUS, DIFFERENCES, EXAMPLES];

const STATUS: &str = "Exit status
0
    All files were printed and edited, or needed no edit.
2
    A file could not be read or edited; the reason is on stderr. The other files are edited.";

const DIFFERENCES: &str = "Differences from patchelf
undo
    `becalm undo FILE` restores the bytes before the first edit. Edits in any order and number leave
    one appended segment.
refused
    Files that an edit could break: a payload after the ELF file (AppImage, makeself, upx), the
    dynamic section of a static program, the dynamic loader. The file is not changed.
not there
    --rename-dynamic-symbols. --page-size is only checked, because becalm aligns new segments to the
    largest page size of the machine. --no-sort and --no-clobber-old-sections have no effect. An
    empty run path is removed.
@FILE
    As a value: the content of the file, as with patchelf.";

const EXAMPLES: &str = "Examples
becalm elf --print-rpath --print-needed /usr/bin/git
    Its needed strings and its run path.
becalm elf --set-rpath '$ORIGIN/../lib' bin/program
    Another run path.
becalm elf --shrink-rpath --build-resolution-cache bin/*
    As a package's last step.";
