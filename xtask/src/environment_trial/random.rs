//! Draws random starts. In strings, `{out}` is the directory of the scene.

use becalm_core::edit::RunPathKind;
use fastrand::Rng;

/// Elements of `LD_LIBRARY_PATH` and of run paths, besides the empty one.
const ELEMENTS: &str = "\
    / // /. . .. ./ ../b a b/ ./b c// absent file closed {out}/a {out}/b {out}/b/ {out}//c \
    {out}/a/../c {out}/absent {out}/absent/deeper {out}/closed {out}/searchable {out}/unreadable \
    {out}/junk {out}/empty {out}/odd {out}/file {out}/file/below {out}/link {out}/loop \
    {out}/dangling $ORIGIN $ORIGIN/../a ${ORIGIN}/../c $ORIGINAL {out}/$LIB {out}/${PLATFORM} \
    $LIB $PLATFORM/lib {out}/$UNKNOWN /usr/lib /usr/$LIB /dev/null";

/// Elements of `LD_PRELOAD`, and additional needed strings.
const OBJECTS: &str = "\
    libone.so libtwo.so libabsent.so libjunk.so {out}/a/libone.so {out}/c/libtwo.so \
    {out}/absent/libone.so {out}/closed/libone.so {out}/unreadable/libone.so ./a/libone.so \
    b/libtwo.so ../b/libtwo.so $ORIGIN/../b/libtwo.so $LIB/libone.so libm.so.6";

/// Current directories that every user may enter.
const DIRS: &[&str] = &["", "a", "b", "empty", "searchable"];

/// A start.
#[derive(Clone, Debug)]
pub(super) struct Random {
    pub(super) seed: u64,
    pub(super) number: u64,
    /// The program's run path; `None` for none.
    pub(super) run_path: Option<String>,
    pub(super) run_path_kind: RunPathKind,
    /// Needed strings before the program's own.
    pub(super) needed: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    /// The current directory, relative to the scene.
    pub(super) dir: &'static str,
    pub(super) as_nobody: bool,
}

impl Random {
    /// Returns the start with this number.
    pub(super) fn draw(seed: u64, number: u64) -> Self {
        let mut dice = Dice(Rng::with_seed(seed << 32 ^ number));
        let elements: Vec<&str> = ELEMENTS.split_whitespace().chain([""]).collect();
        let objects: Vec<&str> = OBJECTS.split_whitespace().collect();
        let run_path = dice.once_in(4).then(|| dice.list(&elements, 5, ":"));
        let (is_rpath, needs_more) = (dice.once_in(2), dice.once_in(3));
        let mut env = Vec::new();
        if !dice.once_in(8) {
            let separator = if dice.once_in(4) { ";" } else { ":" };
            env.push(("LD_LIBRARY_PATH".to_owned(), dice.list(&elements, 6, separator)));
        }
        if dice.once_in(3) {
            let separator = if dice.once_in(2) { " " } else { ":" };
            env.push(("LD_PRELOAD".to_owned(), dice.list(&objects, 3, separator)));
        }
        Self {
            seed,
            number,
            run_path,
            run_path_kind: if is_rpath { RunPathKind::Rpath } else { RunPathKind::Runpath },
            needed: (0..u64::from(needs_more)).map(|_| dice.one(&objects).to_owned()).collect(),
            env,
            dir: dice.one(DIRS),
            as_nobody: dice.once_in(2),
        }
    }
}

/// A source of draws.
struct Dice(Rng);

impl Dice {
    fn once_in(&mut self, times: u32) -> bool {
        self.0.u32(..times) == 0
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of[self.0.usize(..of.len())]
    }

    /// Returns one to `most` elements, joined.
    fn list(&mut self, of: &[&'static str], most: usize, separator: &str) -> String {
        let count = self.0.usize(1..=most);
        (0..count).map(|_| self.one(of)).collect::<Vec<_>>().join(separator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_the_same_start_again_and_another_one_another() {
        let drawn = |number| format!("{:?}", Random::draw(7, number));
        assert_eq!(drawn(3), drawn(3));
        assert_ne!(drawn(3), drawn(4));
    }

    #[test]
    fn every_kind_of_start_is_among_a_few_hundred() {
        let all: Vec<Random> = (0..300).map(|number| Random::draw(1, number)).collect();
        let count = |name: &str| {
            let has = |random: &&Random| random.env.iter().any(|(variable, _)| variable == name);
            all.iter().filter(has).count()
        };
        assert!(all.iter().any(|random| random.as_nobody));
        assert!(all.iter().any(|random| random.run_path.is_some()));
        assert!(count("LD_LIBRARY_PATH") > 200 && count("LD_PRELOAD") > 50);
        assert!(all.iter().any(|random| !random.needed.is_empty()));
    }
}
