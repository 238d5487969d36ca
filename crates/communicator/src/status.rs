//! What a rank publishes about its calls: a segment that the others READ when they wait for it for
//! long, or find that it called something else. The rank itself need not do anything for that.
//!
//! The segment is a ring of entries, one for each of the last calls. An entry begins with the
//! number of the call, from 1 on, and the length of the description, and then has the description.

use fairway::{Context, Error, Memory, Rights, Segment};
use fairway_collectives::Call;

/// Number of calls that are described.
const ENTRIES: u64 = 16;
/// Length of an entry in bytes.
const ENTRY: usize = 160;
/// Length of an entry's head: number of the call, length of the text.
const HEAD: usize = 16;
/// Length of the segment in bytes.
pub(crate) const BYTES: u64 = ENTRIES * ENTRY as u64;

/// With what the description of a collective exchange begins.
const EXCHANGE: &str = "all-to-all ";

/// Describes a call, and what it is for.
pub(crate) fn describe(call: &Call, label: &str) -> String {
    let mut text = call.to_string();
    if !label.is_empty() {
        text = format!("{text} ({label})");
    }
    // Descriptions are compared with those that an entry holds.
    let fits = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(ENTRY - HEAD)).rev().find(fits);
    text.truncate(end.unwrap_or(0));
    text
}

/// The description of this rank's calls.
pub(crate) struct Status {
    segment: Segment,
    calls: u64,
}

impl Status {
    pub(crate) fn new(context: &Context) -> Result<Status, Error> {
        let segment = context.register(Memory::zeroed(BYTES as usize)?, Rights::READ)?;
        Ok(Status { segment, calls: 0 })
    }

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// What the others read.
    pub(crate) fn published(&self) -> Option<Published> {
        let mut bytes = vec![0; BYTES as usize];
        self.segment.read_at(0, &mut bytes).ok()?;
        Some(Published::new(bytes))
    }

    /// Publishes a call. Returns its number, from 1 on.
    pub(crate) fn begin(&mut self, call: &str) -> Result<u64, Error> {
        self.calls += 1;
        let text = &call.as_bytes()[..call.len().min(ENTRY - HEAD)];
        let mut entry = [0; ENTRY];
        entry[..8].copy_from_slice(&self.calls.to_le_bytes());
        entry[8..HEAD].copy_from_slice(&(text.len() as u64).to_le_bytes());
        entry[HEAD..HEAD + text.len()].copy_from_slice(text);
        let at = (self.calls % ENTRIES) * ENTRY as u64;
        self.segment.write_at(at, &entry[..HEAD + text.len()])?;
        Ok(self.calls)
    }
}

/// The calls of a rank, as its segment was read.
pub(crate) struct Published(Vec<u8>);

impl Published {
    pub(crate) fn new(bytes: Vec<u8>) -> Published {
        Published(bytes)
    }

    /// The description of a call, if it has begun and is one of the last.
    pub(crate) fn call(&self, number: u64) -> Option<String> {
        let at = (number % ENTRIES) as usize * ENTRY;
        let entry = self.0.get(at..at + ENTRY)?;
        let word = |at: usize| {
            let bytes = entry[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let text = entry.get(HEAD..HEAD + word(8).min(ENTRY as u64) as usize)?;
        (word(0) == number && number > 0).then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// The last call that has begun, and its number.
    pub(crate) fn last(&self) -> Option<(u64, String)> {
        let numbers = self
            .0
            .chunks_exact(ENTRY)
            .map(|entry| u64::from_le_bytes(entry[..8].try_into().expect("eight bytes")));
        let last = numbers.max().filter(|number| *number > 0)?;
        Some((last, self.call(last)?))
    }

    /// The first calls with the same number that differ, of those that both ranks still describe.
    pub(crate) fn first_difference(&self, other: &Published) -> Option<(String, String)> {
        let (last, _) = self.last()?;
        let described = last.saturating_sub(ENTRIES - 1)..=last;
        let mut pairs = described.filter_map(|number| self.call(number).zip(other.call(number)));
        // Ranks may exchange other lengths with each other than with the rest.
        let are_exchanges = |texts: [&str; 2]| texts.iter().all(|text| text.starts_with(EXCHANGE));
        pairs.find(|(one, other)| one != other && !are_exchanges([one, other]))
    }
}
