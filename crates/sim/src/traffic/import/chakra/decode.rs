//! Nodes of a file, from protobuf or JSON.

use super::Node;
use crate::traffic::import::Input;
use crate::traffic::import::error::{ImportError, Place, Wrong};
use crate::traffic::import::protobuf::{self, Value};
use serde_json::Value as Json;

/// Names of the kinds of nodes, in the order of their numbers.
const KINDS: [&str; 11] = [
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
    "STORAGE_NODE",
    "BATCH_NODE",
    "CHECKPOINT_NODE",
];

/// Names of collective operations, in the order of their numbers.
const COLLECTIVES: [&str; 10] = [
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
];

/// Names of a node's duration in JSON.
const DURATIONS: [&str; 3] = ["durationMicros", "duration_micros", "runtime"];

/// Returns the nodes of a file in order, with their places.
pub(super) fn nodes(input: &Input<'_>) -> Result<Vec<(Node, Place)>, ImportError> {
    let start = input.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let nodes = match start {
        // The length of metadata is none of these: they would be 91 and 123 bytes.
        Some(b'{' | b'[') if std::str::from_utf8(input.bytes).is_ok() => of_json(input)?,
        _ => of_protobuf(input)?,
    };
    if nodes.is_empty() {
        let (file, remedy) =
            (input.name.to_owned(), "the file has no node: give a trace of Chakra");
        return Err(ImportError::Nothing { file, remedy });
    }
    Ok(nodes)
}

fn of_protobuf(input: &Input<'_>) -> Result<Vec<(Node, Place)>, ImportError> {
    let mut rest = input.bytes;
    let mut nodes = Vec::new();
    let mut is_first = true;
    while !rest.is_empty() {
        let number = input.bytes.len() - rest.len();
        let place = Place { file: input.name.to_owned(), unit: "byte", number };
        let message = protobuf::message(&mut rest);
        // The first message is the metadata, which has nothing that counts here.
        let valid = match message {
            Some(message) if is_first => protobuf::fields(message).map(|_| None),
            Some(message) => node(message).map(Some),
            None => None,
        };
        match valid {
            None => return Err(place.is(Wrong::Protobuf)),
            Some(Some(node)) => nodes.push((node, place)),
            Some(None) => {}
        }
        is_first = false;
    }
    Ok(nodes)
}

/// Decodes a `Node`.
fn node(message: &[u8]) -> Option<Node> {
    let text = |value: Value<'_>| Some(String::from_utf8_lossy(value.bytes()?).into_owned());
    let mut node = Node::default();
    for (field, value) in protobuf::fields(message)? {
        match field {
            1 => node.id = value.number()?,
            2 => node.name = text(value)?,
            3 => node.kind = value.number()?,
            5 => node.after.extend(value.numbers()?),
            7 => node.micros = value.number()?,
            10 => {
                let (mut name, mut number, mut word) = (String::new(), None, None);
                for (field, value) in protobuf::fields(value.bytes()?)? {
                    match field {
                        1 => name = text(value)?,
                        // Signed numbers of types that protobuf has in zigzag.
                        15 | 17 => number = value.number().map(|zigzag| zigzag >> 1),
                        7 | 9 | 11 | 13 | 19 | 21 | 23 | 25 | 27 => number = value.number(),
                        29 => word = text(value),
                        _ => {}
                    }
                }
                node.attribute(&name, number, word);
            }
            _ => {}
        }
    }
    Some(node)
}

impl Node {
    /// Sets an attribute; others than these have no effect.
    fn attribute(&mut self, name: &str, number: Option<u64>, word: Option<String>) {
        match name {
            "comm_type" => {
                let named = word.and_then(|word| position(&COLLECTIVES, &word));
                self.communication = number.or(named);
            }
            "comm_size" => self.bytes = number,
            "comm_src" => self.source = number,
            "comm_dst" => self.destination = number,
            "comm_tag" => self.tag = number.unwrap_or(0),
            "is_cpu_op" => self.is_on_cpu = number == Some(1),
            "root" | "root_rank" => self.root = number,
            "pg_name" => {
                let number = number.map(|number| number.to_string());
                self.group = word.or(number).unwrap_or_default();
            }
            _ => {}
        }
    }
}

