//! Dynamic string tokens: `$ORIGIN`, `$LIB`, `$PLATFORM`.
//!
//! Mirrors `is_dst`, `_dl_dst_count` and `_dl_dst_substitute` of glibc's `elf/dl-load.c`. Their
//! rules are the same from 2.31 to 2.44, except for [`Secure::normalizes`].

use bstr::{BStr, BString};

use crate::path;

/// The values of the tokens.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// `$ORIGIN`: the directory of the object, if it is known.
    pub origin: Option<&'a BStr>,
    /// `$LIB`.
    pub lib: &'a BStr,
    /// `$PLATFORM`, if the loader has one.
    pub platform: Option<&'a BStr>,
    /// The further rules of secure-execution mode, if it is on.
    pub secure: Option<Secure<'a>>,
}

/// The further rules for `$ORIGIN` in secure-execution mode.
#[derive(Clone, Copy, Debug)]
pub struct Secure<'a> {
    /// True for the program itself, whose expanded paths must lead into a system directory.
    pub is_program: bool,
    /// The system directories, each ending in a slash.
    pub system_dirs: &'a [BString],
    /// True since glibc 2.43, which uses the normalized path that it checked. Older releases use
    /// the path as written.
    pub normalizes: bool,
}

/// The tokens of glibc, in the order in which `_dl_dst_substitute` compares them.
const NAMES: [&[u8]; 3] = [b"ORIGIN", b"PLATFORM", b"LIB"];

/// Finds the token at the start of `input`, which begins after a `$`. Returns the index of its
/// name in [`NAMES`] and its length, braces included.
fn token_at(input: &[u8]) -> Option<(usize, usize)> {
    let (curly, rest) = match input.strip_prefix(b"{") {
        Some(rest) => (true, rest),
        None => (false, input),
    };
    let found = NAMES.iter().position(|name| rest.starts_with(name))?;
    let next = rest.get(NAMES[found].len()).copied();
    // `is_dst`: `$LIBRARY` is not a token, because the name continues.
    let continues = next.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if continues || (curly && next != Some(b'}')) {
        return None;
    }
    Some((found, NAMES[found].len() + if curly { 2 } else { 0 }))
}

/// Returns true if `input` has a token (`_dl_dst_count`).
#[must_use]
pub fn has_token(input: &[u8]) -> bool {
    (0..input.len()).any(|at| input[at] == b'$' && token_at(&input[at + 1..]).is_some())
}

/// The length of a result at which the expansion stops to insert values. The limit is several
/// times `PATH_MAX`, so that the kernel rejects the path anyway. Without it a string of a hundred
/// thousand tokens would take gigabytes.
const MAX_EXPANDED: usize = 16 << 10;

/// Replaces the tokens of one path.
///
/// Returns `None` if a token has no value or if secure-execution mode forbids the result; the
/// loader then drops the path. A result much longer than `PATH_MAX` lacks the values of its last
/// tokens.
#[must_use]
pub fn expand(input: &BStr, tokens: &Tokens<'_>) -> Option<BString> {
    let mut result = BString::new(Vec::with_capacity(input.len() + 64));
    let mut check_trusted = false;
    let mut at = 0;
    while at < input.len() {
        let byte = input[at];
        at += 1;
        let token = if byte == b'$' { token_at(&input[at..]) } else { None };
        let Some((name, len)) = token else {
            result.push(byte);
            continue;
        };
        let value = match NAMES[name] {
            b"ORIGIN" => {
                if let Some(secure) = &tokens.secure {
                    // `$ORIGIN` must be the whole first component.
                    let alone = at == 1 && matches!(input.get(at + len), None | Some(b'/'));
                    if !alone {
                        return None;
                    }
                    // The user can start the program by a hard link in another directory and so
                    // choose its `$ORIGIN`.
                    check_trusted = secure.is_program;
                }
                tokens.origin
            }
            // The user of a set-id program cannot change the values of these two, so that they need
            // no check.
            b"PLATFORM" => tokens.platform,
            _ => Some(tokens.lib),
        };
        let value = value?;
        if result.len() < MAX_EXPANDED {
            result.extend_from_slice(value);
        }
        at += len;
    }
    if check_trusted { trusted(result, tokens.secure.as_ref()?) } else { Some(result) }
}

