//! `fairway sim --plot` and `--sweep`, as a user runs them.

mod common;

use common::{Scratch, fairway};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

/// Runs `fairway sim` with a picture, and returns its objects and the picture.
fn drawn(arguments: &[&str], ending: &str) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let file = scratch.text(&format!("picture.{ending}"));
    let out = fairway(&[&["sim", "--json", "--plot", &file], arguments].concat()).ok().out;
    let values = out.lines().map(|line| serde_json::from_str(line).expect("an object"));
    (values.collect(), std::fs::read_to_string(&file).expect("a picture"))
}

fn series<'a>(root: &'a Document<'a>, name: &str) -> Vec<Node<'a, 'a>> {
    root.descendants().filter(|node| node.attribute("data-name") == Some(name)).collect()
}

fn of_class<'a>(node: Node<'a, 'a>, class: &'a str) -> Vec<Node<'a, 'a>> {
    node.descendants().filter(|node| node.attribute("class") == Some(class)).collect()
}

fn titles<'a>(node: Node<'a, 'a>) -> Vec<&'a str> {
    let titles = node.descendants().filter(|node| node.has_tag_name("title"));
    titles.filter_map(|title| title.text()).collect()
}

/// Points of the line of a series, in pixels.
fn line(node: Node<'_, '_>) -> Vec<(f64, f64)> {
    let line = node.descendants().find(|node| node.has_tag_name("polyline")).expect("a line");
    let points = line.attribute("points").expect("points").split(' ');
    let point = |text: &str| {
        let (x, y) = text.split_once(',').expect("two numbers");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    points.map(point).collect()
}

#[test]
fn picture_of_flows_has_a_step_for_each_flow() {
    let (values, text) =
        drawn(&["incast", "--nodes", "32", "--senders", "12", "--bytes", "200K"], "svg");
    let root = Document::parse(&text).expect("XML");
    let times = series(&root, "flow completion time")[0];
    // One point at 0 %, and one for each of 12 flows.
    let points = line(times);
    assert_eq!(points.len(), 13);
    assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 > pair[1].1));
    let last = titles(times).last().copied().expect("a title");
    let longest = format!("{:.3} us", values[0]["fct_us"]["max"].as_f64().expect("a time"));
    assert!(last.contains("100.0 %") && last.contains(&longest), "{last}, not {longest}");
    // 12 flows of 200 KiB at 400 Gb/s, alone and into one host: 4.096 and 49.152 us.
    let ideal = |name: &str| titles(series(&root, name)[0]).join(";");
    assert!(ideal("flow alone at link rate").contains("within 4.096 us"), "{text}");
    assert!(ideal("busiest host at link rate").contains("within 49.152 us"), "{text}");
    for name in ["all hosts", "longest queue"] {
        assert!(line(series(&root, name)[0]).len() > 10, "{name}");
    }
    let all = titles(series(&root, "longest queue")[0]).join(";");
    assert!(
        text.contains(">incast, seed 1<") && text.contains("--senders 12") && !all.is_empty(),
        "{text}"
    );
}

#[test]
fn sweep_has_a_point_for_each_value_and_a_row_for_each_run() {
    let sweep = ["--sweep", "routing=ecmp,spray", "--sweep", "paths=1,4,16", "--seeds", "2"];
    let base = ["permutation", "--nodes", "16", "--bytes", "100K"];
    let (values, text) = drawn(&[&base[..], &sweep].concat(), "html");
    assert_eq!(values.len(), 12);
    assert_eq!(values[2]["sweep"], serde_json::json!({"routing": "ecmp", "paths": "4"}));
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let root = Document::parse_with_options(&text, options).expect("a well-formed page");
    let body = root.descendants().find(|node| node.has_tag_name("tbody")).expect("a table");
    let rows: Vec<Vec<&str>> = body
        .children()
        .filter(Node::is_element)
        .map(|row| row.children().filter_map(|cell| cell.text()).collect())
        .collect();
    assert_eq!(rows.len(), 12);
    for (row, value) in rows.iter().zip(&values) {
        let named =
            [&value["sweep"]["routing"], &value["sweep"]["paths"]].map(|name| name.as_str());
        assert_eq!(row[..2].iter().map(|cell| Some(*cell)).collect::<Vec<_>>(), named);
        assert_eq!(row[2..4].join(","), format!("{},{}", value["seed"], value["completion_us"]));
    }
    // Completion and goodput have a line for each routing; each point is the median of its runs.
    let lines = series(&root, "routing spray");
    assert_eq!(lines.len(), 2);
    assert_eq!(of_class(lines[0], "mark").len(), 3);
    let last = titles(lines[0])[2];
    let of =
        |value: &&Value| value["sweep"] == serde_json::json!({"routing": "spray", "paths": "16"});
    let times = values.iter().filter(of).filter_map(|value| value["completion_us"].as_f64());
    let (least, most) = times
        .fold((f64::MAX, 0.0), |(least, most): (f64, f64), time| (least.min(time), most.max(time)));
    // By the nearest rank: the lower one of two.
    let expected = format!(": {least:.3} us (median of 2 seeds, {least:.3} to {most:.3})");
    assert!(last.contains(&expected), "{last}");
    assert_eq!(
        of_class(lines[0], "spread").len(),
        titles(lines[0])
            .iter()
            .filter(|title| {
                let ends = title.rsplit_once(", ").and_then(|(_, ends)| ends.strip_suffix(')'));
                ends.and_then(|ends| ends.split_once(" to ")).is_some_and(|(low, high)| low != high)
            })
            .count()
    );
}

