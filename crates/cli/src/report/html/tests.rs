//! Tests the page's parts on small searches, and with names that contain markup.

use becalm_core::cost::SearchCost;
use becalm_core::probe::{Call, Outcome, SearchSource};
use becalm_core::record::phases::{ObjectPhases, Phases};

use crate::report::html::grid::{Axes, Grid, KINDS};
use crate::report::html::tree::{Step, steps};
use crate::report::html::*;
use becalm_lib::advice::{Advice, Choice, Scope};
use becalm_lib::compare::comparison::{Cell, Comparison, Row, RowKind, Verdict};
use becalm_lib::loaded_index::IndexedBindings;
use becalm_lib::relocations::Relocations;
use becalm_lib::report::start::{Answered, Child, Node, Observed, Snapshot, Try};

/// A name with an element, and with the ends of an attribute and of a script.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'`&{{7*7}}";

fn one(needed: &str, dir: &str, call: Call, outcome: Outcome) -> Try {
    Try {
        needed_by: "/p".into(),
        needed: needed.into(),
        dir: Some(dir.into()),
        source: SearchSource::Runpath,
        call,
        outcome,
        of_hwcaps: false,
    }
}

fn missed(needed: &str, dir: &str) -> Try {
    one(needed, dir, Call::Open, Outcome::Miss)
}

fn found(needed: &str, dir: &str) -> Try {
    one(needed, dir, Call::Open, Outcome::Hit)
}

fn side(tries: Vec<Try>) -> Snapshot {
    let nodes = vec![Node { path: "/p".into(), children: Vec::new() }];
    Snapshot {
        path: "/p".to_owned(),
        first_line: None,
        about: Vec::new(),
        storm: SearchCost::default(),
        libc: None,
        newer_glibc: None,
        advice: None,
        is_record: false,
        faults: Vec::new(),
        tries,
        nodes,
        observed: Err("the program was not run (--no-run)".to_owned()),
    }
}

fn page_alone(report: &Report) -> Result<String> {
    page(report, None)
}

fn report(before: Snapshot) -> Report {
    Report { before, after: None, indexed: None }
}

#[test]
fn a_run_of_cells_is_one_rectangle_and_every_miss_has_a_cell() {
    let tries = [
        missed("a", "/1"),
        missed("a", "/2"),
        one("a", "/2/x", Call::Stat, Outcome::Miss),
        found("a", "/3"),
    ];
    let axes = Axes::of(tries.iter());
    let grid = Grid::of(&tries, &axes);
    assert_eq!(grid.misses(), 3);
    assert_eq!(grid.path(0), "M0 0h30v9h-30z");
    assert_eq!(grid.path(KINDS.len() - 1), "M32 2h6v5h-6z");
}

#[test]
fn a_directory_that_exists_is_neither_miss_nor_hit() {
    let tries = [one("a", "/1", Call::Stat, Outcome::Hit)];
    let axes = Axes::of(tries.iter());
    assert!(Grid::of(&tries, &axes).rows.is_empty());
}

#[test]
fn an_empty_directory_is_the_current_one() {
    let page = page_alone(&report(side(vec![missed("a", "")]))).expect("made");
    assert!(!page.contains("the call of dlopen"), "{page}");
    assert_eq!(Axes::of([missed("a", "")].iter()).dirs, ["."]);
}

#[test]
fn a_string_that_became_a_path_keeps_its_row() {
    let before = [missed("other", "/1"), missed("liba.so", "/1"), found("liba.so", "/2")];
    let after = [Try { dir: None, ..found("/2/liba.so", "") }];
    let axes = Axes::of(before.iter().chain(&after));
    let grid = Grid::of(&after, &axes);
    let rows: Vec<Option<&str>> =
        grid.rows.iter().map(|row| row.as_ref().map(|row| row.needed.as_str())).collect();
    assert_eq!(rows, [None, Some("/2/liba.so")]);
}

