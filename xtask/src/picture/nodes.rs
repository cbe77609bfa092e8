//! The picture of `lab simulate`: seconds until the last rank is through its imports, over the number of nodes. Both
//! axes are logarithmic.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Colours, FONT, MARGIN, WIDTH};

const HEIGHT: f64 = 470.0;
/// The sides of the grid.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 412.0;
/// The height of a line's name.
const LINE: f64 = 17.0;

/// The output of `lab simulate --json`.
#[derive(Deserialize)]
pub(super) struct Simulation {
    nodes: Vec<f64>,
    strategies: Vec<Strategy>,
}

#[derive(Deserialize)]
struct Strategy {
    name: String,
    seconds: Vec<f64>,
}

impl Simulation {
    /// Reads a file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let simulation: Self = serde_json::from_str(&text)?;
        let (nodes, strategies) = (&simulation.nodes, &simulation.strategies);
        let is_whole = nodes.len() > 1
            && !strategies.is_empty()
            && strategies.iter().all(|it| it.seconds.len() == nodes.len());
        let is_positive = |values: &[f64]| values.iter().all(|&value| value > 0.0);
        ensure!(
            is_whole && is_positive(nodes) && strategies.iter().all(|it| is_positive(&it.seconds)),
            "{}: not a simulation",
            file.display()
        );
        Ok(simulation)
    }
}

/// A logarithmic axis, in powers of ten.
struct Axis {
    powers: (i32, i32),
    ends: (f64, f64),
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone, ends: (f64, f64)) -> Self {
        let lowest = values.clone().fold(f64::MAX, f64::min).log10().floor();
        let highest = values.fold(0.0, f64::max).log10().ceil();
        Self { powers: (lowest as i32, (highest as i32).max(lowest as i32 + 1)), ends }
    }

    fn place(&self, value: f64) -> f64 {
        let (low, high) = (f64::from(self.powers.0), f64::from(self.powers.1));
        self.ends.0 + (value.log10() - low) / (high - low) * (self.ends.1 - self.ends.0)
    }

    /// The powers of ten, with their places.
    fn marks(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        (self.powers.0..=self.powers.1).map(|power| {
            let value = 10_f64.powi(power);
            (format!("{value}"), self.place(value))
        })
    }
}

/// Draws the lines, each with its name at its right end.
pub(super) fn svg(simulation: &Simulation, colours: &Colours) -> String {
    let across = Axis::of(simulation.nodes.iter().copied(), (LEFT, RIGHT));
    let all = simulation.strategies.iter().flat_map(|it| it.seconds.iter().copied());
    let up = Axis::of(all, (BOTTOM, TOP));
    let (ink, faint, line) = (colours.ink, colours.faint, colours.line);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"{FONT}\" \
         role=\"img\">\n<title>Seconds until the last rank is through its imports</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\" fill=\"{}\" stroke=\"{line}\"/>\n\
         <text x=\"{MARGIN}\" y=\"34\" font-size=\"20\" font-weight=\"600\" fill=\"{ink}\">Seconds until the last rank \
         is through its imports, computed</text>\n",
        colours.ground
    );
    // Writing to a String cannot fail.
    for (mark, y) in up.marks() {
        let _ = writeln!(
            text,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"{line}\"/><text x=\"{}\" y=\"{:.1}\" font-size=\"13\" \
             text-anchor=\"end\" fill=\"{faint}\">{mark}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (mark, x) in across.marks() {
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{}\" font-size=\"13\" text-anchor=\"middle\" fill=\"{faint}\">{mark}</text>",
            BOTTOM + 20.0
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"{}\" font-size=\"13\" fill=\"{faint}\">nodes with 48 ranks each</text>",
        BOTTOM + 42.0
    );
    let mut ends: Vec<(f64, usize)> = Vec::new();
    for (at, strategy) in simulation.strategies.iter().enumerate() {
        let points = simulation.nodes.iter().zip(&strategy.seconds);
        let points: Vec<String> = points
            .map(|(&nodes, &seconds)| {
                format!("{:.1} {:.1}", across.place(nodes), up.place(seconds))
            })
            .collect();
        let _ = writeln!(
            text,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.5\"/>",
            points.join("L"),
            colour(&strategy.name, colours)
        );
        ends.push((up.place(*strategy.seconds.last().unwrap_or(&1.0)), at));
    }
    // No name on another: each at least a line above the one below.
    ends.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut lowest = BOTTOM + 2.0 * LINE;
    for (y, at) in ends {
        let name = &simulation.strategies[at].name;
        let y = y.min(lowest);
        lowest = y - LINE;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" font-size=\"14\" fill=\"{}\">{name}</text>",
            RIGHT + 10.0,
            y + 5.0,
            colour(name, colours)
        );
    }
    text.push_str("</svg>\n");
    text
}

/// Returns the colour of a strategy: blue for packs, grey for the ways of others to copy files to nodes.
fn colour(name: &str, colours: &Colours) -> &'static str {
    let [_, middle, dark, hit] = colours.cells.map(|(_, colour)| colour);
    match name {
        "plain" => dark,
        name if name.starts_with("pack") => hit,
        name if name.starts_with("index") || name.starts_with("learned") => middle,
        _ => colours.faint,
    }
}

#[cfg(test)]
mod tests {
    use super::super::COLOURS;
    use super::*;

    fn read(text: &str) -> Result<Simulation> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), text)?;
        Simulation::read(file.path())
    }

    #[test]
    fn lines_reach_the_corners_of_the_grid_and_names_do_not_meet() {
        let simulation = read(
            r#"{"nodes": [1, 100], "strategies": [{"name": "plain", "seconds": [1, 1000]},
                {"name": "pack", "seconds": [1, 1]}, {"name": "Copper", "seconds": [1, 1.01]}]}"#,
        )
        .expect("a simulation");
        let picture = svg(&simulation, &COLOURS[0]);
        assert!(
            picture.contains(&format!("M{LEFT:.1} {BOTTOM:.1}L{RIGHT:.1} {TOP:.1}")),
            "{picture}"
        );
        let places = picture.lines().filter(|line| line.contains("font-size=\"14\""));
        let mut places: Vec<f64> = places
            .map(|line| line.split("y=\"").nth(1).and_then(|it| it.split('"').next()))
            .map(|place| place.and_then(|it| it.parse().ok()).expect("a place"))
            .collect();
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.2), "{places:?}");
    }

    #[test]
    fn a_file_that_is_no_simulation_is_refused() {
        assert!(read("{}").is_err());
        assert!(
            read(r#"{"nodes": [1, 2], "strategies": [{"name": "a", "seconds": [1]}]}"#).is_err()
        );
        assert!(
            read(r#"{"nodes": [1, 2], "strategies": [{"name": "a", "seconds": [0, 1]}]}"#).is_err()
        );
    }
}
