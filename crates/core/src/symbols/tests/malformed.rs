//! Damaged tables: an error or other bindings, but neither a panic nor a long walk.

use object::elf::{R_X86_64_GLOB_DAT, R_X86_64_RELATIVE};

use super::image::{Image, Sym};
use super::load_of;
use crate::symbols::tests::Built;
use crate::symbols::{BindOptions, ObjectSymbols, SymbolReport, bind};

fn image(sysv: bool) -> Image {
    let image = Image::new("prog")
        .defines(1, "prog", true)
        .defines(2, "V1", false)
        .needs(3, "prog", "V1", false)
        .symbol(Sym::undefined("f").version(3))
        .symbol(Sym::defined("f", 8).version(2))
        .symbol(Sym::defined("g", 16).hidden_version(2))
        .relocate(R_X86_64_GLOB_DAT, "f")
        .relocate(R_X86_64_RELATIVE, "")
        .relr(&[0x110, 0b101]);
    if sysv { image.sysv() } else { image }
}

/// Reads the tables and, if that succeeds, binds them.
fn follow(bytes: &[u8], whole: &Image) {
    let Ok(symbols) = ObjectSymbols::read(bytes) else { return };
    for index in 0..symbols.symbol_count().min(100) {
        let _ = (symbols.symbol_name(index), symbols.symbol_version(index));
    }
    let load = load_of(std::slice::from_ref(whole));
    let built = Built(vec![("prog".into(), std::sync::Arc::new(symbols))]);
    for libc in [super::GLIBC, crate::facts::Libc::Musl] {
        if let Ok(bindings) = bind(&load, libc, &built, BindOptions::default()) {
            let _ = SymbolReport::of(&load, &bindings, true);
        }
    }
}

#[test]
fn no_flipped_byte_and_no_shorter_file_makes_it_panic() {
    for sysv in [false, true] {
        let whole = image(sysv);
        let bytes = whole.build();
        for at in 0..bytes.len() {
            follow(&bytes[..at], &whole);
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                follow(&damaged, &whole);
            }
        }
    }
}