#[test]
fn what_is_too_large_for_a_picture_is_counted() {
    let tries: Vec<Try> = (0..700).map(|n| missed("a", &format!("/{n}"))).collect();
    let axes = Axes::of(tries.iter());
    let grid = Grid::of(&tries, &axes);
    assert_eq!((grid.size(), grid.left_out), ((1, 600), 100));
    assert!(page_alone(&report(side(tries))).expect("made").contains("Another 100 misses"));
}

#[test]
fn an_object_is_expanded_once_though_needs_run_in_a_circle() {
    let child = |answer| Child { needed: "x".into(), answer, misses: 0 };
    let loaded = |at| child(Answered::Loaded(at, SearchSource::Runpath));
    let nodes = [
        Node { path: "/p".into(), children: vec![loaded(1)] },
        Node { path: "/a".into(), children: vec![loaded(2), child(Answered::Missing)] },
        Node { path: "/b".into(), children: vec![child(Answered::Before(1)), loaded(1)] },
    ];
    let steps = steps(&nodes);
    let begun = steps.iter().filter(|step| matches!(step, Step::Begin(_))).count();
    let ended = steps.iter().filter(|step| matches!(step, Step::End)).count();
    assert_eq!((begun, ended), (3, 3));
    assert!(steps.iter().any(|step| matches!(step, Step::Leaf(item) if item.missing)));
}

#[test]
fn a_long_chain_of_objects_is_nested_no_deeper_than_browsers_bear() {
    let chain = |at: usize| {
        let answer = Answered::Loaded(at + 1, SearchSource::Runpath);
        let child = Child { needed: "x".into(), answer, misses: 0 };
        Node { path: "/x".into(), children: vec![child] }
    };
    let mut nodes: Vec<Node> = (0..5000).map(chain).collect();
    nodes.push(Node { path: "/end".into(), children: Vec::new() });
    let mut deepest = 0_usize;
    let mut depth = 0_usize;
    for step in steps(&nodes) {
        match step {
            Step::Begin(_) => depth += 1,
            Step::End => depth -= 1,
            Step::Leaf(_) => {}
        }
        deepest = deepest.max(depth);
    }
    assert!(deepest <= 40, "{deepest}");
}

#[test]
fn relocation_is_drawn_beside_the_search_if_it_was_timed() {
    let relocations = Relocations {
        loader_ns: 60_000_000,
        ns: Some(40_000_000),
        lookups: 84_483,
        bindings: Some(IndexedBindings { bound: 7, relocations: 7 }),
        ..Relocations::default()
    };
    let observed = Observed {
        loader_ns: 60_000_000,
        storm_ns: 10_000_000,
        program_ns: 40_000_000,
        relocations: Some(relocations),
        ..Observed::default()
    };
    let of = |observed: Observed| {
        page_alone(&report(Snapshot { observed: Ok(observed), ..side(Vec::new()) })).expect("made")
    };
    let page = of(observed.clone());
    let widths =
        [("storm", "10.0"), ("relocation", "40.0"), ("loader", "10.0"), ("program", "40.0")];
    for (style, width) in widths {
        assert!(page.contains(&format!("part-{style}\" style=\"width: {width}%\"")), "{page}");
    }
    assert!(page.contains("84,483 symbols looked up, 7 bound from the index"));
    assert!(page.contains("data-figure=\"before.relocation_ms\">40.0<"));
    let plain = of(Observed { relocations: None, ..observed });
    assert!(plain.contains("class=\"part-loader\" style=\"width: 50.0%\""), "{plain}");
    assert!(!plain.contains("class=\"part-relocation\""));
}

