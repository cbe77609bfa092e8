//! The rows of the properties, for all columns.

use std::path::Path;

use anyhow::{Context, Result, bail};
use becalm_core::facts::Format;

use crate::compare::kind::Kind;
use crate::compare::outcome::{NO_LOADER, words};
use crate::compare::table::{answer, row};
use crate::compare::trials::experiments::{TRIALS, Trial};
use crate::compare::trials::lab::Lab;
use crate::compare::trials::put::Put;
use crate::compare::trials::{Applied, Bench, Seen, foreign, judged, see_all};
use crate::mount_namespace::MountNamespace;
use crate::words::naming;
use becalm_lib::compare::comparison::{Cell, Row, RowKind, Verdict};
use becalm_lib::loader::check;
use becalm_lib::words::words_of_chain;

/// Returns the rows of the properties. `step` is called before each column is tested.
pub(in crate::compare) fn rows(bench: &Bench<'_>, kinds: &[Kind], step: impl Fn(Kind)) -> Vec<Row> {
    let stock = Stage::new(bench, "stock", None);
    let patched = bench.loader.map(|loader| Patched::new(bench, loader));
    let columns: Vec<Vec<Cell>> = kinds
        .iter()
        .map(|&kind| {
            step(kind);
            column(kind, &stock, patched.as_ref())
        })
        .collect();
    let foreign = kinds.iter().map(|&kind| foreign::cell(bench, kind)).collect();
    let mut rows: Vec<Row> = TRIALS
        .iter()
        .enumerate()
        .map(|(at, trial)| {
            let cells = columns.iter().map(|column| column[at].clone()).collect();
            row(trial.id, trial.title, RowKind::Property, cells)
        })
        .collect();
    let title = "applies to a foreign architecture";
    rows.insert(1, row("foreign", title, RowKind::Property, foreign));
    rows
}

/// A lab and the results of its untouched store, or the reason why there is no lab.
struct Stage {
    lab: Result<Lab, String>,
    control: Vec<Seen>,
}

impl Stage {
    fn new(bench: &Bench<'_>, name: &str, loader: Option<&Path>) -> Self {
        let place = bench.place.join(name);
        Self::at(bench, &place, &place.join("store"), loader)
    }

    fn at(bench: &Bench<'_>, place: &Path, store: &Path, loader: Option<&Path>) -> Self {
        let hwcaps = &bench.program.start.facts.hwcaps;
        let hwcap = hwcaps.last().map(|name| format!("glibc-hwcaps/{name}"));
        let made = std::fs::create_dir_all(place.join("store")).with_context(naming(place));
        let lab = made.and_then(|()| Lab::build(place, store, hwcap.as_deref(), loader));
        let lab = lab.map_err(words);
        let control = match &lab {
            Ok(lab) => see_all(lab, &mut Put::new(Kind::Control), |_| true),
            Err(error) => TRIALS.iter().map(|_| Err(error.clone())).collect(),
        };
        Self { lab, control }
    }

    /// Returns the cells of a strategy, in the order of the trials.
    fn cells(&self, kind: Kind, stock_loader: Option<bool>) -> Vec<Cell> {
        let Ok(lab) = &self.lab else { return self.control.iter().map(untouched).collect() };
        let wanted = |trial: &Trial| stock_loader.is_none_or(|is| trial.is_of_stock_loader() == is);
        let seen = see_all(lab, &mut Put::new(kind), wanted);
        let all = TRIALS.iter().zip(&self.control).zip(&seen);
        all.map(|((trial, control), seen)| judged(trial, control, seen)).collect()
    }
}

/// Returns the cells of a column, in the order of the trials.
fn column(kind: Kind, stock: &Stage, patched: Option<&Patched>) -> Vec<Cell> {
    let not_tried = |why: &str| -> Vec<Cell> {
        TRIALS.iter().map(|_| answer(Verdict::NotTried, Some(why.to_owned()))).collect()
    };
    match (kind, patched) {
        (Kind::Static, _) => static_column(stock),
        (Kind::PatchedControl, Some(patched)) => {
            patched.stage.control.iter().map(untouched).collect()
        }
        (Kind::Control, _) => stock.control.iter().map(untouched).collect(),
        (kind, patched) if kind.wants_patched_loader() => {
            let own = stock.cells(kind, Some(true));
            let on_patched = match patched {
                None => not_tried(NO_LOADER),
                Some(patched) => patched.cells(kind).unwrap_or_else(|why| not_tried(&why)),
            };
            let both = TRIALS.iter().zip(own).zip(on_patched);
            both.map(
                |((trial, own), patched)| if trial.is_of_stock_loader() { own } else { patched },
            )
            .collect()
        }
        _ => stock.cells(kind, None),
    }
}

