//! Encodes an [`Index`] as the bytes of a table.

use bstr::{BStr, BString};

use super::encoder::{Encoder, Section};
use super::layout::{self, Writer, kind};
use super::origins::{Origins, Tree};
use super::{
    Condition, Directory, Edge, EncodeError, Fingerprint, Index, Loader, Object, Program,
    SearchDir, Target, hash,
};
use super::{bound, paths};

/// Returns the bytes of the table of an index, in the byte order of `target`.
///
/// # Errors
/// Returns [`EncodeError`] if the index does not fit the format or contradicts itself.
pub fn encode(index: &Index, target: Target) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder::new(target);
    let (objects, buckets) = encoder.objects(index)?;
    let origins = encoder.origins(index)?;
    let conditions = encoder.conditions(&index.conditions)?;
    let roots = encoder.set(&index.roots, index.conditions.len())?;
    let search_dirs = encoder.search_dirs(&index.search_dirs, index.conditions.len())?;
    let directories = encoder.directories(&index.directories, index.conditions.len())?;
    let loader = encoder.loader(index.loader.as_ref())?;
    let (programs, program_buckets) = encoder.programs(&index.programs)?;
    let bound = bound::encode(&index.bound, &mut encoder, index.conditions.len())?;
    let paths = index.paths.as_ref().map(|it| paths::encode(it, &mut encoder)).transpose()?;
    let Encoder { edges, pool, strings, .. } = encoder;
    let mut sections = vec![
        // These come first, so that one read has the header and the sections of an index of one
        // program.
        (kind::PROGRAMS, programs),
        (kind::PROGRAM_BUCKETS, program_buckets),
        (kind::LOADER, loader),
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
    let static_tls = index.programs.iter().map(|program| program.static_tls).max();
    let words = [roots, index.settings, static_tls.unwrap_or(0)];
    assemble(target, &sections, words, index, first_root(index))
}

fn first_root(index: &Index) -> &BStr {
    let root = index.roots.first().and_then(|&root| index.conditions.get(root as usize));
    let path = root.map_or(BStr::new("/"), Condition::path);
    if path.len() < layout::TRAILER { path } else { BStr::new("/") }
}

