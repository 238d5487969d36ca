//! The configuration of a run: the settings that reproduce it.

use serde_json::{Map, Value, json};

/// The settings in the syntax of a scenario file, but with several on a line.
pub(super) fn text(configuration: &[(&'static str, String)]) -> String {
    const COLUMNS: usize = 100;
    let mut lines = vec![String::new()];
    for (name, value) in configuration {
        let item = if *name == "workload" { value.clone() } else { format!(", {name} {value}") };
        let line = lines.last_mut().expect("there is one");
        if line.len() + item.len() > COLUMNS {
            line.push(',');
            lines.push(format!(" {}", &item[1..]));
        } else {
            line.push_str(&item);
        }
    }
    lines.join("\n") + "\n"
}

/// The settings as an object. A repeated setting is a list.
pub(super) fn value(configuration: &[(&'static str, String)]) -> Value {
    let mut all = Map::new();
    for (name, each) in configuration {
        match all.get_mut(*name) {
            None => drop(all.insert((*name).to_owned(), json!(each))),
            Some(Value::Array(values)) => values.push(json!(each)),
            Some(first) => *first = json!([first.clone(), each]),
        }
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_settings_are_a_list_and_lines_are_short() {
        let fail = |at: u32| ("fail", format!("4-6@{at}us"));
        let mut all = vec![("workload", "permutation".to_owned()), ("nodes", "16".to_owned())];
        all.extend((1..=12).map(fail));
        let value = value(&all);
        assert_eq!(value["nodes"], "16");
        assert_eq!(value["fail"].as_array().map(Vec::len), Some(12));
        let text = text(&all);
        assert!(text.starts_with("permutation, nodes 16, fail 4-6@1us, "), "{text}");
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= 101), "{text}");
    }
}
