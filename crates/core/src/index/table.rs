//! Reads the bytes of a table as an [`Index`], for `verify` and `--update`.
//!
//! This reader is stricter than the module's. The module ignores a damaged record, and this reader
//! returns an error for it.

use std::sync::Arc;

use bstr::BString;

use super::layout::{self, kind};
use super::records::{Conditions, Table, condition_at};
use super::{
    Condition, Directory, Edge, Fingerprint, Index, Object, Program, SearchDir, Start, TableError,
    Target, hash,
};
use super::{bound, origins, paths};

impl<'a> Table<'a> {
    /// Reads the header of a table and checks its checksum.
    ///
    /// # Errors
    /// Returns [`TableError`] if the bytes are not a table, or if it is damaged.
    pub fn read(bytes: &'a [u8]) -> Result<Self, TableError> {
        let table = Self::unchecked(bytes)?;
        let at = layout::HEADER_CHECKSUM;
        let mut zeroed = bytes.to_vec();
        zeroed[at..layout::HEADER].fill(0);
        if table.reader.long(at) == Some(hash::bytes(0, &zeroed)) {
            Ok(table)
        } else {
            Err(TableError::Damaged("its checksum does not fit"))
        }
    }

    /// Returns the machine of the table.
    #[must_use]
    pub fn target(&self) -> Target {
        self.header.target
    }

    /// Reads the content of the table.
    ///
    /// # Errors
    /// Returns [`TableError::Damaged`] if a record is outside the table or its check does not
    /// match.
    pub fn index(&self) -> Result<Index, TableError> {
        let objects = self.section(kind::OBJECTS)?;
        self.section(kind::BUCKETS)?;
        self.section(kind::PROGRAM_BUCKETS)?;
        let (folders, origins) = origins::read(self, objects.count)?;
        let with_origins = objects.records().zip(origins);
        let known = &self.all(kind::CONDITIONS, Self::condition)?;
        let search_dirs = self.all(kind::SEARCH_DIRS, |it, at| it.search_dir(at, known))?;
        let dirs: Vec<_> = search_dirs.iter().map(|dir| Arc::new(dir.path.clone())).collect();
        let object = |(at, origins)| self.object(at, origins, known, &dirs);
        Ok(Index {
            objects: with_origins.map(object).collect::<Result<_, _>>()?,
            folders,
            settings: self.header.settings,
            filters: self.header.filters,
            is_told: self.header.flags & layout::TOLD != 0,
            roots: self.set(self.header.roots, known)?,
            directories: self.all(kind::DIRECTORIES, |it, at| it.directory(at, known))?,
            search_dirs,
            programs: self.all(kind::PROGRAMS, Self::program)?,
            bound: bound::read(self, known)?,
            paths: paths::read(self)?,
        })
    }

    /// Reads an object with these origins. Conditions and directories are those of the table.
    fn object(
        &self,
        at: usize,
        origins: Object,
        known: Conditions<'_>,
        dirs: &[Arc<BString>],
    ) -> Result<Object, TableError> {
        let path = self.path(at, 0, kind::OBJECTS)?;
        let edges = self.part(kind::EDGES, at + 4, "an object's answers leave it")?;
        let (run_path, flags) = (self.word(at + 12)?, self.word(at + 16)?);
        let edge = |at| self.edge(at, run_path, known);
        Ok(Object {
            path: path.to_owned(),
            canonical: flags & layout::OBJECT_CANONICAL != 0,
            closed: flags & layout::OBJECT_CLOSED != 0,
            is_program: flags & layout::OBJECT_PROGRAM != 0,
            run_path,
            in_stores: match self.word(at + 24)? {
                0 => Vec::new(),
                place => self.set(place - 1, known)?,
            },
            rpath: self.rpath(at, dirs)?,
            edges: edges.records().map(edge).collect::<Result<_, _>>()?,
            ..origins
        })
    }

    /// Reads the `DT_RPATH` of an object.
    fn rpath(
        &self,
        at: usize,
        dirs: &[Arc<BString>],
    ) -> Result<Option<Vec<Arc<BString>>>, TableError> {
        let Some(numbers) = self.optional_numbers(at + 20)? else { return Ok(None) };
        let rpath = numbers.iter().map(|&dir| dirs.get(dir as usize).cloned());
        rpath
            .collect::<Option<Vec<_>>>()
            .map(Some)
            .ok_or(TableError::Damaged("a DT_RPATH leaves it"))
    }

    /// Reads the numbers whose place is at `at`, plus one.
    pub(super) fn optional_numbers(&self, at: usize) -> Result<Option<Vec<u32>>, TableError> {
        self.word(at)?.checked_sub(1).map(|place| self.numbers(place)).transpose()
    }

    fn search_dir(&self, at: usize, known: Conditions<'_>) -> Result<SearchDir, TableError> {
        let path = self.path(at, 0, kind::SEARCH_DIRS)?;
        Ok(SearchDir {
            path: path.to_owned(),
            conditions: self.set(self.word(at + 4)?, known)?,
            look: self.word(at + 20)? & layout::SEARCH_DIR_LOOK != 0,
            names: self.names(at + 8)?,
        })
    }