/// Returns a path that leads into a system directory, and `None` for any other path
/// (`is_trusted_path_normalize`, since 2.43 `path_is_trusted`).
fn trusted(path: BString, secure: &Secure<'_>) -> Option<BString> {
    // A `..` can lead out of the system directory that the path begins with.
    let mut normal = path::normal(&path);
    // The system directories end in a slash: `/usr/library` is not below `/usr/lib/`.
    if normal.last() != Some(&b'/') {
        normal.push(b'/');
    }
    if !secure.system_dirs.iter().any(|dir| normal.starts_with(dir)) {
        return None;
    }
    if !secure.normalizes {
        return Some(path);
    }
    normal.pop();
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens<'static> {
        Tokens {
            origin: Some("/opt/x/bin".into()),
            lib: "lib/x86_64-linux-gnu".into(),
            platform: None,
            secure: None,
        }
    }

    fn plain(input: &str) -> Option<String> {
        expand(input.into(), &tokens()).map(|path| path.to_string())
    }

    #[test]
    fn tokens_are_replaced_with_and_without_braces() {
        assert_eq!(plain("$ORIGIN/../lib").as_deref(), Some("/opt/x/bin/../lib"));
        assert_eq!(plain("${ORIGIN}/$LIB").as_deref(), Some("/opt/x/bin/lib/x86_64-linux-gnu"));
    }

    #[test]
    fn unknown_tokens_and_longer_names_stay() {
        assert_eq!(plain("/a/$HOME").as_deref(), Some("/a/$HOME"));
        assert_eq!(plain("$ORIGINAL").as_deref(), Some("$ORIGINAL"));
        assert_eq!(plain("$LIB_64").as_deref(), Some("$LIB_64"));
        assert_eq!(plain("${ORIGIN/x").as_deref(), Some("${ORIGIN/x"));
        assert_eq!(plain("$").as_deref(), Some("$"));
        assert!(!has_token(b"/a/$HOME") && has_token(b"x$LIB"));
    }

    #[test]
    fn a_token_without_a_value_drops_the_path() {
        assert_eq!(plain("/a/$PLATFORM/b"), None);
    }

    #[test]
    fn a_hundred_thousand_tokens_do_not_grow_without_bound() {
        let input = "$ORIGIN".repeat(100_000);
        let origin = "/o".repeat(2_000);
        let tokens = Tokens { origin: Some(origin.as_str().into()), ..tokens() };
        let expanded = expand(input.as_str().into(), &tokens).unwrap();
        // Still too long for the kernel.
        assert!((4096..MAX_EXPANDED + origin.len()).contains(&expanded.len()));
    }

    fn secure(input: &str, is_program: bool, normalizes: bool) -> Option<String> {
        let system_dirs = [BString::from("/usr/lib/")];
        let tokens = Tokens {
            origin: Some("/usr/bin".into()),
            secure: Some(Secure { is_program, system_dirs: &system_dirs, normalizes }),
            ..tokens()
        };
        expand(input.into(), &tokens).map(|path| path.to_string())
    }

    #[test]
    fn secure_mode_accepts_origin_only_at_the_start_and_into_a_system_dir() {
        assert_eq!(secure("$ORIGIN/../lib/x", true, false).as_deref(), Some("/usr/bin/../lib/x"));
        assert_eq!(secure("$ORIGIN/../lib/x", true, true).as_deref(), Some("/usr/lib/x"));
        assert_eq!(secure("$ORIGIN/../share", true, false), None);
        assert_eq!(secure("/x/$ORIGIN", false, false), None);
        assert_eq!(secure("$ORIGIN/../share", false, false).as_deref(), Some("/usr/bin/../share"));
        assert_eq!(secure("$LIB/x", true, false).as_deref(), Some("lib/x86_64-linux-gnu/x"));
    }
}
