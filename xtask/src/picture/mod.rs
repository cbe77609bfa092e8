//! `cargo xtask picture`: draws the picture of README.md, one file for light and one for dark
//! pages. With `--simulation`, [`nodes`] draws the one of docs/network-file-systems.md.
//!
//! The picture is the one of `becalm report`: the start of a program of a store by a stated CPU,
//! and the same start with an index. The counts and the grid are taken from its pages unchanged.
//! With the index each library is opened at its path, which the report draws as one column of its
//! own. Here a library stays in the column of its directory, where the search found it.

mod nodes;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::command::succeed;

/// Space around the grids and between them.
const MARGIN: f64 = 16.0;
/// Height of the lines above the grids.
const HEAD: f64 = 62.0;
/// Height of the line below the grids.
const FOOT: f64 = 34.0;
/// Width of the whole picture.
const WIDTH: f64 = 960.0;
/// Fonts of the text, as the report has them.
const FONT: &str = "system-ui,-apple-system,'Segoe UI','Noto Sans',sans-serif";

/// The class of the cells in which something was found.
const HIT: &str = "hit";

/// Height of a row of the report's picture.
const ROW: u32 = 10;
/// The program of the store.
const PROGRAM: &str = "inkscape";
/// The CPU whose hwcaps subdirectories are searched.
const CPU: &str = "skylake-avx512";
/// The folder of the pictures.
const OUT: &str = "docs/pictures";

/// Options of the picture.
#[derive(Args)]
pub struct Options {
    /// The becalm whose report it is
    #[arg(long, value_name = "FILE", required_unless_present = "simulation")]
    becalm: Option<PathBuf>,
    /// The output of `lab simulate --json`, to draw it
    #[arg(long, value_name = "FILE")]
    simulation: Option<PathBuf>,
    /// The store, as `lab import` makes it
    #[arg(long, value_name = "DIR", default_value = "target/lab/store")]
    store: PathBuf,
}

/// Colours of one file, those of the report.
struct Colours {
    name: &'static str,
    ground: &'static str,
    ink: &'static str,
    faint: &'static str,
    line: &'static str,
    field: &'static str,
    /// By the classes of the report: few misses, more, most, a hit.
    cells: [(&'static str, &'static str); 4],
}

const COLOURS: [Colours; 2] = [
    Colours {
        name: "light",
        ground: "#ffffff",
        ink: "#1d2327",
        faint: "#5d6870",
        line: "#d9dee1",
        field: "#f3f5f6",
        cells: [("m1", "#f3b48b"), ("m2", "#dd7540"), ("m3", "#a8330f"), ("hit", "#0b6e99")],
    },
    Colours {
        name: "dark",
        ground: "#14181b",
        ink: "#e7ecee",
        faint: "#9fabb2",
        line: "#333d43",
        field: "#20282d",
        cells: [("m1", "#7a4429"), ("m2", "#c0622f"), ("m3", "#ff9a5c"), ("hit", "#5cc4f2")],
    },
];

/// One start, as the report draws it.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    misses: String,
    width: u32,
    height: u32,
    /// Class and outline of each kind of cell.
    layers: Vec<(String, String)>,
}

/// Writes the two files.
///
/// # Errors
/// Returns an error if becalm fails, its page has no picture, or the simulation cannot be read.
pub fn run(options: &Options) -> Result<bool> {
    let (name, pictures) = match &options.simulation {
        Some(file) => {
            let simulation = nodes::Simulation::read(file)?;
            ("nodes", COLOURS.each_ref().map(|colours| nodes::svg(&simulation, colours)))
        }
        None => {
            let scratch = tempfile::tempdir()?;
            let starts = starts(options, scratch.path())?;
            ("start", COLOURS.each_ref().map(|colours| svg(PROGRAM, &starts, colours)))
        }
    };
    fs::create_dir_all(OUT)?;
    for (colours, picture) in COLOURS.iter().zip(pictures) {
        let path = Path::new(OUT).join(format!("{name}-{}.svg", colours.name));
        fs::write(&path, picture).with_context(|| path.display().to_string())?;
        println!("{}", path.display());
    }
    Ok(true)
}