    fn edge(&self, at: usize, run_path: u32, known: Conditions<'_>) -> Result<Edge, TableError> {
        let path = self.string(self.word(at + 4)?)?;
        self.check(at, kind::EDGES.size, hash::bytes(u64::from(run_path), path))?;
        let flags = self.word(at + 8)?;
        Ok(Edge {
            path: path.to_owned(),
            before_library_path: flags & layout::EDGE_BEFORE_LIBRARY_PATH != 0,
            outside: flags & layout::EDGE_OUTSIDE != 0,
            look: flags & layout::EDGE_LOOK != 0,
            conditions: self.set(flags & layout::EDGE_SET, known)?,
        })
    }

    /// Reads a set of conditions.
    fn set(&self, place: u32, known: Conditions<'_>) -> Result<Vec<Arc<Condition>>, TableError> {
        let condition = |number: u32| condition_at(known, number);
        self.numbers(place)?.into_iter().map(condition).collect()
    }

    fn numbers(&self, place: u32) -> Result<Vec<u32>, TableError> {
        let pool = self.section(kind::POOL)?;
        let outside = TableError::Damaged("a set of guards leaves it");
        let start = pool.record(place as usize).ok_or(outside.clone())?;
        let count = self.word(start)? as usize;
        pool.part(place as usize, count + 2).ok_or(outside)?;
        self.check(start, 4 * (count + 2), u64::from(place))?;
        (1..=count).map(|word| self.word(start + 4 * word)).collect()
    }

    fn condition(&self, at: usize) -> Result<Arc<Condition>, TableError> {
        let path = self.path(at, 0, kind::CONDITIONS)?.to_owned();
        let (volume, ino) = (self.long(at + 8)?, self.long(at + 16)?);
        let (size, (mtime, ctime)) = (self.long(at + 24)?, self.times(at + 32)?);
        let fingerprint = Fingerprint { volume, ino, size, mtime, ctime };
        Ok(Arc::new(match self.word(at + 4)? {
            layout::CONDITION_DIRECTORY => Condition::Directory(path, fingerprint),
            layout::CONDITION_ABSENT => Condition::Absent(path),
            layout::CONDITION_FILE => Condition::File(path, fingerprint),
            layout::CONDITION_IMAGE_DIRECTORY => Condition::ImageDirectory(path, fingerprint),
            layout::CONDITION_IMAGE_FILE => Condition::ImageFile(path, fingerprint),
            layout::CONDITION_LOADER => Condition::Loader(path),
            layout::CONDITION_STORE_DIRECTORY => Condition::StoreDirectory(path, fingerprint),
            layout::CONDITION_ABSENT_PACKAGE => Condition::AbsentPackage(path),
            _ => return Err(TableError::Damaged("a guard of unknown kind")),
        }))
    }

    fn directory(&self, at: usize, known: Conditions<'_>) -> Result<Directory, TableError> {
        let path = self.path(at, 4, kind::DIRECTORIES)?;
        let has_names = self.word(at + 24)? & layout::DIRECTORY_HAS_NAMES != 0;
        let names = if has_names { Some(self.names(at + 12)?) } else { None };
        let condition = condition_at(known, self.word(at + 8)?)?;
        Ok(Directory { path: path.to_owned(), condition, names })
    }

    /// Reads the names. Their place, count and check are at `at`.
    fn names(&self, at: usize) -> Result<Vec<hash::NameHash>, TableError> {
        let (first, count) = (self.word(at)? as usize, self.word(at + 4)? as usize);
        let pool = self.section(kind::POOL)?;
        let names = count.checked_mul(2).and_then(|words| pool.part(first, words));
        let start = names.ok_or(TableError::Damaged("a directory's names leave it"))?.at;
        if self.word(at + 8)? != hash::low(0, &self.reader.bytes[start..start + 8 * count]) {
            return Err(TableError::Damaged("the check of a directory's names does not fit"));
        }
        (0..count)
            .map(|name| {
                let high = u64::from(self.word(start + 8 * name)?);
                Ok(hash::NameHash(high << 32 | u64::from(self.word(start + 8 * name + 4)?)))
            })
            .collect()
    }

    fn program(&self, at: usize) -> Result<Program, TableError> {
        let path = self.path(at, 0, kind::PROGRAMS)?;
        let no_start = self.word(at + 12)? & layout::PROGRAM_NO_START != 0;
        Ok(Program {
            path: path.to_owned(),
            interpreter: self.string(self.word(at + 4)?)?.to_owned(),
            needs: Start { static_tls: self.word(at + 8)?, no_start },
            load_order: u64::from(self.word(at + 16)?) | u64::from(self.word(at + 20)?) << 32,
            seen: self.word(at + 24)?,
        })
    }
}
