//! Pictures as SVG.

use std::fmt::Write as _;

use super::scale::{Scale, scales};
use super::{Panel, Picture, Series, Style};

/// Width of a picture, and of the part with axes, and the space left and right of that.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 230.0;
/// Height of a panel, and the space above and below its axes.
const PANEL: f64 = 320.0;
const ABOVE: f64 = 40.0;
const BELOW: f64 = 56.0;
/// Height of a row of bars, if there are many.
const ROW: f64 = 12.0;
/// Characters of a line of the command, and of a name in a legend: names have 190 pixels, and a
/// character has about 7.
const COMMAND: usize = 125;
const NAME: usize = 26;
/// Largest number of points with a title in a line; more would be closer than a pixel.
const TITLES: usize = 640;

/// Colours that people with any colour vision can tell apart (Okabe and Ito), without yellow.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333"];
const GREY: &str = "#888888";

const STYLE: &str = "text{font-family:sans-serif;font-size:12px;fill:#222}\
    .title{font-size:18px;font-weight:bold}.panel-title{font-size:14px;font-weight:bold}\
    .command{font-family:monospace;font-size:11px;fill:#555}.grid{stroke:#e4e4e4}\
    .axis{stroke:#444}.line{fill:none;stroke-width:1.8}\
    .hover{fill-opacity:0}.hover:hover{fill-opacity:.8}";

/// The picture as a whole file.
pub(super) fn document(picture: &Picture) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", element(picture))
}

/// The picture as an element, which may also be within a page.
pub(super) fn element(picture: &Picture) -> String {
    let lines = wrap(&picture.command, COMMAND);
    let top = 44.0 + 15.0 * lines.len() as f64;
    let height = top + picture.panels.iter().map(height_of).sum::<f64>();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text class=\"title\" x=\"16\" y=\"28\">{}</text>\n",
        escape(&picture.title),
    );
    for (number, line) in lines.iter().enumerate() {
        let y = 48.0 + 15.0 * number as f64;
        let line = escape(line);
        push(&mut text, format_args!("<text class=\"command\" x=\"16\" y=\"{y}\">{line}</text>\n"));
    }
    let mut y = top;
    for one in &picture.panels {
        panel(&mut text, one, y);
        y += height_of(one);
    }
    text.push_str("</svg>\n");
    text
}

/// Height of a panel: bars need a row each.
fn height_of(panel: &Panel) -> f64 {
    let bars = panel.series.iter().filter(|series| series.style == Style::Bars);
    let rows: usize = bars.map(|series| series.points.len()).sum();
    PANEL.max(ABOVE + BELOW + ROW * rows as f64)
}

fn panel(text: &mut String, panel: &Panel, top: f64) {
    let bottom = top + height_of(panel) - BELOW;
    let (left, right) = (LEFT, WIDTH - RIGHT);
    let (x, y) = scales(panel, (left, right), (bottom, top + ABOVE));
    push(text, format_args!("<g class=\"panel\">\n"));
    let title = escape(&panel.title);
    let at = top + 24.0;
    push(
        text,
        format_args!("<text class=\"panel-title\" x=\"{left}\" y=\"{at}\">{title}</text>\n"),
    );
    axes(text, panel, (&x, &y), (top + ABOVE, bottom));
    let mut colours = COLOURS.iter().cycle();
    let names = legend_names(&panel.series);
    for (number, series) in panel.series.iter().enumerate() {
        let colour = match series.style {
            Style::Ideal | Style::Bound => GREY,
            _ => colours.next().unwrap_or(&GREY),
        };
        let name = escape(&series.name);
        push(text, format_args!("<g class=\"series\" data-name=\"{name}\">\n"));
        draw(text, series, (&x, &y), colour);
        text.push_str("</g>\n");
        let place = (right + 16.0, top + ABOVE + 18.0 * number as f64);
        legend(text, series, &names[number], colour, place);
    }
    text.push_str("</g>\n");
}

/// Axes with marks, a grid and labels.
fn axes(text: &mut String, panel: &Panel, (x, y): (&Scale, &Scale), (top, bottom): (f64, f64)) {
    let (left, right) = (LEFT, WIDTH - RIGHT);
    let mut free = f64::NEG_INFINITY;
    for (value, name) in &x.ticks {
        let at = x.at(*value);
        push(text, format_args!("<path class=\"grid\" d=\"M{at:.2} {top}V{bottom}\"/>\n"));
        let half = 3.5 * name.chars().count() as f64;
        if at - half < free {
            // The name would cover the one before it.
            continue;
        }
        free = at + half + 6.0;
        let (name, below) = (escape(name), bottom + 16.0);
        push(
            text,
            format_args!(
                "<text class=\"x-tick\" x=\"{at:.2}\" y=\"{below}\" \
                 text-anchor=\"middle\">{name}</text>\n"
            ),
        );
    }
    for (value, name) in &y.ticks {
        let (at, name, before) = (y.at(*value), escape(&shorten(name, 13)), left - 8.0);
        push(
            text,
            format_args!(
                "<path class=\"grid\" d=\"M{left} {at:.2}H{right}\"/>\n\
                 <text class=\"y-tick\" x=\"{before}\" y=\"{:.2}\" \
                 text-anchor=\"end\">{name}</text>\n",
                at + 4.0
            ),
        );
    }
    let (middle, below, height) = ((left + right) / 2.0, bottom + 38.0, (top + bottom) / 2.0);
    let (x, y) = (escape(&panel.x.label), escape(&panel.y.label));
    push(
        text,
        format_args!(
            "<path class=\"axis\" fill=\"none\" d=\"M{left} {top}V{bottom}H{right}\"/>\n\
             <text class=\"x-label\" x=\"{middle}\" y=\"{below}\" \
             text-anchor=\"middle\">{x}</text>\n\
             <text class=\"y-label\" x=\"16\" y=\"{height}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 16 {height})\">{y}</text>\n"
        ),
    );
}

