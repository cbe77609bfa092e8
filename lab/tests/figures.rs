//! Compares figures of the pages with the raw data that they name.

use std::fs;
use std::path::Path;

use becalm_lib::words::grouped;
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

fn raw(name: &str) -> Value {
    serde_json::from_str(&read(&format!("runs/{name}.json"))).expect(name)
}

fn assert_has(page: &str, text: &str) {
    assert!(read(page).contains(text), "{page} lacks: {text}");
}

/// Returns the median of the starts of inkscape in one way, in seconds.
fn median(data: &Value, way: &str) -> f64 {
    let mut all = data["times"].as_array().expect("times").iter();
    let of_way = all.find(|it| it["program"] == "inkscape" && it["way"] == way).expect(way);
    let seconds = of_way["seconds"].as_array().expect("seconds").iter();
    let mut seconds: Vec<f64> = seconds.map(|it| it.as_f64().expect("a number")).collect();
    seconds.sort_by(f64::total_cmp);
    let half = seconds.len() / 2;
    if seconds.len() % 2 == 1 { seconds[half] } else { (seconds[half - 1] + seconds[half]) / 2.0 }
}

#[test]
fn the_times_at_the_head_of_readme_are_medians_of_the_raw_data() {
    let both = |name: &str| ["storm", "calmed"].map(|way| median(&raw(name), way));
    let [plain, indexed] = both("calm-slow");
    assert_has("../README.md", &format!("**{plain:.1} s → {indexed:.3} s**: inkscape"));
    let [plain, indexed] = both("calm").map(|seconds| 1000.0 * seconds);
    assert_has("../README.md", &format!("**{plain:.0} ms → {indexed:.0} ms**: inkscape"));
    // The third one is of the page that it names.
    let page = read("../docs/ahead.md");
    let median = |row: &str| {
        let mut numbers = page.lines().filter_map(|line| line.trim_start().strip_prefix(row));
        numbers.find_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).expect(row)
    };
    let [plain, ahead] = ["clang ", "by becalm run "].map(median);
    assert_has("../README.md", &format!("**{plain:.0} ms → {ahead:.0} ms**: clang"));
}

#[test]
fn the_factors_that_agree_are_those_of_the_raw_data() {
    let data = raw("estimate");
    let programs = data["programs"].as_array().expect("programs");
    let is_near = |it: &&Value| {
        let [estimated, measured] = [0, 1].map(|at| it["factors"][at].as_f64().expect("a factor"));
        (estimated - measured).abs() <= 0.1
    };
    let near = programs.iter().filter(is_near).count();
    let page = read("../docs/howto-see.md").replace('\n', " ");
    let text = format!("within 0.1 of the estimate for {near} of {} programs", programs.len());
    assert!(page.contains(&text), "howto-see.md lacks: {text}");
}

#[test]
fn the_packs_of_trees_are_those_of_the_raw_data() {
    let data = raw("packs");
    let page = "../docs/network-file-systems.md";
    for (name, row) in data["trees"].as_object().expect("trees") {
        let mb = |it: &Value| format!("{:.0}", it.as_f64().expect("bytes") / 1e6);
        let seconds = |of: &str| {
            let [pack, unpack] =
                ["pack_s", "unpack_s"].map(|it| row[of][it].as_f64().expect("seconds"));
            format!("{pack:.1}, {unpack:.1}")
        };
        let calls = ["plain", "start", "node", "never"].map(|how| {
            grouped(row["calls"][format!("two starts, {how}")].as_u64().expect("calls"))
        });
        let files = ["run", "whole"].map(|of| grouped(row[of]["files"].as_u64().expect("files")));
        let cells = [
            name.clone(),
            format!("{}: {}, {}", files[0], mb(&row["run"]["pack"]), mb(&row["run"]["squashfs"])),
            seconds("run"),
            format!("{}: {}", files[1], mb(&row["whole"]["pack"])),
            seconds("whole"),
            calls.join(" | "),
        ];
        assert_has(page, &format!("| {} |", cells.join(" | ")));
    }
}
