//! Compares the lookups that `LD_DEBUG=bindings` reports with the predicted bindings. This covers
//! the definers of TLS, copied and IFUNC symbols, which slots alone do not show.

use std::collections::BTreeSet;

use becalm_core::loader::load::{Load, Role};
use becalm_core::symbols::{Bindings, Definer};
use bstr::{BStr, BString, ByteSlice};

/// Symbols that the loader itself looks up for the program or in the vDSO: its own use of malloc
/// and of locks (`__rtld_malloc_init_real`, `__rtld_mutex_init`), `__libc_early_init`
/// (`_dl_call_libc_early_init`), the debugger's `_r_debug`, riscv's global pointer
/// (`elf_machine_runtime_setup`).
const OF_THE_LOADER: [&[u8]; 10] = [
    b"malloc",
    b"calloc",
    b"realloc",
    b"free",
    b"__libc_early_init",
    b"_dl_call_libc_early_init",
    b"pthread_mutex_lock",
    b"pthread_mutex_unlock",
    b"__global_pointer$",
    b"_r_debug",
];

/// One lookup: the paths of the referring and the defining object, symbol and version.
type Lookup = (BString, BString, BString, Option<BString>);

/// Returns the differences, one line each: predicted lookups that were not made, and lookups that
/// were made but not predicted. `program` is how the loader names the program.
pub(super) fn compare(
    load: &Load,
    bindings: &Bindings,
    program: &BStr,
    said: &[u8],
) -> (usize, Vec<String>) {
    let predicted = predicted(load, bindings, program);
    let made: BTreeSet<Lookup> = said.lines().filter_map(parse).collect();
    let is_own = |(from, _, symbol, _): &&Lookup| {
        from.starts_with(b"linux-") || OF_THE_LOADER.contains(&symbol.as_slice())
    };
    let mut differences = Vec::new();
    for lookup in predicted.difference(&made) {
        differences.push(format!("not looked up: {}", describe(lookup)));
    }
    for lookup in made.difference(&predicted).filter(|lookup| !is_own(lookup)) {
        differences.push(format!("not predicted: {}", describe(lookup)));
    }
    (predicted.len(), differences)
}

fn predicted(load: &Load, bindings: &Bindings, program: &BStr) -> BTreeSet<Lookup> {
    let name = |index: usize| match load.objects[index].role {
        Role::Program => program.to_owned(),
        _ => load.objects[index].path.clone(),
    };
    let mut lookups = BTreeSet::new();
    for (index, object) in bindings.objects.iter().enumerate() {
        let Some(symbols) = &object.symbols else { continue };
        for binding in &object.bindings {
            let (Definer::Object(to) | Definer::Absolute(to)) = binding.definer else { continue };
            let reference = symbols.symbol(binding.symbol);
            // Local and hidden symbols are not looked up.
            let is_global = reference.is_some_and(|s| s.binding != 0 && !s.binds_locally());
            if binding.symbol == 0 || !is_global {
                continue;
            }
            let version = symbols.symbol_version(binding.symbol).map(BString::from);
            let symbol = symbols.symbol_name(binding.symbol).into();
            lookups.insert((name(index), name(to as usize), symbol, version));
        }
    }
    lookups
}

/// `PID: binding file A [0] to B [0]: normal symbol `S' [V]`; the version is missing for a
/// reference without one.
fn parse(line: &[u8]) -> Option<Lookup> {
    let (_, rest) = line.split_once_str("binding file ")?;
    let (from, rest) = rest.split_once_str(" [0] to ")?;
    let (to, rest) = rest.split_once_str(" [0]: ")?;
    let (_, rest) = rest.split_once_str(" symbol `")?;
    let (symbol, rest) = rest.split_once_str("'")?;
    let version = rest.strip_prefix(b" [").and_then(|rest| rest.strip_suffix(b"]"));
    Some((from.into(), to.into(), symbol.into(), version.map(BString::from)))
}

fn describe((from, to, symbol, version): &Lookup) -> String {
    let version = version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
    format!("{symbol}{version} of {from} in {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_loader_is_read() {
        let line =
            b"     12:\tbinding file /usr/bin/a [0] to /lib/b.so [0]: normal symbol `f' [V1]";
        let expected = ("/usr/bin/a".into(), "/lib/b.so".into(), "f".into(), Some("V1".into()));
        assert_eq!(parse(line), Some(expected));
        let bare = b"     12:\tbinding file a [0] to b [0]: protected symbol `f'";
        assert_eq!(parse(bare), Some(("a".into(), "b".into(), "f".into(), None)));
        assert_eq!(parse(b"     12:\tbinding file a [1] to b [1]: normal symbol `f'"), None);
    }
}