/// Trials that do not apply to static programs, because the linker settles their result.
const LINKED: [&str; 5] =
    ["keeps-libraries", "symbol-versions", "ifunc", "copy-relocation", "unique"];

/// Returns the cells of the statically linked programs.
fn static_column(stock: &Stage) -> Vec<Cell> {
    let Ok(lab) = &stock.lab else { return stock.control.iter().map(untouched).collect() };
    let mut build = Put::new(Kind::Static);
    let ready = lab.renew().and_then(|()| build.apply(lab)).map_err(words);
    let cell = |(trial, control): (&Trial, &Seen)| {
        if let Err(why) = &ready {
            return answer(Verdict::NotTried, Some(why.clone()));
        }
        if LINKED.contains(&trial.id) {
            return answer(Verdict::Other, Some("it has its libraries in itself".to_owned()));
        }
        judged(trial, control, &(trial.see)(lab, &build).map_err(words))
    };
    TRIALS.iter().zip(&stock.control).map(cell).collect()
}

/// Returns the cell of the untouched program, with which the others are compared.
fn untouched(seen: &Seen) -> Cell {
    match seen {
        Ok(_) => Cell { text: "–".to_owned(), ..answer(Verdict::Other, None) },
        Err(why) => answer(Verdict::NotTried, Some(why.clone())),
    }
}

/// A lab for the given loader. If possible, the lab replaces the store: only in the store do
/// loaders trust the cache of a package, and notes in secure-execution mode.
struct Patched {
    /// The mount namespace of a lab in the store, or the reason why the lab is elsewhere.
    mount_namespace: Result<MountNamespace, String>,
    stage: Stage,
}

impl Patched {
    fn new(bench: &Bench<'_>, loader: &Path) -> Self {
        match Self::in_store(bench, loader) {
            Ok((mount_namespace, stage)) => Self { mount_namespace: Ok(mount_namespace), stage },
            Err(why) => {
                let stage = Stage::new(bench, "patched", Some(loader));
                Self { mount_namespace: Err(words(why)), stage }
            }
        }
    }

    fn in_store(bench: &Bench<'_>, loader: &Path) -> Result<(MountNamespace, Stage)> {
        let prefix = bench.program.prefixes.first().context("the program is in no store")?;
        // A mount over the prefix would hide these files.
        if loader.starts_with(prefix) || bench.place.starts_with(prefix) {
            bail!("the loader or the scratch directory is in the store");
        }
        let place = bench.place.join("in-store");
        let backing = place.join("store");
        std::fs::create_dir_all(&backing).with_context(naming(&backing))?;
        let mount_namespace = MountNamespace::new(&[(backing, prefix.clone())])?;
        let stage = mount_namespace.run(|| {
            if check::check(loader, Some(prefix))?.caches != Some(true) {
                bail!("the given loader does not trust caches in {}", prefix.display());
            }
            Ok::<_, anyhow::Error>(Stage::at(bench, &place, prefix, Some(loader)))
        })??;
        Ok((mount_namespace, stage))
    }

    /// Returns the cells of a strategy, except those about the machine's own loader.
    fn cells(&self, kind: Kind) -> Result<Vec<Cell>, String> {
        let format = kind.strategy().and_then(|strategy| strategy.row().format);
        let cells = || self.stage.cells(kind, Some(false));
        match &self.mount_namespace {
            Ok(mount_namespace) => {
                mount_namespace.run(cells).map_err(|error| words_of_chain(error.as_ref()))
            }
            Err(why) if format == Some(Format::PackageCaches) => Err(why.clone()),
            Err(_) => Ok(cells()),
        }
    }
}