#[test]
fn the_parts_of_a_run_are_as_measured_and_the_rest_is_not_attributed() {
    let ms = |ms: u64| ms * 1_000_000;
    let object = ObjectPhases {
        name: "libx.so".to_owned(),
        search_ns: ms(6),
        relocation_ns: ms(15),
        constructors_ns: ms(6),
    };
    let phases = Phases {
        exec_ns: ms(5),
        loader_ns: ms(30),
        page_faults: 70,
        start_ns: ms(3),
        search_ns: object.search_ns,
        relocation_ns: object.relocation_ns,
        constructors_ns: object.constructors_ns,
        objects: vec![object],
    };
    let observed = Observed {
        loader_ns: ms(33),
        storm_ns: ms(2),
        program_ns: ms(35),
        phases: Some(phases),
        ..Observed::default()
    };
    let snapshot = Snapshot { observed: Ok(observed.clone()), ..side(Vec::new()) };
    let shorter = Observed { loader_ns: ms(28), ..observed };
    let report = Report { indexed: Some(Ok(shorter)), ..report(snapshot) };
    let page = page_alone(&report).expect("made");
    let parts = [
        ("exec", "5.00"),
        ("start", "3.00"),
        ("storm", "2.00"),
        ("search", "4.00"),
        ("relocation", "15.0"),
        ("constructors", "6.00"),
        ("program", "35.0"),
    ];
    for (part, ms) in parts {
        for lane in ["before", "indexed"] {
            assert!(page.contains(&format!("\"{lane}.{part}_ms\">{ms}<")), "{lane} {part}: {page}");
        }
    }
    for (lane, rest) in [("before", "3.00"), ("indexed", "−2.00")] {
        assert!(page.contains(&format!("\"{lane}.loader_ms\">{rest}<")), "{lane}: {page}");
    }
    assert!(page.contains("took <b>73.0 ms</b>, with 70 page faults"), "{page}");
    assert!(page.contains("libx.so") && page.contains("<td class=\"n\">90.0 %</td>"), "{page}");
}

/// Returns a report and a comparison with the hostile name in every text.
fn hostile() -> (Report, Comparison) {
    let observed = Observed {
        command: HOSTILE.to_owned(),
        made: Some(HOSTILE.to_owned()),
        modules: vec![(HOSTILE.to_owned(), 1)],
        notes: vec![HOSTILE.to_owned()],
        ..Observed::default()
    };
    let child = Child {
        needed: HOSTILE.into(),
        answer: Answered::Loaded(1, SearchSource::Runpath),
        misses: 1,
    };
    let node = |children| Node { path: HOSTILE.into(), children };
    let mut tries = vec![missed(HOSTILE, HOSTILE), found(HOSTILE, "/x")];
    tries[0].needed_by = HOSTILE.into();
    let bad = Snapshot {
        path: HOSTILE.to_owned(),
        about: vec![HOSTILE.to_owned()],
        faults: vec![HOSTILE.to_owned()],
        nodes: vec![node(vec![child.clone()]), node(vec![child])],
        observed: Ok(observed),
        ..side(tries)
    };
    let cell = Cell {
        text: HOSTILE.to_owned(),
        note: Some(HOSTILE.to_owned()),
        verdict: Some(Verdict::No),
        ..Cell::default()
    };
    let row = Row {
        id: HOSTILE.to_owned(),
        title: HOSTILE.to_owned(),
        kind: RowKind::Property,
        cells: vec![cell],
    };
    let comparison = Comparison {
        program: HOSTILE.to_owned(),
        columns: vec![HOSTILE.to_owned()],
        rows: vec![row],
        notes: vec![HOSTILE.to_owned()],
    };
    let after = Snapshot { observed: Err(HOSTILE.to_owned()), ..bad.clone() };
    (Report { before: bad, after: Some(after), indexed: None }, comparison)
}

#[test]
fn a_hostile_name_is_text_wherever_it_gets_to() {
    let (report_of, comparison) = hostile();
    let page = page(&report_of, Some(&comparison)).expect("made");
    assert!(!page.contains("<img"), "an element came of a name");
    let plain = page_alone(&report(side(vec![missed("a", "/1")]))).expect("made");
    let scripts = |page: &str| page.matches("</script>").count();
    // The page has the script of one more picture; no name ends a script.
    assert_eq!(scripts(&page), scripts(&plain) + 1);
    assert!(page.contains("&#60;img src=x") || page.contains("&lt;img src=x"));
}

