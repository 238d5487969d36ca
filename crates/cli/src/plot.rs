//! Pictures of results: panels with axes, drawn as SVG, alone or in a page of HTML with a table.
//!
//! The drawing is done here and not by a library because each point has a title that a browser
//! shows when the pointer is on it, and because the file must not refer to any other.

mod page;
mod scale;
mod svg;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::quantity::ValueError;
pub(crate) use scale::{bytes_unit, time_unit};

/// A picture: panels one below the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub title: String,
    /// The command that made it.
    pub command: String,
    pub panels: Vec<Panel>,
}

/// A pair of axes with series of points.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// True for a logarithmic axis; all values are above 0 then.
    pub is_log: bool,
    /// Values that are marked, with their names; if there are none, round values are marked.
    pub ticks: Vec<(f64, String)>,
    /// True if the axis includes 0, whatever the values are.
    pub from_zero: bool,
}

impl Axis {
    /// A linear axis from 0.
    pub(crate) fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), from_zero: true, ..Axis::default() }
    }
}

/// Points of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub name: String,
    pub style: Style,
    pub points: Vec<Point>,
}

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A line.
    Line,
    /// A dashed grey line, for what would be ideal.
    Ideal,
    /// A dotted grey line, for another limit.
    Bound,
    /// A line with a mark at each point, and a bar from the least to the most value.
    Marks,
    /// Horizontal bars from `low` to `high`, at the height of `y`.
    Bars,
}

/// A point, or a bar.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub x: f64,
    pub y: f64,
    /// The spread of `y`; of a bar its ends in the direction of `x`.
    pub low: f64,
    pub high: f64,
    /// Text that is shown at the point.
    pub title: String,
}

impl Point {
    /// A point without spread.
    pub(crate) fn new(x: f64, y: f64, title: String) -> Point {
        Point { x, y, low: y, high: y, title }
    }
}

/// Rows of text under a heading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The form of a picture, by the ending of its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Svg,
    Html,
}

/// The file of a picture.
#[derive(Clone, Debug)]
pub(crate) struct PlotFile {
    path: PathBuf,
    form: Form,
}

/// Parses the name of the file of a picture.
pub(crate) fn file(text: &str) -> Result<PlotFile, ValueError> {
    let ending = Path::new(text).extension().and_then(|ending| ending.to_str());
    let form = match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Form::Svg,
        Some("html" | "htm") => Form::Html,
        _ => return Err(ValueError::Picture(text.to_owned())),
    };
    Ok(PlotFile { path: PathBuf::from(text), form })
}

impl PlotFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Draws the picture.
    ///
    /// # Errors
    /// If there is no point to draw, or if the file cannot be written.
    pub(crate) fn write(&self, picture: &Picture, table: &Table) -> Result<(), Failure> {
        let path = self.path.display();
        let mut series = picture.panels.iter().flat_map(|panel| &panel.series);
        if !series.any(|series| !series.points.is_empty()) {
            return Err(Failure::failed(format!(
                "--plot {path}: the run has nothing to draw, because nothing completed and no \
                 bytes were placed: let it go on for longer (--end), or send something"
            )));
        }
        let text = match self.form {
            Form::Svg => svg::document(picture),
            Form::Html => page::document(picture, table),
        };
        std::fs::write(&self.path, text)
            .map_err(|error| Failure::io(format!("write {path}"), &error))
    }
}
