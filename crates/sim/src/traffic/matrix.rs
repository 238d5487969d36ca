//! The connection-matrix text files that htsim reads.
//!
//! ```text
//! Nodes 16
//! Connections 2
//! Triggers 1
//! 0->1 id 1 start 0 size 2000000 send_done_trigger 1
//! 1->2 id 2 trigger 1 size 2000000
//! trigger id 1 oneshot
//! ```
//!
//! `start` is in picoseconds. A trigger is `oneshot` or `barrier count N`; of a `multishot` trigger
//! only the first shot counts, because a flow begins only once here. `prio` is read and ignored. A
//! `#` begins a comment.

use super::error::{MatrixError, MatrixLineError};
use super::{After, Flow};
use crate::quantity::SPAN_MAX;
use std::collections::BTreeMap;

/// A parsed line of a connection.
#[derive(Default)]
struct Line {
    flow: Flow,
    waits_for: Option<u64>,
    on_sent: Option<u64>,
    on_received: Option<u64>,
}

/// Parses a matrix into the number of nodes and the flows.
///
/// # Errors
/// Names the line and what is wrong with it.
pub fn parse_matrix(text: &str) -> Result<(u32, Vec<Flow>), MatrixError> {
    let (mut nodes, mut stated) = (None, None);
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match words.as_slice() {
            [] | ["Triggers" | "Failures", _] => Ok(()),
            ["Connections", count] => number(count).map(|count| stated = Some(count)),
            ["Nodes", count] => number(count).map(|count| nodes = Some(count as u32)),
            ["trigger", "id", _, "oneshot" | "multishot"]
            | ["trigger", "id", _, "barrier", "count", _] => Ok(()),
            [ends, rest @ ..] if ends.contains("->") => {
                connection(ends, rest).map(|connection| lines.push(connection))
            }
            [first, ..] => Err(MatrixLineError::Line((*first).to_owned())),
        };
        outcome.map_err(|error| MatrixError::Line { line: at + 1, error })?;
    }
    let nodes = nodes.ok_or(MatrixError::NoNodes)?;
    let found = lines.len() as u64;
    if let Some(stated) = stated.filter(|stated| *stated != found) {
        return Err(MatrixError::Connections { stated, found });
    }
    let wrong = |line: &Line| {
        let flow = &line.flow;
        flow.source >= nodes || flow.destination >= nodes || flow.source == flow.destination
    };
    if let Some(at) = lines.iter().position(wrong) {
        let flow = &lines[at].flow;
        let (from, to) = (flow.source, flow.destination);
        return Err(MatrixError::Ends { from, to, nodes });
    }
    Ok((nodes, resolve(lines)?))
}

fn number(text: &str) -> Result<u64, MatrixLineError> {
    text.parse().map_err(|_| MatrixLineError::Number(text.to_owned()))
}

fn connection(ends: &str, words: &[&str]) -> Result<Line, MatrixLineError> {
    let (source, destination) = ends.split_once("->").unwrap_or((ends, ""));
    let mut line = Line::default();
    line.flow.source = number(source)? as u32;
    line.flow.destination = number(destination)? as u32;
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            return Err(MatrixLineError::NoValue(pair[0].to_owned()));
        };
        let value = number(value)?;
        match *name {
            "id" | "prio" => {}
            "start" => {
                let fits = Some(value).filter(|start| *start <= SPAN_MAX);
                line.flow.start_ps = fits.ok_or(MatrixLineError::Start(value))?;
            }
            "size" => {
                let fits = u32::try_from(value).ok().filter(|bytes| *bytes > 0);
                line.flow.bytes = fits.ok_or(MatrixLineError::Bytes(value))?;
            }
            "trigger" => line.waits_for = Some(value),
            "send_done_trigger" => line.on_sent = Some(value),
            "recv_done_trigger" => line.on_received = Some(value),
            other => return Err(MatrixLineError::Attribute(other.to_owned())),
        }
    }
    if line.flow.bytes == 0 {
        return Err(MatrixLineError::NoSize);
    }
    Ok(line)
}

fn resolve(lines: Vec<Line>) -> Result<Vec<Flow>, MatrixError> {
    let mut fires: BTreeMap<u64, Vec<After>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        for (trigger, delivered) in [(line.on_sent, false), (line.on_received, true)] {
            if let Some(trigger) = trigger {
                fires.entry(trigger).or_default().push(After { flow: at as u32, delivered });
            }
        }
    }
    let flow = |line: Line| match line.waits_for {
        None => Ok(line.flow),
        Some(trigger) => match fires.get(&trigger) {
            Some(after) => Ok(Flow { after: after.clone(), ..line.flow }),
            None => Err(MatrixError::Trigger(trigger)),
        },
    };
    lines.into_iter().map(flow).collect()
}