fn advice() -> Advice {
    let choice = |strategy: &str, scope, misses: Option<u64>| Choice {
        strategy: strategy.to_owned(),
        scope,
        needs_reader: strategy == "note",
        misses,
        loader_ns: None,
        command: format!("becalm fix --with {strategy}"),
        refused: misses.is_none().then(|| HOSTILE.to_owned()),
    };
    Advice {
        before: 1_000,
        before_ns: None,
        owner: None,
        assumed_store: Some("/s x".into()),
        options: vec![
            choice("index", Scope::Nothing, Some(1)),
            choice("audit", Scope::Program, None),
            choice("absolute", Scope::Program, Some(999)),
            choice("note", Scope::Program, Some(0)),
            choice("farm --leaf", Scope::Program, Some(500)),
        ],
    }
}

#[test]
fn the_strategy_that_leaves_least_by_the_programs_own_loader_is_named() {
    let storm = SearchCost {
        missed_opens: 600,
        missed_stats: 400,
        hwcaps_misses: 770,
        ..SearchCost::default()
    };
    let newer_glibc = Some(("glibc-2.37".to_owned(), 230));
    let libc = Some("glibc-2.36".to_owned());
    let page = page_alone(&report(Snapshot {
        advice: Some(advice()),
        storm,
        libc,
        newer_glibc,
        ..side(Vec::new())
    }));
    let page = page.expect("made");
    let verdict = page.split("class=\"verdict\">").nth(1).expect("a verdict");
    let verdict = verdict.split("</p>").next().expect("its end");
    for part in [
        "1,000 paths",
        "77\u{a0}%",
        "that glibc 2.36 looks for",
        "(glibc 2.37 and later would try 230)",
        "leave 1 and",
    ] {
        assert!(verdict.contains(part), "{part}: {verdict}");
    }
    assert_eq!(verdict.matches('.').count() - 2, 1, "one sentence: {verdict}");
    let best = page.split("class=\"best\"").nth(1).expect("the best");
    assert!(best.split("</tr>").next().expect("its end").contains("index"), "{best}");
    let rows: Vec<&str> = page
        .split("<th scope=\"row\"><code>")
        .skip(1)
        .map(|row| row.split('<').next().unwrap_or_default())
        .collect();
    // What leaves more than a smaller change is folded.
    assert_eq!(rows, ["index", "note"]);
    assert!(page.contains("2 strategies gain nothing here"));
    assert!(!page.contains("<img"), "a reason became an element");
}

#[test]
fn the_page_names_nothing_that_would_have_to_be_fetched() {
    let (report_of, comparison) = hostile();
    let page = page(&report_of, Some(&comparison)).expect("made");
    assert!(page.contains("default-src 'none'"));
    for fetching in ["src=\"", "<link rel=\"stylesheet\"", "@import", "url(", "https://"] {
        assert!(!page.contains(fetching), "{fetching}");
    }
}

#[test]
fn a_row_with_too_few_cells_shifts_no_other() {
    let row =
        |cells| Row { id: "r".to_owned(), title: "r".to_owned(), kind: RowKind::Measure, cells };
    let comparison = Comparison {
        program: "p".to_owned(),
        columns: vec!["a".to_owned(), "b".to_owned()],
        rows: vec![row(Vec::new()), row(vec![Cell::default(); 5])],
        notes: Vec::new(),
    };
    let page = page(&report(side(Vec::new())), Some(&comparison));
    let page = page.expect("made");
    let table = page.split("class=\"compare\"").nth(1).expect("the table");
    let table = table.split("</table>").next().expect("its end");
    assert_eq!(table.matches("<td><span").count(), 4);
}
