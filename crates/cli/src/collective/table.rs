//! Rows of results, in the columns of nccl-tests.

use super::measure::Operation;
use fairway_communicator::{Algorithm, ElementType, Reduction};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Results of one size.
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) ranks: u32,
    pub(super) bytes: u64,
    pub(super) element: ElementType,
    pub(super) reduction: Option<Reduction>,
    pub(super) root: Option<u32>,
    pub(super) algorithm: Algorithm,
    /// Out of place, and in place.
    pub(super) columns: [Option<Column>; 2],
    /// True if the heading comes before it.
    pub(super) is_first: bool,
}

/// Results of one size and way.
pub(super) struct Column {
    /// Mean time of an operation, at the slowest rank.
    pub(super) time: Duration,
    /// Number of elements that were wrong, at all ranks.
    pub(super) wrong: u64,
    pub(super) iterations: u32,
}

impl Row {
    /// Number of elements that were wrong.
    pub(super) fn wrong(&self) -> u64 {
        self.columns.iter().flatten().map(|column| column.wrong).sum()
    }

    /// GB/s of the algorithm and of the bus.
    fn bandwidths(&self, column: &Column) -> [f64; 2] {
        let algorithm = self.bytes as f64 / column.time.as_secs_f64().max(1e-9) / 1e9;
        [algorithm, algorithm * self.operation.bus_factor(self.ranks)]
    }

    /// The row as text, after the heading if it is the first one.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.is_first {
            text += &format!("# {} of {} ranks\n", self.operation, self.ranks);
            text += &format!("#{:>60}{:>38}\n", "out of place", "in place");
            let columns = format!("{:>9} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
            text += &format!(
                "# {:>10} {:>11} {:>5} {:>7} {:>4} {:>13} {columns} {columns}\n",
                "size", "count", "type", "redop", "root", "algorithm"
            );
            let units = format!("{:>9} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
            text += &format!(
                "# {:>10} {:>11} {:>5} {:>7} {:>4} {:>13} {units} {units}\n",
                "(B)", "(elements)", "", "", "", ""
            );
        }
        let count = self.bytes / self.element.bytes();
        let reduction =
            self.reduction.map_or("none".to_string(), |reduction| reduction.to_string());
        let root = self.root.map_or("-1".to_string(), |root| root.to_string());
        text += &format!(
            "  {:>10} {:>11} {:>5} {:>7} {:>4} {:>13}",
            self.bytes, count, self.element, reduction, root, self.algorithm
        );
        for column in &self.columns {
            match column {
                None => text += &format!(" {:>9} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A"),
                Some(column) => {
                    let [algorithm, bus] = self.bandwidths(column);
                    let us = column.time.as_secs_f64() * 1e6;
                    text += &format!(" {us:>9.2} {algorithm:>7.2} {bus:>7.2} {:>6}", column.wrong);
                }
            }
        }
        text.push('\n');
        text
    }

    /// The row as JSON.
    pub(super) fn json(&self) -> Value {
        let column = |column: &Column| {
            let [algorithm, bus] = self.bandwidths(column);
            json!({
                "time_us": column.time.as_secs_f64() * 1e6,
                "algbw_gb_per_s": algorithm,
                "busbw_gb_per_s": bus,
                "wrong": column.wrong,
                "iterations": column.iterations,
            })
        };
        let mut row = Map::new();
        row.insert("operation".into(), self.operation.to_string().into());
        row.insert("ranks".into(), self.ranks.into());
        row.insert("bytes".into(), self.bytes.into());
        row.insert("count".into(), (self.bytes / self.element.bytes()).into());
        row.insert("type".into(), self.element.to_string().into());
        row.insert("op".into(), self.reduction.map(|reduction| reduction.to_string()).into());
        row.insert("root".into(), self.root.into());
        row.insert("algorithm".into(), self.algorithm.to_string().into());
        row.insert("out_of_place".into(), self.columns[0].as_ref().map(column).into());
        row.insert("in_place".into(), self.columns[1].as_ref().map(column).into());
        Value::Object(row)
    }
}
