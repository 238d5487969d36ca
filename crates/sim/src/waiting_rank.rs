//! What a rank of a collective operation waits for.

use std::fmt;

/// Maximum number of ranks that a description names.
const NAMED: usize = 8;

/// A rank that has not finished, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRank {
    /// The rank.
    pub rank: u32,
    /// The number of its call, from 1.
    pub call: u32,
    /// The ranks whose messages or keys are missing.
    pub awaited: Vec<u32>,
    /// The rank whose host its NIC has given up; `None` if it has given up none.
    pub lost: Option<u32>,
}

impl fmt::Display for WaitingRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitingRank { rank, call, awaited, lost } = self;
        match lost {
            Some(lost) => write!(f, "Rank {rank} has stopped: rank {lost} does not answer")?,
            None => write!(f, "Rank {rank} waits")?,
        }
        write!(f, ", in call {call}; ")?;
        match awaited.as_slice() {
            [] => write!(f, "no message is missing, but some of its own have not arrived. "),
            all => {
                let named: Vec<String> =
                    all.iter().take(NAMED).map(|rank| rank.to_string()).collect();
                let more = all.len() - named.len();
                write!(f, "messages are missing from {}", named.join(", "))?;
                if more > 0 {
                    write!(f, " and {more} more")?;
                }
                f.write_str(". ")
            }
        }
    }
}