/// The start without an index and the one with it.
fn starts(options: &Options, scratch: &Path) -> Result<[Start; 2]> {
    let store =
        options.store.canonicalize().with_context(|| options.store.display().to_string())?;
    let program = program(&store, PROGRAM)?;
    let program_of_becalm = options.becalm.as_ref().context("no --becalm")?;
    let becalm = |command: &str| {
        let mut becalm = Command::new(program_of_becalm);
        becalm.arg(command).arg("--store").arg(&store).env_remove("LD_LIBRARY_PATH");
        becalm
    };
    let (index, page) = (scratch.join("index.so"), scratch.join("page.html"));
    succeed(becalm("index").arg(&store).arg("-o").arg(&index))?;
    let report = |with: &[&Path]| -> Result<Start> {
        let mut report = becalm("report");
        report.args(["--no-run", "--cpu", CPU]).args(with).arg(&program);
        succeed(report.arg("-o").arg(&page))?;
        start(&fs::read_to_string(&page)?)
    };
    let before = report(&[])?;
    let after = report(&[Path::new("--audit"), &index])?;
    let after = after.in_places_of(&before)?;
    Ok([before, after])
}

/// The only program of that name in the store's packages.
fn program(store: &Path, name: &str) -> Result<PathBuf> {
    let packages = fs::read_dir(store).with_context(|| store.display().to_string())?;
    let packages = packages.collect::<std::io::Result<Vec<_>>>()?;
    let files = packages.iter().map(|package| package.path().join("bin").join(name));
    let mut found: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    ensure!(found.len() == 1, "{}: {} programs of the name {name}", store.display(), found.len());
    Ok(found.remove(0))
}

/// The start that a page is about.
fn start(page: &str) -> Result<Start> {
    let misses = between(page, "data-figure=\"before.misses\">", "<");
    let misses = misses.context("the page has no count of misses")?;
    let frame = page.split_once("class=\"storm-frame\"").map(|(_, frame)| frame);
    let frame = frame.and_then(|frame| between(frame, "<svg ", "</svg>"));
    let frame = frame.context("the page has no picture")?;
    let size = between(frame, "viewBox=\"0 0 ", "\"").and_then(|size| size.split_once(' '));
    let (width, height) = size.context("a picture has no size")?;
    let layers = frame.split("<path ").skip(1).map(|layer| {
        let class = between(layer, "class=\"", "\"").unwrap_or_default();
        (class.to_owned(), between(layer, "d=\"", "\"").unwrap_or_default().to_owned())
    });
    Ok(Start {
        misses: misses.to_owned(),
        width: width.parse()?,
        height: height.parse()?,
        layers: layers.collect(),
    })
}

impl Start {
    /// This start, whose only cells are hits, with each in the column where the other has it. The
    /// index, which is loaded too, has no row.
    fn in_places_of(self, other: &Self) -> Result<Self> {
        let has_hits_alone = self.layers.iter().all(|(class, _)| class == HIT);
        ensure!(has_hits_alone, "the start with an index still has misses");
        let needs_the_same = (other.height..=other.height + ROW).contains(&self.height);
        ensure!(needs_the_same, "the start with an index needs other libraries");
        let hits = other.layers.iter().filter(|(class, _)| class == HIT).cloned();
        let layers = hits.collect();
        Ok(Self { misses: self.misses, layers, ..*other })
    }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(inside, _)| inside)
}

