//! Dynamic string tokens: `$ORIGIN`, `$LIB`, `$PLATFORM`.
//!
//! Mirrors `is_dst`, `_dl_dst_count` and `_dl_dst_substitute` of glibc's
//! `elf/dl-load.c`, which have the same rules from 2.31 to 2.44 except where
//! [`Secure`] says so.

use bstr::{BStr, BString};

/// What the tokens stand for.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// `$ORIGIN`: the directory of the object; `None` where it is not known.
    pub origin: Option<&'a BStr>,
    /// `$LIB`.
    pub lib: &'a BStr,
    /// `$PLATFORM`; `None` where the loader knows none.
    pub platform: Option<&'a BStr>,
    /// Set in secure-execution mode.
    pub secure: Option<Secure<'a>>,
}

/// What secure-execution mode adds to the rules for `$ORIGIN`.
#[derive(Clone, Copy, Debug)]
pub struct Secure<'a> {
    /// The object is the program itself: an expanded `$ORIGIN` must then lead into
    /// one of the system directories.
    pub is_program: bool,
    /// The system directories, each ending in a slash.
    pub system_dirs: &'a [BString],
    /// From glibc 2.43 on the path that was judged, normalized, is the path used.
    pub normalizes: bool,
}

/// The tokens glibc knows, in the order in which it looks for them.
const NAMES: [&[u8]; 3] = [b"ORIGIN", b"PLATFORM", b"LIB"];

/// Finds the token at the start of `input` (just behind a `$`): which one of
/// [`NAMES`], and how many bytes it takes, braces included.
fn token_at(input: &[u8]) -> Option<(usize, usize)> {
    let (curly, rest) = match input.strip_prefix(b"{") {
        Some(rest) => (true, rest),
        None => (false, input),
    };
    let found = NAMES.iter().position(|name| rest.starts_with(name))?;
    let next = rest.get(NAMES[found].len()).copied();
    let goes_on = next.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if goes_on || (curly && next != Some(b'}')) {
        return None;
    }
    Some((found, NAMES[found].len() + if curly { 2 } else { 0 }))
}

/// True where `input` holds a token that would be replaced.
#[must_use]
pub fn has_token(input: &[u8]) -> bool {
    (0..input.len()).any(|at| input[at] == b'$' && token_at(&input[at + 1..]).is_some())
}

/// Length in bytes from which on a path gets no more values of tokens. It is several
/// times `PATH_MAX`, so that the kernel refuses the path all the same, and it keeps a
/// string of a hundred thousand tokens from taking gigabytes.
const MAX_EXPANDED: usize = 16 << 10;

/// Replaces the tokens of one path. `None` where a token has no value or secure mode
/// forbids the result: the loader then drops the path. A result far longer than any path
/// the kernel takes lacks the values of its last tokens.
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
                    let alone = at == 1 && matches!(input.get(at + len), None | Some(b'/'));
                    if !alone {
                        return None;
                    }
                    check_trusted = secure.is_program;
                }
                tokens.origin
            }
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

/// Keeps a path that leads into a system directory (`is_trusted_path_normalize`, from
/// 2.43 `path_is_trusted`).
fn trusted(path: BString, secure: &Secure<'_>) -> Option<BString> {
    let mut normal = normalize(&path);
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

/// Removes `.`, `..` and doubled slashes by the letters of the path alone.
fn normalize(path: &[u8]) -> BString {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let mut normal = BString::default();
    for part in parts {
        normal.push(b'/');
        normal.extend_from_slice(part);
    }
    normal
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
    fn secure_mode_takes_origin_only_at_the_start_and_into_a_system_dir() {
        assert_eq!(secure("$ORIGIN/../lib/x", true, false).as_deref(), Some("/usr/bin/../lib/x"));
        assert_eq!(secure("$ORIGIN/../lib/x", true, true).as_deref(), Some("/usr/lib/x"));
        assert_eq!(secure("$ORIGIN/../share", true, false), None);
        assert_eq!(secure("/x/$ORIGIN", false, false), None);
        assert_eq!(secure("$ORIGIN/../share", false, false).as_deref(), Some("/usr/bin/../share"));
        assert_eq!(secure("$LIB/x", true, false).as_deref(), Some("lib/x86_64-linux-gnu/x"));
    }
}