fn draw(text: &mut String, series: &Series, (x, y): (&Scale, &Scale), colour: &str) {
    if series.style == Style::Bars {
        return bars(text, series, (x, y), colour);
    }
    let dashes = dashes(series.style);
    let places =
        series.points.iter().map(|point| format!("{:.2},{:.2}", x.at(point.x), y.at(point.y)));
    let places = places.collect::<Vec<_>>().join(" ");
    push(
        text,
        format_args!(
            "<polyline class=\"line\" stroke=\"{colour}\"{dashes} points=\"{places}\"/>\n"
        ),
    );
    let every = series.points.len().div_ceil(TITLES).max(1);
    for point in series.points.iter().step_by(every) {
        let (at, up, title) = (x.at(point.x), y.at(point.y), escape(&point.title));
        if point.low < point.high {
            let (low, high) = (y.at(point.low), y.at(point.high));
            push(
                text,
                format_args!(
                    "<path class=\"spread\" stroke=\"{colour}\" \
                     d=\"M{at:.2} {low:.2}V{high:.2}\"/>\n"
                ),
            );
        }
        let (class, radius) =
            if series.style == Style::Marks { ("mark", 3.5) } else { ("hover", 4.0) };
        push(
            text,
            format_args!(
                "<circle class=\"{class}\" cx=\"{at:.2}\" cy=\"{up:.2}\" r=\"{radius}\" \
                 fill=\"{colour}\"><title>{title}</title></circle>\n"
            ),
        );
    }
}

/// The attribute of a line that is not solid.
fn dashes(style: Style) -> &'static str {
    match style {
        Style::Ideal => " stroke-dasharray=\"6 4\"",
        Style::Bound => " stroke-dasharray=\"2 3\"",
        Style::Line | Style::Marks | Style::Bars => "",
    }
}

/// Horizontal bars, at least a pixel wide.
fn bars(text: &mut String, series: &Series, (x, y): (&Scale, &Scale), colour: &str) {
    for point in &series.points {
        let (from, to) = (x.at(point.low), x.at(point.high));
        let (up, down) = (y.at(point.y + 0.4), y.at(point.y - 0.4));
        let (top, width, height) = (up.min(down), (to - from).max(1.0), (down - up).abs());
        let title = escape(&point.title);
        push(
            text,
            format_args!(
                "<rect class=\"bar\" x=\"{from:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" \
                 height=\"{height:.2}\" fill=\"{colour}\"><title>{title}</title></rect>\n"
            ),
        );
    }
}

/// The names of series as a legend has room for them. If one is too long, the parts that all of
/// them have are left out, and then the end.
fn legend_names(series: &[Series]) -> Vec<String> {
    let is_result = |one: &&Series| !matches!(one.style, Style::Ideal | Style::Bound);
    let results: Vec<&str> = series.iter().filter(is_result).map(|one| one.name.as_str()).collect();
    let is_long = results.iter().any(|name| name.chars().count() > NAME);
    let is_common = |part: &str| {
        let is_in = |name: &&str| parts(name).any(|other| bare(other) == bare(part));
        // A separator alone belongs to the part before it.
        !bare(part).is_empty() && results.iter().all(is_in)
    };
    let name = |one: &Series| {
        if !is_long || results.len() < 2 || !is_result(&one) {
            return shorten(&one.name, NAME);
        }
        let own: String = parts(&one.name).filter(|part| !is_common(part)).collect();
        let own = if bare(&own).is_empty() { one.name.as_str() } else { bare(&own).trim_start() };
        shorten(own, NAME)
    };
    series.iter().map(name).collect()
}

/// Characters that end a part of a name.
const ENDS: [char; 4] = [' ', ',', ':', ';'];

/// The parts of a name, each with the character that ends it.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split_inclusive(ENDS)
}

/// A part without the characters at its end that separate it from the next one.
fn bare(part: &str) -> &str {
    part.trim_end_matches(ENDS)
}

fn legend(text: &mut String, series: &Series, short: &str, colour: &str, (x, y): (f64, f64)) {
    let dashes = dashes(series.style);
    let (short, whole) = (escape(short), escape(&series.name));
    push(
        text,
        format_args!(
            "<g class=\"legend\"><title>{whole}</title>\
             <path stroke=\"{colour}\" stroke-width=\"2.5\"{dashes} d=\"M{x} {y}h18\"/>\
             <text x=\"{}\" y=\"{}\">{short}</text></g>\n",
            x + 24.0,
            y + 4.0,
        ),
    );
}

/// Appends to a string, which takes whatever is written to it.
fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

/// The text without characters that mean something in XML, or that XML cannot contain.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => escaped.push('\u{FFFD}'),
            other if other.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Lines of at most `most` characters, broken at spaces where there are any.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let word: Vec<char> = word.chars().collect();
        for (number, part) in word.chunks(most).enumerate() {
            let Some(last) = lines.last_mut() else { continue };
            let joined = !last.is_empty() && number == 0;
            if last.chars().count() + part.len() + usize::from(joined) > most {
                lines.push(part.iter().collect());
                continue;
            }
            if joined {
                last.push(' ');
            }
            last.extend(part);
        }
    }
    lines
}
