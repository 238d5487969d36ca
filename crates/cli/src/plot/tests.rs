use super::scale::scale_for_test;
use super::svg::document;
use super::{Axis, Panel, Picture, Point, Series, Style, Table, file, page};
use roxmltree::{Document, Node, ParsingOptions};

fn picture(panels: Vec<Panel>) -> Picture {
    let title = String::from("a <title> & \"more\" \u{1}");
    Picture { title, command: String::from("fairway sim 'x & y' <z>"), panels }
}

fn panel(x: Axis, y: Axis, style: Style, points: &[(f64, f64)]) -> Panel {
    let points = points.iter().map(|(x, y)| Point::new(*x, *y, format!("{x} & {y}"))).collect();
    let series = vec![Series { name: String::from("a<b"), style, points }];
    Panel { title: String::from("p"), x, y, series }
}

fn of_class<'a>(root: &'a Document<'a>, class: &'a str) -> Vec<Node<'a, 'a>> {
    root.descendants().filter(|node| node.attribute("class") == Some(class)).collect()
}

fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn points_are_where_their_values_are_on_the_axes() {
    let points = [(0.0, 0.0), (50.0, 10.0), (100.0, 40.0)];
    let text = document(&picture(vec![panel(
        Axis::linear("a"),
        Axis::linear("b"),
        Style::Marks,
        &points,
    )]));
    let root = Document::parse(&text).expect("XML");
    let marks = of_class(&root, "mark");
    assert_eq!(marks.len(), points.len());
    // The names of the marks at the axes say which value is where; positions are linear.
    let ticks = |class| {
        let ticks = of_class(&root, class);
        let attribute = if class == "x-tick" { "x" } else { "y" };
        let place = |node: &Node<'_, '_>| {
            let value: f64 = node.text().and_then(|text| text.parse().ok()).expect("a value");
            (value, number(node, attribute))
        };
        let (first, last) = (place(&ticks[0]), place(&ticks[ticks.len() - 1]));
        assert!(first.0 < last.0);
        move |value: f64| first.1 + (value - first.0) / (last.0 - first.0) * (last.1 - first.1)
    };
    let (x, y) = (ticks("x-tick"), ticks("y-tick"));
    for ((to_the_right, up), mark) in points.iter().zip(&marks) {
        assert!((number(mark, "cx") - x(*to_the_right)).abs() < 0.1);
        // The text of a mark is 4 pixels below its line.
        assert!((number(mark, "cy") + 4.0 - y(*up)).abs() < 0.1);
    }
    let titles = marks.iter().map(|mark| mark.first_element_child().and_then(|title| title.text()));
    assert_eq!(titles.collect::<Vec<_>>(), [Some("0 & 0"), Some("50 & 10"), Some("100 & 40")]);
}

#[test]
fn logarithmic_axes_give_equal_factors_equal_distances() {
    let axis = Axis { is_log: true, ..Axis::default() };
    let scale = scale_for_test(&axis, &[1.0, 1e6], 0.0, 600.0);
    let steps = [1.0, 1e2, 1e4, 1e6].map(|value| scale.at(value));
    let widths: Vec<f64> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(widths.iter().all(|width| (width - widths[0]).abs() < 1e-9), "{widths:?}");
    assert!(widths[0] > 180.0 && scale.ticks.len() >= 4, "{:?}", scale.ticks);
}

#[test]
fn axes_of_any_values_have_marks_within_their_ends() {
    for values in
        [&[0.0, 0.0][..], &[5.0], &[-3.0, 8.0], &[1e-7, 3e-7], &[1e12, 2e12], &[], &[f64::NAN]]
    {
        for (is_log, from_zero) in [(false, false), (false, true), (true, false)] {
            let axis = Axis { is_log, from_zero, ..Axis::default() };
            let scale = scale_for_test(&axis, values, 10.0, 110.0);
            assert!((1..=40).contains(&scale.ticks.len()), "{values:?}: {:?}", scale.ticks);
            for (value, name) in &scale.ticks {
                let at = scale.at(*value);
                assert!((9.9..=110.1).contains(&at), "{values:?}: {name} at {at}");
            }
        }
    }
}

