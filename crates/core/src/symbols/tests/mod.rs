//! Tests of the lookup rules, on objects built by hand.

mod image;
mod lookup;
mod malformed;
mod relocations;
mod starts;
mod versions;

use std::sync::Arc;

use bstr::BString;

use super::{BindOptions, Binding, Bindings, Definer, ObjectSymbols, SymbolFiles, bind};
use crate::elf::{self, ElfError};
use crate::facts::{GlibcVersion, Libc};
use crate::fs::FileId;
use crate::loader::load::{Load, LoadedObject, Role};
use image::Image;

const GLIBC: Libc = Libc::Glibc(GlibcVersion { major: 2, minor: 36 });

/// The objects by path.
struct Built(Vec<(BString, Arc<ObjectSymbols>)>);

impl SymbolFiles for Built {
    fn symbols(&self, object: &LoadedObject) -> Result<Arc<ObjectSymbols>, ElfError> {
        let found = self.0.iter().find(|(path, _)| *path == object.path);
        let (_, symbols) = found.ok_or(ElfError::Unreadable(crate::fs::Errno::NOENT.0))?;
        Ok(Arc::clone(symbols))
    }
}

/// The first object is the program, the others are libraries in the order of the scope.
fn load_of(images: &[Image]) -> Load {
    let object = |(index, image): (usize, &Image)| LoadedObject {
        path: image.name.as_str().into(),
        id: FileId { dev: 1, ino: index as u64 },
        view: Arc::new(elf::parse(image.build().as_slice()).expect("an object")),
        role: if index == 0 { Role::Program } else { Role::Library },
        loaded_by: (index > 0).then_some(0),
        namespace: 0,
    };
    let objects: Vec<LoadedObject> = images.iter().enumerate().map(object).collect();
    Load { scope: (0..objects.len()).collect(), objects, ..Load::default() }
}

fn bound_by(images: &[Image], libc: Libc, options: BindOptions) -> Bindings {
    let read = |image: &Image| {
        let symbols = ObjectSymbols::read(image.build().as_slice()).expect("its tables");
        (image.name.as_str().into(), Arc::new(symbols))
    };
    let built = Built(images.iter().map(read).collect());
    bind(&load_of(images), libc, &built, options).expect("bindings")
}

fn bound(images: &[Image]) -> Bindings {
    bound_by(images, GLIBC, BindOptions::default())
}

/// The binding of an object's relocation of this index.
fn one(bindings: &Bindings, object: usize, relocation: usize) -> Binding {
    bindings.objects[object].bindings[relocation]
}

/// The definer of the program's first relocation.
fn definer(images: &[Image]) -> Definer {
    one(&bound(images), 0, 0).definer
}