/// The picture: both starts side by side, on one scale.
fn svg(program: &str, starts: &[Start; 2], colours: &Colours) -> String {
    let cell_width = (WIDTH - 3.0 * MARGIN) / 2.0;
    let scale = starts.iter().map(|s| cell_width / f64::from(s.width)).fold(f64::MAX, f64::min);
    let tallest = starts.iter().map(|start| f64::from(start.height) * scale).fold(0.0, f64::max);
    let height = HEAD + tallest + FOOT;
    let [before, after] = starts;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"{FONT}\" role=\"img\">\n\
         <title>{program}: {} misses before its first instruction, {} with an index</title>\n\
         <style>{}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"8\" fill=\"{}\" stroke=\"{}\"/>\n",
        before.misses,
        after.misses,
        colours.cells.map(|(class, colour)| format!(".{class}{{fill:{colour}}}")).concat(),
        colours.ground,
        colours.line,
    );
    let (ink, faint) = (colours.ink, colours.faint);
    let heads = ["the loader searches", "with becalm's index"];
    for (at, (start, head)) in starts.iter().zip(heads).enumerate() {
        let x = MARGIN + at as f64 * (cell_width + MARGIN);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "<text x=\"{x}\" y=\"30\" font-size=\"22\" font-weight=\"600\" fill=\"{ink}\">{} misses\
             </text>\n<text x=\"{x}\" y=\"50\" font-size=\"14\" fill=\"{faint}\">{program} starts: \
             {head}</text>\n<g transform=\"translate({x} {HEAD}) scale({scale:.4})\" \
             shape-rendering=\"crispEdges\">\n<rect width=\"{}\" height=\"{}\" fill=\"{}\"/>",
            start.misses, start.width, start.height, colours.field
        );
        for (class, outline) in &start.layers {
            let _ = writeln!(text, "<path class=\"{class}\" d=\"{outline}\"/>");
        }
        text.push_str("</g>\n");
    }
    let y = HEAD + tallest + 22.0;
    let _ = write!(
        text,
        "<text x=\"{MARGIN}\" y=\"{y:.0}\" font-size=\"13\" fill=\"{faint}\">Down: the libraries it \
         needs. Across: the directories that are searched. Orange: tried in vain, darker if more \
         often. Blue: found.</text>\n</svg>\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with a cell of each class.
    fn page(misses: &str, classes: &[&str]) -> String {
        let layers = classes
            .iter()
            .enumerate()
            .map(|(at, class)| format!("<path class=\"{class}\" d=\"M{at}0 0h10v9h-10z\"/>\n"));
        format!(
            "<svg viewBox=\"0 0 1 1\"><path class=\"m1\" d=\"x\"/></svg>\
             <span data-figure=\"before.misses\">{misses}</span>\
             <div class=\"storm-frame\" tabindex=\"0\">\n<svg viewBox=\"0 0 20 10\" role=\"img\">\n\
             {}</svg>\n</div>",
            layers.collect::<String>()
        )
    }

    #[test]
    fn a_start_is_read_from_a_page_and_drawn() {
        let before = start(&page("5,546", &["m3", "hit"])).expect("a page");
        let layer = |class: &str, outline: &str| (class.to_owned(), outline.to_owned());
        let layers = vec![layer("m3", "M00 0h10v9h-10z"), layer("hit", "M10 0h10v9h-10z")];
        assert_eq!(before, Start { misses: "5,546".to_owned(), width: 20, height: 10, layers });
        let after = start(&page("0", &["hit"])).expect("a page");
        let after = after.in_places_of(&before).expect("the same libraries");
        assert_eq!(after.layers, [layer("hit", "M10 0h10v9h-10z")]);
        let picture = svg("tool", &[before, after], &COLOURS[0]);
        assert!(picture.contains(">5,546 misses</text>"), "{picture}");
        assert_eq!(picture.matches("<path").count(), 3);
    }

    #[test]
    fn a_start_with_misses_is_not_drawn_as_one_without() {
        let before = start(&page("7", &["m1", "hit"])).expect("a page");
        let after = start(&page("1", &["m1", "hit"])).expect("a page");
        assert!(after.in_places_of(&before).is_err());
    }

    #[test]
    fn a_page_without_a_picture_is_refused() {
        assert!(start("<html></html>").is_err());
    }
}
