//! Encodes an [`Index`] as the bytes of a table.

use std::sync::Arc;

use bstr::{BStr, BString};
use rustc_hash::FxHashMap;

use super::encoder::{Encoder, Section};
use super::layout::{self, Writer, kind};
use super::{
    Condition, Directory, Edge, EncodeError, Fingerprint, Index, Object, Program, SearchDir,
    Target, hash,
};
use super::{bound, origins, paths};

/// Returns the bytes of the table of an index, in the byte order of `target`.
///
/// # Errors
/// Returns [`EncodeError`] if the index does not fit the format or contradicts itself.
pub fn encode(index: &Index, target: Target) -> Result<Vec<u8>, EncodeError> {
    let conditions = index.conditions();
    let mut encoder = Encoder::new(target, &conditions);
    let (sorted, buckets) = encoder.in_buckets(&index.objects, |object| &object.path);
    let objects = encoder.objects(&sorted, &index.search_dirs)?;
    let origins = origins::encode(&index.folders, &sorted, &mut encoder)?;
    let conditions = encoder.conditions(conditions)?;
    let roots = encoder.set(&index.roots)?;
    let search_dirs = encoder.search_dirs(&index.search_dirs)?;
    let directories = encoder.directories(&index.directories)?;
    let (sorted, program_buckets) = encoder.in_buckets(&index.programs, |program| &program.path);
    let programs = encoder.programs(sorted)?;
    let bound = bound::encode(&index.bound, &mut encoder)?;
    let paths = index.paths.as_ref().map(|it| paths::encode(it, &mut encoder)).transpose()?;
    let Encoder { edges, pool, strings, .. } = encoder;
    let mut sections = vec![
        // These come first, so that one read has the header and the sections of an index of one
        // program.
        (kind::PROGRAMS, programs),
        (kind::PROGRAM_BUCKETS, program_buckets),
        (kind::OBJECTS, objects),
        (kind::BUCKETS, buckets),
        (kind::EDGES, edges),
        (kind::CONDITIONS, conditions),
        (kind::POOL, pool),
        (kind::DIRECTORIES, directories),
        (kind::SEARCH_DIRS, search_dirs),
        (kind::STRINGS, strings),
        (kind::ORIGINS, origins),
    ];
    sections.extend(bound);
    sections.extend(paths.into_iter().flatten());
    assemble(target, &sections, roots, index)
}

fn first_root(index: &Index) -> &BStr {
    let path = index.roots.first().map_or(BStr::new("/"), |root| root.path());
    if path.len() < layout::TRAILER { path } else { BStr::new("/") }
}

/// Writes the header, the section directory, the sections and the trailer.
fn assemble(
    target: Target,
    sections: &[Section],
    roots: u32,
    index: &Index,
) -> Result<Vec<u8>, EncodeError> {
    let narrow = |size: usize| layout::narrow(size, "more than 4 GiB of table");
    let first = layout::HEADER + sections.len() * layout::SECTION;
    let mut directory = Writer::new(target.endian);
    let mut body = Writer::new(target.endian);
    for (kind, records) in sections {
        let (at, count) = (first + body.bytes.len(), records.bytes.len() / kind.size);
        directory.words([kind.number, narrow(at)?, narrow(count)?, narrow(kind.size)?]);
        body.bytes.extend_from_slice(&records.bytes);
        body.align();
    }
    let length = narrow(first + body.bytes.len() + layout::BACKWARD + layout::TRAILER)?;
    body.words([0, length]);
    let (trailer, trailer_at) = (first_root(index), body.bytes.len());
    // Leading slashes do not change a path. The trailer ends at the end of the table, so that a
    // reader of the path has seen the last byte.
    body.bytes.resize(trailer_at + layout::TRAILER - 1 - trailer.len(), b'/');
    body.bytes.extend_from_slice(trailer);
    body.bytes.push(0);

    let mut table = Writer::new(target.endian);
    table.bytes.extend_from_slice(layout::MAGIC);
    table.words([layout::ORDER, layout::VERSION, layout::machine_word(target), length]);
    table.word(sections.len() as u32);
    let static_tls = index.programs.iter().map(|program| program.needs.static_tls).max();
    table.words([roots, index.settings, static_tls.unwrap_or(0)]);
    table.bytes.resize(layout::HEADER, 0);
    table.bytes.extend_from_slice(&directory.bytes);
    table.bytes.extend_from_slice(&body.bytes);
    let checksum = hash::bytes(0, &table.bytes);
    let mut number = Writer::new(target.endian);
    number.long(checksum);
    table.bytes[layout::HEADER_CHECKSUM..][..8].copy_from_slice(&number.bytes);
    table.set_word(layout::FILTERS, index.filters);
    table.set_word(layout::FLAGS, u32::from(index.is_told) * layout::TOLD);
    let seed = hash::bytes(0, &directory.bytes);
    let check = hash::low(seed, &table.bytes[..layout::HEADER_CHECK]);
    table.set_word(layout::HEADER_CHECK, check);
    Ok(table.bytes)
}