#[test]
fn picture_of_each_kind_of_result_shows_it() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/traces/training-step.trace");
    let (values, text) = drawn(&["trace", example], "svg");
    let root = Document::parse(&text).expect("XML");
    let operations = values[0]["operations"].as_array().expect("operations");
    let bars = of_class(series(&root, "operations")[0], "bar");
    assert_eq!(bars.len(), operations.len());
    let first = titles(bars[0])[0];
    assert!(first.starts_with(operations[0]["name"].as_str().expect("a name")), "{first}");

    let group = ["all-gather", "--nodes", "8", "--rounds", "3", "--bytes", "64K"];
    let (values, text) = drawn(&group, "svg");
    let root = Document::parse(&text).expect("XML");
    assert_eq!(line(series(&root, "time of a call of a rank")[0]).len(), 1 + 8 * 3);
    assert!(values[0]["group"]["call_us"].is_number());
    // 7 of 8 parts of 64 KiB at 50 GB/s.
    let ideal = titles(series(&root, "bus bandwidth = link rate")[0]).join(";");
    assert!(ideal.contains("within 1.147 us"), "{ideal}");

    let streams =
        ["streams", "--stream", "0-1 size=64K", "--stream", "2-1 size=8K", "--end", "100us"];
    let (_, text) = drawn(&streams, "svg");
    let root = Document::parse(&text).expect("XML");
    // A rate and a window each.
    for name in ["stream 0: 0 to 1", "stream 1: 2 to 1"] {
        let both = series(&root, name);
        assert!(both.len() == 2 && both.iter().all(|one| line(*one).len() > 10), "{name}");
    }

    let (_, text) = drawn(&["sweep3d", "--grid", "3x3"], "svg");
    let root = Document::parse(&text).expect("XML");
    assert!(line(series(&root, "all hosts")[0]).len() > 10);

    let seeds = ["permutation", "--nodes", "16", "--bytes", "50K", "--seeds", "9"];
    let (values, text) = drawn(&seeds, "svg");
    let root = Document::parse(&text).expect("XML");
    assert_eq!(line(series(&root, "flow completion time, all seeds")[0]).len(), 1 + 9 * 16);
    assert_eq!(of_class(series(&root, "completion")[0], "mark").len(), values.len());
}

#[test]
fn collective_sweep_has_time_and_bus_bandwidth_over_size() {
    let sweep = ["ring-allreduce", "--nodes", "16", "--sweep", "bytes=4K,64K,1M"];
    let (values, text) = drawn(&sweep, "svg");
    let root = Document::parse(&text).expect("XML");
    for (name, path, unit) in [
        ("mean time of a call", "/group/call_us", "us"),
        ("bus bandwidth", "/group/bus_gbytes_per_second", "GB/s"),
    ] {
        let of = series(&root, name)[0];
        let expected = values.iter().zip(["4K", "64K", "1M"]).map(|(value, size)| {
            let number = value.pointer(path).and_then(Value::as_f64).expect("a number");
            format!("{name}, {size}: {number:.3} {unit}")
        });
        assert_eq!(titles(of), expected.collect::<Vec<_>>());
        let ideal = series(&root, "payload at the link's rate");
        assert_eq!(ideal.len(), 2);
        assert!(titles(ideal[1]).iter().all(|title| title.contains("50.000 GB/s")));
    }
}