#[test]
fn bars_reach_from_their_start_to_their_end() {
    let bar =
        |row: f64, low, high| Point { x: low, y: -row, low, high, title: String::from("a bar") };
    let points = vec![bar(0.0, 0.0, 40.0), bar(1.0, 40.0, 60.0)];
    let series = vec![Series { name: String::from("bars"), style: Style::Bars, points }];
    let (x, y) = (Axis::linear("time"), Axis::default());
    let text = document(&picture(vec![Panel { title: String::from("p"), x, y, series }]));
    let root = Document::parse(&text).expect("XML");
    let bars = of_class(&root, "bar");
    let [first, second] = bars.as_slice() else { panic!("two bars: {text}") };
    let widths = (number(first, "width"), number(second, "width"));
    assert!((widths.0 / widths.1 - 2.0).abs() < 0.01, "{widths:?}");
    let end = number(first, "x") + widths.0;
    assert!((end - number(second, "x")).abs() < 0.02);
    assert!(number(first, "y") + number(first, "height") < number(second, "y"));
}

#[test]
fn page_has_the_picture_and_a_row_for_each_run_and_refers_to_nothing() {
    let one = panel(Axis::linear("a"), Axis::linear("b"), Style::Line, &[(1.0, 2.0)]);
    let table = Table {
        head: vec![String::from("seed"), String::from("<time>")],
        rows: vec![vec![String::from("1"), String::from("2 & 3")], vec![String::from("2")]],
    };
    let text = page::document(&picture(vec![one]), &table);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let root = Document::parse_with_options(&text, options).expect("a well-formed page");
    let cells = |tag: &str| {
        let cells = root.descendants().filter(|node| node.has_tag_name(tag));
        cells.filter_map(|node| node.text().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(cells("th"), ["seed", "<time>"]);
    assert_eq!(cells("td"), ["1", "2 & 3", "2"]);
    assert_eq!(of_class(&root, "line").len(), 1);
    for node in root.descendants() {
        for name in ["src", "href"] {
            assert_eq!(node.attribute(name), None, "{node:?}");
        }
    }
    assert!(!text.contains("url(") && !text.contains("@import"), "{text}");
}

#[test]
fn unknown_ending_names_the_known_ones() {
    for name in ["a.png", "a", "svg", ".svg", "a.svg.gz"] {
        let error = file(name).expect_err("no picture").to_string();
        assert!(error.contains(name) && error.contains(".svg or .html"), "{error}");
    }
    assert!(file("a.SVG").is_ok() && file("b/a.htm").is_ok());
}

/// Names of series in the legend.
fn legend(names: &[&str]) -> Vec<String> {
    let series = names.iter().map(|name| Series {
        name: (*name).to_owned(),
        style: Style::Marks,
        points: vec![Point::new(1.0, 1.0, String::new())],
    });
    let (x, y) = (Axis::linear("a"), Axis::linear("b"));
    let panel = Panel { title: String::from("p"), x, y, series: series.collect() };
    let text = document(&picture(vec![panel]));
    let root = Document::parse(&text).expect("XML");
    let entries = of_class(&root, "legend");
    let shown = entries.iter().filter_map(|entry| entry.last_element_child()?.text());
    shown.map(str::to_owned).collect()
}

#[test]
fn long_names_of_a_legend_are_told_apart_and_fit() {
    let policies = ["policy cc=nscc,path=reps:late=avoid", "policy cc=swift,path=reps:late=avoid"];
    assert_eq!(legend(&policies), ["cc=nscc", "cc=swift"]);
    let metrics = [
        "median, policy cc=a,path=reps:late",
        "median, policy cc=b,path=reps:late",
        "99 %, policy cc=a,path=reps:late",
    ];
    assert_eq!(legend(&metrics), ["median, cc=a", "median, cc=b", "99 %, cc=a"]);
    let short = ["median, nodes 8", "median, nodes 16"];
    assert_eq!(legend(&short), short, "short names stay whole");
    let long = "a".repeat(40);
    let shown = legend(&[&long]);
    assert_eq!(shown[0].chars().count(), 26);
}
