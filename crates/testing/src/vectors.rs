//! The cases of `vectors/`, for readers and writers of resolution notes.

/// One case: its lines, as a key and a value.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its lines, in order.
    pub lines: Vec<(String, String)>,
}

impl Case {
    /// Returns the values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter(move |line| line.0 == key).map(|line| line.1.as_str())
    }

    /// Returns the first value of a key.
    #[must_use]
    pub fn one<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).next()
    }

    /// Returns the bytes of the first value of a key.
    #[must_use]
    pub fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        self.one(key).map(unescaped)
    }
}

/// Returns the cases of a file, each `@` replaced by a directory.
///
/// # Panics
/// Panics if the file is missing, is no file of cases, or has fewer than ten.
#[must_use]
pub fn cases(file: &str, root: &str) -> Vec<Case> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(file);
    let text = std::fs::read_to_string(path).expect("a file of cases").replace('@', root);
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match cases.last_mut() {
            _ if key == "case" => cases.push(Case { name: value.into(), lines: Vec::new() }),
            Some(case) => case.lines.push((key.into(), value.into())),
            None => panic!("{line:?} is before the first case"),
        }
    }
    assert!(cases.len() >= 10, "{file}");
    cases
}

/// Replaces `\0` and `\xNN`.
///
/// # Panics
/// Panics if there is another escape.
#[must_use]
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = match part.strip_prefix('x') {
            Some(hex) => (u8::from_str_radix(&hex[..2], 16).expect("two digits"), &hex[2..]),
            None => (0, part.strip_prefix('0').expect("an escape")),
        };
        bytes.push(byte);
        bytes.extend(rest.bytes());
    }
    bytes
}
