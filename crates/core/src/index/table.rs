//! The bytes of a table → [`Index`], for `verify` and `--update`.
//!
//! Stricter than the module's reader: there a damaged record is one that gives no answer,
//! here it is an error, for who verifies an index wants to know.

use bstr::{BStr, BString};
use thiserror::Error;

use super::layout::{self, Reader};
use super::origins::{Origin, OriginsReader as Origins};
use super::{Directory, Edge, Guard, Index, Object, Stamp, Target, Time, hash};
use crate::elf::Endian;

/// Why bytes are no table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// They do not start as a table does.
    #[error("not an index")]
    NotATable,
    /// Of a format version that is not known here.
    #[error("an index of format version {0}, not {v}", v = layout::VERSION)]
    OtherVersion(u32),
    /// Shorter or longer than the header says.
    #[error("the index is cut short or has bytes too many")]
    WrongLength,
    /// A checksum does not fit, or a place leaves the table.
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
}

/// A table whose header and checksum hold.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    reader: Reader<'a>,
    target: Target,
}

/// A section: where it starts, how many records it has.
#[derive(Clone, Copy)]
struct Section {
    at: usize,
    count: usize,
    size: usize,
}

const OBJECTS: usize = 24;
const BUCKETS: usize = 32;
const EDGES: usize = 40;
const GUARDS: usize = 48;
const POOL: usize = 56;
const DIRECTORIES: usize = 64;
const STRINGS: usize = 72;
const ROOTS: usize = 80;

impl<'a> Table<'a> {
    /// Takes bytes for a table.
    ///
    /// # Errors
    /// [`TableError`] where they are none, or not whole.
    pub fn read(bytes: &'a [u8]) -> Result<Self, TableError> {
        let table = Self::header(bytes)?;
        table.check_whole()?;
        Ok(table)
    }

    /// A table whose header holds, whatever the rest.
    #[cfg(test)]
    pub(super) fn unchecked(bytes: &'a [u8]) -> Option<Self> {
        Self::header(bytes).ok()
    }

    fn header(bytes: &'a [u8]) -> Result<Self, TableError> {
        if !bytes.starts_with(layout::MAGIC) || bytes.len() < layout::HEADER {
            return Err(TableError::NotATable);
        }
        let endian = match (Reader { endian: Endian::Little, bytes }).word(8) {
            Some(layout::ORDER) => Endian::Little,
            Some(order) if order.swap_bytes() == layout::ORDER => Endian::Big,
            _ => return Err(TableError::NotATable),
        };
        let reader = Reader { endian, bytes };
        let word = |at| reader.word(at).ok_or(TableError::WrongLength);
        if word(12)? != layout::VERSION {
            return Err(TableError::OtherVersion(word(12)?));
        }
        let target = layout::target_of(word(16)?)
            .filter(|target| target.endian == endian)
            .ok_or(TableError::Damaged("it names no machine"))?;
        if word(20)? as usize != bytes.len() || bytes.len() < layout::HEADER + layout::TRAILER {
            return Err(TableError::WrongLength);
        }
        if word(layout::HEADER_CHECK)? != hash::low(0, &bytes[..layout::HEADER_CHECK]) {
            return Err(TableError::Damaged("its header"));
        }
        Ok(Self { reader, target })
    }

    /// The machine it is for.
    #[must_use]
    pub fn target(&self) -> Target {
        self.target
    }

    fn check_whole(&self) -> Result<(), TableError> {
        let mut zeroed = self.reader.bytes.to_vec();
        zeroed[layout::HEADER_CHECKSUM..layout::HEADER].fill(0);
        if self.reader.long(layout::HEADER_CHECKSUM) == Some(hash::bytes(0, &zeroed)) {
            Ok(())
        } else {
            Err(TableError::Damaged("its checksum does not fit"))
        }
    }