#[test]
fn wrong_pictures_and_sweeps_are_refused_with_a_remedy() {
    let sim = |arguments: &[&str]| {
        fairway(&[&["sim", "permutation", "--nodes", "16", "--bytes", "10K"], arguments].concat())
    };
    let scratch = Scratch::new();
    let (picture, missing) = (scratch.text("a.svg"), scratch.text("missing/a.svg"));
    sim(&["--plot", "a.png"]).fails(2, &["a.png", ".svg or .html"]);
    sim(&["--plot", &missing]).fails(2, &[&missing, "cannot be written", "exists"]);
    for (sweep, word) in [
        ("bytes", "no '='"),
        ("size=1", "--help"),
        ("bytes=1K,,2K", "empty"),
        ("bytes=1K,1K", "twice"),
    ] {
        sim(&["--sweep", sweep]).fails(2, &[sweep, word, "bytes=64K,1M,16M"]);
    }
    fairway(&["sim", "--sweep", "bytes=1K,some"]).fails(2, &["--bytes", "'some'", "64K"]);
    sim(&["--sweep", "bytes=1K,2K"]).fails(2, &["--bytes 10K", "no effect", "--sweep bytes"]);
    sim(&["--sweep", "bytes=1M,2K,1024K"]).fails(2, &["the same number", "1024K"]);
    sim(&["--sweep", "link=1G,1000M"]).fails(2, &["the same number"]);
    sim(&["--sweep", "paths=1,2", "--sweep", "paths=3"]).fails(2, &["paths", "twice"]);
    sim(&["--sweep", "paths=1,2", "--csv", &picture]).fails(2, &["--csv", "--json"]);
    sim(&["--sweep", "paths=1,2", "--seeds", "90000"]).fails(2, &["180000", "100000", "fewer"]);
    // Settings that do not fit together are refused with the values that were in force.
    sim(&["--sweep", "mtu=4K,2K", "--stack", "roce", "--sweep", "paths=1,2"])
        .fails(2, &["with", "mtu 4K"]);
    // What was refused has left no file.
    sim(&["--plot", &picture, "--sweep", "paths=0"]).fails(2, &["paths"]);
    assert!(!scratch.path("a.svg").exists());
}

/// The line went to and fro.
#[test]
fn swept_numbers_are_drawn_in_their_order() {
    let base = ["ring-allreduce", "--nodes=8", "--sweep", "bytes=256K,4K,64K,8K"];
    let (_, text) = drawn(&base, "svg");
    let root = Document::parse(&text).expect("XML");
    for name in ["mean time of a call", "payload at the link's rate"] {
        let points = line(series(&root, name)[0]);
        assert_eq!(points.len(), 4);
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: {points:?}");
    }
}

#[test]
fn swept_policies_are_separated_by_semicolons() {
    let sweep = "policy=cc=swift,path=spray;cc=dcqcn,path=p2c";
    let base = ["permutation", "--nodes", "16", "--bytes", "10K", "--sweep", sweep];
    let (values, text) = drawn(&base, "svg");
    assert_eq!(values[0]["sweep"]["policy"], "cc=swift,path=spray");
    assert_eq!(values[1]["sweep"]["policy"], "cc=dcqcn,path=p2c");
    let root = Document::parse(&text).expect("XML");
    assert_eq!(of_class(series(&root, "completion")[0], "mark").len(), 2);
}

/// A run that is cut short would be the fastest of a sweep, and the line of its flows would reach
/// 100 %.
#[test]
fn runs_that_did_not_finish_are_left_out_and_counted() {
    let scratch = Scratch::new();
    let file = scratch.text("picture.html");
    let arguments = ["sim", "--nodes=16", "--bytes=1M", "--plot", &file];
    fairway(&[&arguments[..], &["--sweep=end=10us,20us,1ms"]].concat()).fails(1, &["--end"]);
    let text = std::fs::read_to_string(&file).expect("a picture");
    let head = text.find("<svg").expect("a picture");
    let end = text.find("</svg>").expect("its end") + "</svg>".len();
    let root = Document::parse(&text[head..end]).expect("XML");
    assert_eq!(of_class(series(&root, "completion")[0], "mark").len(), 1);
    assert!(text.contains("(2 of 3 runs did not complete and are left out)"), "{text}");
    assert!(text.contains("<td>-</td>"), "{text}");
    // Of two flows into one host, the short one completes.
    let matrix = scratch.text("two.cm");
    std::fs::write(
        &matrix,
        "Nodes 4\nConnections 2\n1->0 id 1 start 0 size 4096\n2->0 id 2 start 0 size 100000000\n",
    )
    .expect("written");
    let file = scratch.text("one.svg");
    let arguments = ["sim", "matrix", "--matrix", &matrix, "--topology=leaf-spine", "--end=100us"];
    fairway(&[&arguments[..], &["--plot", &file]].concat()).fails(1, &["--end"]);
    let text = std::fs::read_to_string(&file).expect("a picture");
    let root = Document::parse(&text).expect("XML");
    let last = titles(series(&root, "flow completion time")[0]).last().copied();
    assert!(last.is_some_and(|title| title.contains(" 50.0 % within")), "{last:?}");
}