/// Writes the header with `words` (roots, settings, static TLS), the section directory, the
/// sections and the trailer.
fn assemble(
    target: Target,
    sections: &[Section],
    words: [u32; 3],
    index: &Index,
    trailer: &BStr,
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
    let trailer_at = body.bytes.len();
    // Leading slashes do not change a path. The trailer ends at the end of the table, so that a
    // reader of the path has seen the last byte.
    body.bytes.resize(trailer_at + layout::TRAILER - 1 - trailer.len(), b'/');
    body.bytes.extend_from_slice(trailer);
    body.bytes.push(0);

    let mut table = Writer::new(target.endian);
    table.bytes.extend_from_slice(layout::MAGIC);
    table.words([layout::ORDER, layout::VERSION, layout::machine_word(target), length]);
    table.word(sections.len() as u32);
    table.words(words);
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
    /// Encodes the sources of the answers, for `--update`.
    fn origins(&mut self, index: &Index) -> Result<Writer, EncodeError> {
        let tree = Tree::of(&index.folders);
        let mut names = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            names.push(self.string(&node.name)?);
        }
        let mut origins = Origins::new(self.target.endian, &tree, &names, index.objects.len());
        for at in in_buckets(&paths_of(&index.objects)) {
            origins.object(&index.objects[at])?;
        }
        Ok(origins.finish())
    }

    /// Writes the object records, sorted by bucket, and the buckets with their ends.
    fn objects(&mut self, index: &Index) -> Result<(Writer, Writer), EncodeError> {
        let paths = paths_of(&index.objects);
        let records = self.records(in_buckets(&paths), |encoder, record, at| {
            let object = &index.objects[at];
            let rpath = match &object.rpath {
                Some(dirs) => encoder.set(dirs, index.search_dirs.len())? + 1,
                None => 0,
            };
            let in_stores = match &object.in_stores[..] {
                [] => 0,
                dirs => encoder.set(dirs, index.conditions.len())? + 1,
            };
            let path = encoder.string(&object.path)?;
            let edges = encoder.edge_list(object, index.conditions.len())?;
            let flags = (u32::from(object.canonical) * layout::OBJECT_CANONICAL)
                | (u32::from(object.closed) * layout::OBJECT_CLOSED)
                | (u32::from(object.is_program) * layout::OBJECT_PROGRAM);
            record.words([path, edges, object.edges.len() as u32, object.run_path]);
            record.words([flags, rpath, in_stores]);
            Ok(hash::bytes(0, &object.path))
        })?;
        Ok((records, self.buckets(&paths)))
    }

    /// Writes the end of each bucket: one more than the position of its last record.
    fn buckets(&self, paths: &[&BString]) -> Writer {
        let count = paths.len().max(1);
        let mut ends = vec![0_u32; count];
        for (position, at) in in_buckets(paths).into_iter().enumerate() {
            ends[bucket_of(paths[at], count)] = position as u32 + 1;
        }
        let mut buckets = Writer::new(self.target.endian);
        let mut end = 0;
        for own in ends {
            end = own.max(end);
            buckets.word(end);
        }
        buckets
    }

    /// Writes an object's edges and returns their place. Objects with the same answers share them.
    fn edge_list(&mut self, object: &Object, conditions: usize) -> Result<u32, EncodeError> {
        let mut sorted: Vec<(u32, &Edge)> =
            object.edges.iter().map(|edge| (hash::low(0, edge.needed()), edge)).collect();
        sorted.sort_by(|a, b| (a.0, &a.1.path).cmp(&(b.0, &b.1.path)));
        let list = self.records(sorted, |encoder, record, (name_hash, edge)| {
            let path = encoder.string(&edge.path)?;
            let set = encoder.set(&edge.conditions, conditions)?;
            record.words([name_hash, path, set | flags_of(edge)]);
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

    fn loader(&mut self, loader: Option<&Loader>) -> Result<Writer, EncodeError> {
        let list = |elements: &[BString]| BString::from(bstr::join(":", elements));
        let optional = |value: &Option<BString>| value.clone().unwrap_or_default();
        self.records(loader, |encoder, record, loader| {
            let strings = [
                optional(&loader.cache_path),
                list(&loader.system_dirs),
                list(&loader.hwcaps),
                optional(&loader.platform),
                loader.lib.clone(),
            ];
            record.word(encoder.string(&loader.paths)?);
            record.word(u32::from(loader.release.major) << 16 | u32::from(loader.release.minor));
            for string in &strings {
                record.word(encoder.string(string)?);
            }
            let flags = (u32::from(loader.cache_path.is_some()) * layout::LOADER_HAS_CACHE)
                | (u32::from(loader.platform.is_some()) * layout::LOADER_HAS_PLATFORM);
            record.words([flags, 0]);
            Ok(0)
        })
    }

    /// Writes the program records, sorted by bucket, and the buckets.
    fn programs(&mut self, programs: &[Program]) -> Result<(Writer, Writer), EncodeError> {
        let paths: Vec<&BString> = programs.iter().map(|program| &program.path).collect();
        let records = self.records(in_buckets(&paths), |encoder, record, at| {
            let program = &programs[at];
            record.word(encoder.string(&program.path)?);
            record.word(encoder.string(&program.interpreter)?);
            let no_start = u32::from(program.no_start) * layout::PROGRAM_NO_START;
            record.words([program.static_tls, no_start]);
            record.words([program.load_order as u32, (program.load_order >> 32) as u32]);
            record.words([program.seen, 0, 0]);
            Ok(hash::bytes(0, &program.path))
        })?;
        Ok((records, self.buckets(&paths)))
    }

    fn conditions(&mut self, conditions: &[Condition]) -> Result<Writer, EncodeError> {
        self.records(conditions, |encoder, record, condition| {
            let (kind, path, Fingerprint { volume, ino, size, mtime, ctime }) = condition.parts();
            record.words([encoder.string(path)?, kind]);
            [volume, ino, size].into_iter().for_each(|number| record.long(number));
            record.times(mtime, ctime);
            record.word(0);
            Ok(hash::bytes(0, path))
        })
    }

    fn directories(
        &mut self,
        directories: &[Directory],
        conditions: usize,
    ) -> Result<Writer, EncodeError> {
        let mut sorted: Vec<(u32, &Directory)> = directories
            .iter()
            .map(|directory| (hash::low(0, &directory.path), directory))
            .collect();
        sorted.sort_by(|a, b| (a.0, &a.1.path).cmp(&(b.0, &b.1.path)));
        self.records(sorted, |encoder, record, (path_hash, directory)| {
            let Directory { path, condition, names } = directory;
            if *condition as usize >= conditions {
                return Err(EncodeError::NoSuchGuard(*condition));
            }
            record.words([path_hash, encoder.string(path)?, *condition]);
            record.words(encoder.names(names.as_deref().unwrap_or_default())?);
            record.word(u32::from(names.is_some()) * layout::DIRECTORY_HAS_NAMES);
            Ok(hash::bytes(0, path))
        })
    }

    fn search_dirs(
        &mut self,
        dirs: &[SearchDir],
        conditions: usize,
    ) -> Result<Writer, EncodeError> {
        // The place of a set must fit into fewer bits than that of names, so sets come first.
        let mut sets = Vec::with_capacity(dirs.len());
        for dir in dirs {
            sets.push(self.set(&dir.conditions, conditions)?);
        }
        self.records(dirs.iter().zip(sets), |encoder, record, (dir, set)| {
            record.words([encoder.string(&dir.path)?, set]);
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

fn paths_of(objects: &[Object]) -> Vec<&BString> {
    objects.iter().map(|object| &object.path).collect()
}

/// Returns the positions of paths in the order of the table.
fn in_buckets(paths: &[&BString]) -> Vec<usize> {
    let count = paths.len().max(1);
    let mut order: Vec<usize> = (0..paths.len()).collect();
    order.sort_by_cached_key(|&at| (bucket_of(paths[at], count), paths[at]));
    order
}

fn flags_of(edge: &Edge) -> u32 {
    (u32::from(edge.before_library_path) * layout::EDGE_BEFORE_LIBRARY_PATH)
        | (u32::from(edge.outside) * layout::EDGE_OUTSIDE)
        | (u32::from(edge.look) * layout::EDGE_LOOK)
}