    /// All that it says.
    ///
    /// # Errors
    /// [`TableError::Damaged`] where a record leaves the table or its check does not fit.
    pub fn index(&self) -> Result<Index, TableError> {
        let objects = self.section(OBJECTS, layout::OBJECT)?;
        let guards = self.section(GUARDS, layout::GUARD)?;
        let directories = self.section(DIRECTORIES, layout::DIRECTORY)?;
        self.section(BUCKETS, 4)?;
        let origins = Origins::read(self.reader, objects.count)?;
        let object = |(index, at)| {
            let Origin { seen, searched, left } = origins.object(index)?;
            Ok(Object { seen, left, searched, ..self.object(at)? })
        };
        Ok(Index {
            objects: objects.records().enumerate().map(object).collect::<Result<_, _>>()?,
            folders: origins.folders(|place| self.string(place))?,
            settings: self.word(layout::SETTINGS)?,
            guards: guards.records().map(|at| self.guard(at)).collect::<Result<_, _>>()?,
            roots: self.set(self.word(ROOTS)?)?,
            directories: directories
                .records()
                .map(|at| self.directory(at))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Paths of the stores' own directories.
    ///
    /// # Errors
    /// As [`Self::index`].
    pub fn roots(&self) -> Result<Vec<BString>, TableError> {
        let guards = self.section(GUARDS, layout::GUARD)?;
        let roots = self.set(self.word(ROOTS)?)?;
        roots
            .into_iter()
            .map(|root| {
                let at = guards.records().nth(root as usize);
                let at = at.ok_or(TableError::Damaged("a root is no guard"))?;
                self.guard(at).map(|guard| guard.path().to_owned())
            })
            .collect()
    }

    /// The largest need of static TLS among its programs ([`Object::static_tls`]).
    ///
    /// # Errors
    /// As [`Self::index`].
    pub fn static_tls(&self) -> Result<u32, TableError> {
        let objects = self.section(OBJECTS, layout::OBJECT)?;
        objects.records().map(|at| self.word(at + 20)).try_fold(0, |most, one| Ok(most.max(one?)))
    }

    /// Its programs that do not start under any audit module ([`Object::no_start`]).
    ///
    /// # Errors
    /// As [`Self::index`].
    pub fn no_start(&self) -> Result<Vec<BString>, TableError> {
        let mut found = Vec::new();
        for at in self.section(OBJECTS, layout::OBJECT)?.records() {
            if self.word(at + 16)? & layout::OBJECT_NO_START != 0 {
                found.push(self.string(self.word(at)?)?.to_owned());
            }
        }
        Ok(found)
    }

    fn word(&self, at: usize) -> Result<u32, TableError> {
        self.reader.word(at).ok_or(TableError::Damaged("a record leaves it"))
    }

    fn long(&self, at: usize) -> Result<u64, TableError> {
        self.reader.long(at).ok_or(TableError::Damaged("a record leaves it"))
    }

    fn section(&self, place: usize, size: usize) -> Result<Section, TableError> {
        let (at, count) = (self.word(place)? as usize, self.word(place + 4)? as usize);
        let end = count.checked_mul(size).and_then(|bytes| bytes.checked_add(at));
        match end {
            Some(end) if end <= self.reader.bytes.len() => Ok(Section { at, count, size }),
            _ => Err(TableError::Damaged("a section leaves it")),
        }
    }

    fn string(&self, place: u32) -> Result<&'a BStr, TableError> {
        let strings = self.section(STRINGS, 1)?;
        let section = Reader {
            endian: self.reader.endian,
            bytes: &self.reader.bytes[strings.at..strings.at + strings.count],
        };
        let at = place as usize;
        let length = section.half(at).map(usize::from);
        let bytes = length.and_then(|length| section.bytes.get(at + 2..at + 3 + length));
        match bytes {
            Some([string @ .., 0]) => Ok(BStr::new(string)),
            _ => Err(TableError::Damaged("a string leaves it")),
        }
    }

    /// Fails where the last word of a record is not the check of the others.
    fn check(&self, at: usize, size: usize, seed: u64) -> Result<(), TableError> {
        let record = &self.reader.bytes[at..at + size - 4];
        if self.word(at + size - 4)? == hash::low(seed, record) {
            Ok(())
        } else {
            Err(TableError::Damaged("a record's check does not fit"))
        }
    }

    fn object(&self, at: usize) -> Result<Object, TableError> {
        let path = self.string(self.word(at)?)?;
        self.check(at, layout::OBJECT, hash::bytes(0, path))?;
        let (first, count) = (self.word(at + 4)? as usize, self.word(at + 8)? as usize);
        let (run_path, flags) = (self.word(at + 12)?, self.word(at + 16)?);
        let edges = self.section(EDGES, layout::EDGE)?;
        if first.checked_add(count).is_none_or(|end| end > edges.count) {
            return Err(TableError::Damaged("an object's answers leave it"));
        }
        let edges = Section { at: edges.at + first * layout::EDGE, count, ..edges };
        Ok(Object {
            path: path.to_owned(),
            canonical: flags & layout::OBJECT_CANONICAL != 0,
            closed: flags & layout::OBJECT_CLOSED != 0,
            no_start: flags & layout::OBJECT_NO_START != 0,
            is_program: flags & layout::OBJECT_PROGRAM != 0,
            run_path,
            static_tls: self.word(at + 20)?,
            seen: 0,
            searched: Vec::new(),
            left: [0; 8],
            edges: edges.records().map(|at| self.edge(at, run_path)).collect::<Result<_, _>>()?,
        })
    }

    fn edge(&self, at: usize, run_path: u32) -> Result<Edge, TableError> {
        let path = self.string(self.word(at + 4)?)?;
        self.check(at, layout::EDGE, hash::bytes(u64::from(run_path), path))?;
        let flags = self.word(at + 8)?;
        Ok(Edge {
            path: path.to_owned(),
            before_library_path: flags & layout::EDGE_BEFORE_LIBRARY_PATH != 0,
            known_rpaths: flags & layout::EDGE_KNOWN_RPATHS != 0,
            no_rpaths: flags & layout::EDGE_NO_RPATHS != 0,
            outside: flags & layout::EDGE_OUTSIDE != 0,
            look: flags & layout::EDGE_LOOK != 0,
            guards: self.set(flags & layout::EDGE_SET)?,
        })
    }

    fn set(&self, place: u32) -> Result<Vec<u32>, TableError> {
        let pool = self.section(POOL, 4)?;
        let outside = TableError::Damaged("a set of guards leaves it");
        let start = pool.at + 4 * place as usize;
        let count = if (place as usize) < pool.count { self.word(start)? as usize } else { 0 };
        if (place as usize).checked_add(count + 2).is_none_or(|end| end > pool.count) {
            return Err(outside);
        }
        self.check(start, 4 * (count + 2), u64::from(place))?;
        (1..=count).map(|word| self.word(start + 4 * word)).collect()
    }

    fn guard(&self, at: usize) -> Result<Guard, TableError> {
        let path: BString = self.string(self.word(at)?)?.to_owned();
        self.check(at, layout::GUARD, hash::bytes(0, &path))?;
        let time = |sec: usize, nsec: usize| {
            Ok(Time { sec: self.long(at + sec)?.cast_signed(), nsec: self.word(at + nsec)? })
        };
        let stamp = Stamp {
            dev: self.long(at + 8)?,
            ino: self.long(at + 16)?,
            size: self.long(at + 24)?,
            mtime: time(32, 48)?,
            ctime: time(40, 52)?,
        };
        match self.word(at + 4)? {
            layout::GUARD_DIRECTORY => Ok(Guard::Directory(path, stamp)),
            layout::GUARD_ABSENT => Ok(Guard::Absent(path)),
            layout::GUARD_FILE => Ok(Guard::File(path, stamp)),
            layout::GUARD_LOADER => Ok(Guard::Loader(path)),
            layout::GUARD_ABSENT_PACKAGE => Ok(Guard::AbsentPackage(path)),
            _ => Err(TableError::Damaged("a guard of unknown kind")),
        }
    }

    fn directory(&self, at: usize) -> Result<Directory, TableError> {
        let path = self.string(self.word(at + 4)?)?;
        self.check(at, layout::DIRECTORY, hash::bytes(0, path))?;
        let has_names = self.word(at + 24)? & layout::DIRECTORY_HAS_NAMES != 0;
        let names = if has_names { Some(self.names(at)?) } else { None };
        Ok(Directory { path: path.to_owned(), guard: self.word(at + 8)?, names })
    }

    fn names(&self, at: usize) -> Result<Vec<hash::NameHash>, TableError> {
        let pool = self.section(POOL, 4)?;
        let (first, count) = (self.word(at + 12)? as usize, self.word(at + 16)? as usize);
        let end = count.checked_mul(2).and_then(|words| words.checked_add(first));
        if end.is_none_or(|end| end > pool.count) {
            return Err(TableError::Damaged("a directory's names leave it"));
        }
        let start = pool.at + 4 * first;
        if self.word(at + 20)? != hash::low(0, &self.reader.bytes[start..start + 8 * count]) {
            return Err(TableError::Damaged("the check of a directory's names does not fit"));
        }
        (0..count)
            .map(|name| {
                let high = u64::from(self.word(start + 8 * name)?);
                Ok(hash::NameHash(high << 32 | u64::from(self.word(start + 8 * name + 4)?)))
            })
            .collect()
    }
}

impl Section {
    /// Where each record starts.
    fn records(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |index| self.at + index * self.size)
    }
}
