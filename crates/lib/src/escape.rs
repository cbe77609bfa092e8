//! Makes paths and strings of untrusted files safe for one line of a terminal.
//!
//! A file name may contain newlines and escape sequences. Printed unchanged, they could forge a
//! line of the report or control the terminal.

use std::path::Path;

use becalm_host::path::path_bytes;
use bstr::BStr;

/// Returns the bytes as text without control characters: those, characters that reorder or hide
/// text, and bytes that are not UTF-8 appear as `\n`, `\t`, `\x1b`, `\u{202e}`.
#[must_use]
pub fn shown(bytes: &BStr) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if c.is_ascii_control() => text += &(c as u8).escape_ascii().to_string(),
                c if c.is_control() || is_invisible(c) => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        text += &chunk.invalid().escape_ascii().to_string();
    }
    text
}

/// As [`shown`], for a path.
#[must_use]
pub fn shown_path(path: &Path) -> String {
    shown(path_bytes(path).as_ref())
}

/// True for characters of Unicode's "bidirectional control" and "default ignorable" kinds, and its
/// line separators.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{e0000}'..='\u{e007f}')
}

/// Shortens text to at most `width` characters. The middle is cut, so that the start of a store
/// path and the name of the file remain.
#[must_use]
pub fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = kept / 2;
    let tail = kept - head;
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_cannot_forge_a_line() {
        assert_eq!(shown(b"a\nb\r\tc".into()), "a\\nb\\r\\tc");
    }

    #[test]
    fn an_escape_sequence_does_not_reach_the_terminal() {
        assert_eq!(shown(b"\x1b[31mred\x07\x7f".into()), "\\x1b[31mred\\x07\\x7f");
        assert_eq!(shown("\u{9b}31m".as_bytes().into()), "\\u{9b}31m");
    }

    #[test]
    fn marks_that_reorder_text_are_shown() {
        assert_eq!(shown("gpj\u{202e}.so".as_bytes().into()), "gpj\\u{202e}.so");
    }

    #[test]
    fn bytes_that_are_no_utf8_are_told_one_by_one() {
        assert_eq!(shown(b"lib\xff\xfe.so".into()), "lib\\xff\\xfe.so");
    }

    #[test]
    fn letters_of_any_script_stay() {
        assert_eq!(shown("bibliothèque/库".as_bytes().into()), "bibliothèque/库");
    }

    #[test]
    fn a_long_path_keeps_its_head_and_its_name() {
        assert_eq!(shortened("/nix/store/abcdefgh-x/lib", 15), "/nix/st…h-x/lib");
        assert_eq!(shortened("/lib", 15), "/lib");
        assert_eq!(shortened("/lib", 0), "…");
    }
}
