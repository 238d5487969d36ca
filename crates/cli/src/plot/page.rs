//! Pictures as a page of HTML, with the rows that they show.

use super::svg::{element, escape};
use super::{Picture, Table};

const STYLE: &str = "body{font-family:sans-serif;margin:1em;background:#fff;color:#222}\
    svg{max-width:100%;height:auto}table{border-collapse:collapse;font-size:13px}\
    th,td{border:1px solid #ddd;padding:3px 8px;text-align:right}th{background:#f4f4f4}\
    tr:hover td{background:#fff6dd}";

/// The page, which refers to no other file.
pub(super) fn document(picture: &Picture, table: &Table) -> String {
    let cells = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = table.rows.iter().map(|row| cells(row, "td")).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{}\
         <table>\n<thead>\n{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</body>\n</html>\n",
        escape(&picture.title),
        element(picture),
        cells(&table.head, "th"),
    )
}
