//! Any bytes as the symbol tables and relocations of an object: no panic, no long walk, and the
//! same relocations whether the bytes are in memory or read range by range; then the object bound
//! to itself, by the rules of both C libraries.

#![no_main]

use std::sync::Arc;

use becalm_core::elf::{self, ElfError};
use becalm_core::fs::FileId;
use becalm_core::loader::load::{Load, LoadedObject, Role};
use becalm_core::loader::{GlibcVersion, Libc};
use becalm_core::symbols::{BindOptions, ObjectSymbols, SymbolFiles, SymbolReport, bind};
use libfuzzer_sys::fuzz_target;
use object::read::ReadCache;

struct Same(Arc<ObjectSymbols>);

impl SymbolFiles for Same {
    fn symbols(&self, _: &LoadedObject) -> Result<Arc<ObjectSymbols>, ElfError> {
        Ok(Arc::clone(&self.0))
    }
}

fuzz_target!(|data: &[u8]| {
    let (Ok(symbols), Ok(view)) = (ObjectSymbols::read(data), elf::parse(data)) else { return };
    let cache = ReadCache::new(std::io::Cursor::new(data));
    let ranged = ObjectSymbols::read(&cache).expect("the same bytes");
    let relocated =
        |of: &ObjectSymbols| (of.relocations.relative.clone(), of.relocations.relr.clone());
    assert_eq!(relocated(&symbols), relocated(&ranged));
    assert_eq!(symbols.symbol_count(), ranged.symbol_count());
    let object = |(path, role): (&str, Role)| LoadedObject {
        path: path.into(),
        id: FileId { dev: 1, ino: 1 },
        view: Arc::new(view.clone()),
        role,
        loaded_by: None,
        namespace: 0,
    };
    let objects = [("program", Role::Program), ("library", Role::Library)].map(object).into();
    let load = Load { objects, scope: vec![0, 1], ..Load::default() };
    let files = Same(Arc::new(symbols));
    for libc in [Libc::Glibc(GlibcVersion { major: 2, minor: 36 }), Libc::Musl] {
        if let Ok(bindings) = bind(&load, libc, &files, BindOptions::default()) {
            for (index, object) in bindings.objects.iter().enumerate() {
                for binding in &object.bindings {
                    let _ = bindings.slot(index, binding);
                }
            }
            let _ = SymbolReport::of(&load, &bindings, true);
        }
    }
});
