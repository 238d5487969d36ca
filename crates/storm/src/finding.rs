//! Violations that oracles find.

use std::fmt;

/// A violated rule, in one sentence that names the operation, the node or the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding(String);

impl From<String> for Finding {
    fn from(sentence: String) -> Self {
        Finding(sentence)
    }
}

impl From<&str> for Finding {
    fn from(sentence: &str) -> Self {
        Finding(String::from(sentence))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
