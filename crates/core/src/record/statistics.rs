//! Parses what glibc's loader counts of a start (`LD_DEBUG=statistics`, `print_statistics` of
//! `rtld.c`).

use bstr::ByteSlice;

/// The counts of one start. The loader times itself on x86 and ppc64le alone, in the units of its
/// clock. glibc prints these times without their last digit: `HP_TIMING_PRINT` ends the text one byte
/// early (2.30 to 2.43).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The whole time of the loader, as printed.
    pub total: Option<u64>,
    /// The time of relocation, as printed.
    pub relocation: Option<u64>,
    /// The time of loading the objects, as printed.
    pub loading: Option<u64>,
    /// Symbols that were looked up.
    pub lookups: u64,
    /// Relocations that use the symbol of the lookup before.
    pub cached: u64,
    /// Relative relocations.
    pub relative: u64,
}

/// Parses the first start in the loader's output; `None` if there is none.
#[must_use]
pub fn parse(output: &[u8]) -> Option<Statistics> {
    let value = |title: &str| {
        let mut values = output.lines().filter_map(|line| {
            let text = line.trim_ascii().split_once_str(":")?.1;
            let (name, value) = text.trim_ascii().split_once_str(": ")?;
            let number = value.split_str(" ").next()?;
            (name == title.as_bytes()).then(|| number.to_str().ok()?.parse().ok())?
        });
        values.next()
    };
    Some(Statistics {
        total: value("total startup time in dynamic loader"),
        relocation: value("time needed for relocation"),
        loading: value("time needed to load objects"),
        lookups: value("number of relocations")?,
        cached: value("number of relocations from cache")?,
        relative: value("number of relative relocations")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &[u8] = b"      1821:\t
      1821:\truntime linker statistics:
      1821:\t  total startup time in dynamic loader: 222408 cycles
      1821:\t            time needed for relocation: 41938 cycles (18.8%)
      1821:\t                 number of relocations: 101
      1821:\t      number of relocations from cache: 7
      1821:\t        number of relative relocations: 4437
      1821:\t           time needed to load objects: 41184 cycles (18.5%)
      1821:\t
      1821:\truntime linker statistics:
      1821:\t           final number of relocations: 264
      1821:\tfinal number of relocations from cache: 9
";

    #[test]
    fn the_counts_are_those_of_the_start() {
        let expected = Statistics {
            total: Some(222_408),
            relocation: Some(41_938),
            loading: Some(41_184),
            lookups: 101,
            cached: 7,
            relative: 4_437,
        };
        assert_eq!(parse(OUTPUT), Some(expected));
        assert_eq!(parse(&[OUTPUT, OUTPUT].concat()), Some(expected));
        let untimed: Vec<&[u8]> =
            OUTPUT.lines_with_terminator().filter(|line| !line.contains_str("time")).collect();
        let without = Statistics { total: None, relocation: None, loading: None, ..expected };
        assert_eq!(parse(&untimed.concat()), Some(without));
    }

    #[test]
    fn output_truncated_anywhere_is_parsed_and_what_a_process_says_at_its_end_is_no_start() {
        for end in 0..OUTPUT.len() {
            let _ = parse(&OUTPUT[..end]);
        }
        let (_, end) = OUTPUT.split_once_str("(18.5%)\n").expect("two parts");
        assert_eq!(parse(end), None);
    }
}