impl Encoder {
    /// Sorts items by the buckets of their paths. Returns the end of each bucket as well: one more than
    /// the position of its last item.
    fn in_buckets<'i, T>(
        &self,
        items: &'i [T],
        path: impl Fn(&T) -> &BString,
    ) -> (Vec<&'i T>, Writer) {
        let count = items.len().max(1);
        let bucket = |item: &T| bucket_of(path(item), count);
        let mut sorted: Vec<&T> = items.iter().collect();
        sorted.sort_by_cached_key(|&item| (bucket(item), path(item)));
        let mut buckets = Writer::new(self.target.endian);
        let mut end = 0;
        for number in 0..count {
            end += sorted[end..].iter().take_while(|item| bucket(item) == number).count();
            buckets.word(end as u32);
        }
        (sorted, buckets)
    }

    fn objects(&mut self, objects: &[&Object], dirs: &[SearchDir]) -> Result<Writer, EncodeError> {
        let dirs: FxHashMap<_, u32> = dirs.iter().map(|dir| &dir.path).zip(0..).collect();
        let number = |dir: &Arc<BString>| {
            dirs.get(&**dir).copied().ok_or_else(|| EncodeError::NoSuchFolder(BString::clone(dir)))
        };
        self.records(objects, |encoder, record, object| {
            let rpath = match &object.rpath {
                Some(dirs) => {
                    let numbers: Vec<u32> = dirs.iter().map(number).collect::<Result<_, _>>()?;
                    encoder.numbers(&numbers)? + 1
                }
                None => 0,
            };
            let in_stores = match &object.in_stores[..] {
                [] => 0,
                dirs => encoder.set(dirs)? + 1,
            };
            let path = encoder.string(&object.path)?;
            let edges = encoder.edge_list(object)?;
            let flags = (u32::from(object.canonical) * layout::OBJECT_CANONICAL)
                | (u32::from(object.closed) * layout::OBJECT_CLOSED)
                | (u32::from(object.is_program) * layout::OBJECT_PROGRAM);
            record.words([path, edges, object.edges.len() as u32, object.run_path]);
            record.words([flags, rpath, in_stores]);
            Ok(hash::bytes(0, &object.path))
        })
    }

    /// Writes an object's edges and returns their place. Objects with the same answers share them.
    fn edge_list(&mut self, object: &Object) -> Result<u32, EncodeError> {
        let mut sorted: Vec<&Edge> = object.edges.iter().collect();
        sorted.sort_by_key(|edge| (hash::low(0, edge.needed()), &edge.path));
        let list = self.records(sorted, |encoder, record, edge| {
            let path = encoder.string(&edge.path)?;
            let flags = (u32::from(edge.before_library_path) * layout::EDGE_BEFORE_LIBRARY_PATH)
                | (u32::from(edge.outside) * layout::EDGE_OUTSIDE)
                | (u32::from(edge.look) * layout::EDGE_LOOK);
            let set = encoder.set(&edge.conditions)?;
            record.words([hash::low(0, edge.needed()), path, set | flags]);
            Ok(hash::bytes(u64::from(object.run_path), &edge.path))
        })?;
        if let Some(&place) = self.edge_lists.get(&list.bytes) {
            return Ok(place);
        }
        let place =
            layout::narrow(self.edges.bytes.len() / kind::EDGES.size, "more than 4 G edges")?;
        self.edges.bytes.extend_from_slice(&list.bytes);
        self.edge_lists.insert(list.bytes, place);
        Ok(place)
    }

    fn programs(&mut self, programs: Vec<&Program>) -> Result<Writer, EncodeError> {
        self.records(programs, |encoder, record, program| {
            record.word(encoder.string(&program.path)?);
            record.word(encoder.string(&program.interpreter)?);
            let no_start = u32::from(program.needs.no_start) * layout::PROGRAM_NO_START;
            record.words([program.needs.static_tls, no_start]);
            record.words([program.load_order as u32, (program.load_order >> 32) as u32]);
            record.words([program.seen, 0, 0]);
            Ok(hash::bytes(0, &program.path))
        })
    }

    fn conditions(&mut self, conditions: Vec<&Arc<Condition>>) -> Result<Writer, EncodeError> {
        self.records(conditions, |encoder, record, condition| {
            let (kind, path, Fingerprint { volume, ino, size, mtime, ctime }) = condition.parts();
            record.words([encoder.string(path)?, kind]);
            [volume, ino, size].into_iter().for_each(|number| record.long(number));
            record.times(mtime, ctime);
            record.word(0);
            Ok(hash::bytes(0, path))
        })
    }

    fn directories(&mut self, directories: &[Directory]) -> Result<Writer, EncodeError> {
        let mut sorted: Vec<&Directory> = directories.iter().collect();
        sorted.sort_by_key(|directory| (hash::low(0, &directory.path), &directory.path));
        self.records(sorted, |encoder, record, Directory { path, condition, names }| {
            record.words([hash::low(0, path), encoder.string(path)?]);
            record.word(encoder.condition(condition));
            record.words(encoder.names(names.as_deref().unwrap_or_default())?);
            record.word(u32::from(names.is_some()) * layout::DIRECTORY_HAS_NAMES);
            Ok(hash::bytes(0, path))
        })
    }

    fn search_dirs(&mut self, dirs: &[SearchDir]) -> Result<Writer, EncodeError> {
        // The place of a set must fit into fewer bits than that of names, so sets come first.
        for dir in dirs {
            self.set(&dir.conditions)?;
        }
        self.records(dirs, |encoder, record, dir| {
            record.words([encoder.string(&dir.path)?, encoder.set(&dir.conditions)?]);
            record.words(encoder.names(&dir.names)?);
            record.words([u32::from(dir.look) * layout::SEARCH_DIR_LOOK, 0]);
            Ok(hash::bytes(0, &dir.path))
        })
    }

    /// Writes the names of a directory, two words each with the upper one first. Returns place,
    /// count and check.
    fn names(&mut self, names: &[hash::NameHash]) -> Result<[u32; 3], EncodeError> {
        let mut names = names.to_vec();
        names.sort_unstable();
        let start = self.pool.bytes.len();
        for name in &names {
            self.pool.words([(name.0 >> 32) as u32, name.0 as u32]);
        }
        let place = layout::narrow(start / 4, "too many names of directories")?;
        let check = hash::low(0, &self.pool.bytes[start..]);
        Ok([place, names.len() as u32, check])
    }
}

/// Returns the bucket of a path, without a division because 32-bit machines have none for 64 bits.
pub(super) fn bucket_of(path: &[u8], buckets: usize) -> usize {
    (((hash::bytes(0, path) >> 32) * buckets as u64) >> 32) as usize
}