fn position(names: &[&str], name: &str) -> Option<u64> {
    names.iter().position(|known| *known == name).map(|at| at as u64)
}

fn of_json(input: &Input<'_>) -> Result<Vec<(Node, Place)>, ImportError> {
    let mut nodes = Vec::new();
    let mut add = |value: &Json| {
        let place = Place { file: input.name.to_owned(), unit: "node", number: nodes.len() + 1 };
        let wrong = |found: &Json, expected| {
            let found = found.to_string().chars().take(60).collect();
            place.clone().is(Wrong::Expected { found, expected })
        };
        let duration = DURATIONS.iter().find_map(|name| value.get(*name));
        if let Some(duration) = duration.filter(|duration| number(duration).is_none()) {
            let expected = "a runtime or duration_micros of whole microseconds, 0 to 1000000000,";
            return Err(wrong(duration, expected));
        }
        let node = json_node(value).ok_or_else(|| wrong(value, "a node with an id and a type"))?;
        nodes.push((node, place));
        Ok(())
    };
    for value in serde_json::Deserializer::from_slice(input.bytes).into_iter::<Json>() {
        let value = value.map_err(|error| {
            let error = (error.line(), error.to_string());
            Place::line(input.name, error.0).is(Wrong::Json { error: error.1 })
        })?;
        let list = value.get("workload_graph").or(value.get("nodes")).unwrap_or(&value);
        match list {
            Json::Array(list) => list.iter().try_for_each(&mut add)?,
            // Metadata has no node's identifier; that of node 0 may be left out.
            one if one.get("type").is_none() && one.get("id").is_none() => {}
            one => add(one)?,
        }
    }
    Ok(nodes)
}

/// Decodes a node: fields of protobuf's JSON, or those of a `workload_graph`.
fn json_node(value: &Json) -> Option<Node> {
    let object = value.as_object()?;
    let any = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
    let mut node = Node {
        // Protobuf's JSON leaves out what is 0.
        id: any(&["id", "Id"]).map_or(Some(0), number)?,
        name: any(&["name", "Name"]).and_then(Json::as_str).unwrap_or("").to_owned(),
        kind: any(&["type", "NodeType"]).and_then(|kind| enumeration(kind, &KINDS))?,
        micros: any(&DURATIONS).map_or(Some(0), number)?,
        ..Node::default()
    };
    let before = any(&["dataDeps", "data_deps"]).and_then(Json::as_array);
    for other in before.into_iter().flatten() {
        node.after.push(number(other)?);
    }
    for (name, value) in object {
        node.attribute(name, number(value), value.as_str().map(str::to_owned));
    }
    for attribute in object.get("attr").and_then(Json::as_array).into_iter().flatten() {
        let attribute = attribute.as_object()?;
        let name = attribute.get("name").and_then(Json::as_str)?;
        let values =
            attribute.iter().filter(|(key, _)| key.ends_with("Val") || key.ends_with("_val"));
        for (key, value) in values {
            // The number of a group is a name.
            let is_text = key.starts_with("string");
            let word = value.as_str().filter(|_| is_text).map(str::to_owned);
            node.attribute(name, number(value).filter(|_| !is_text), word);
        }
    }
    Some(node)
}

/// A number, which protobuf's JSON writes as a string if it has 64 bits; 1 for true.
fn number(value: &Json) -> Option<u64> {
    value.as_u64().or(value.as_bool().map(u64::from)).or_else(|| value.as_str()?.parse().ok())
}

/// A number, or the name of one.
fn enumeration(value: &Json, names: &[&str]) -> Option<u64> {
    value.as_u64().or_else(|| position(names, value.as_str()?))
}
