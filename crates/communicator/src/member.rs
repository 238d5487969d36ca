//! What a rank tells the others at the rendezvous.

use crate::lending::SealKey;
use crate::options::Options;
use fairway::SegmentKey;
use fairway_collectives::Algorithm;
use std::net::SocketAddr;

/// First bytes of a record. The last one is the version.
const MAGIC: [u8; 4] = *b"FWM\x04";

/// The options by which all ranks execute a call in the same way, so that they must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    /// Number and length of the slots for messages.
    pub(crate) slots: (u32, u32),
    /// The algorithm, by its place in [`Algorithm::ALL`], from 1 on; 0 if none was chosen.
    algorithm: u32,
    lend_from: u32,
    direct_from: u64,
}

impl Choices {
    pub(crate) fn of(options: &Options) -> Choices {
        let place = |chosen| Algorithm::ALL.iter().position(|one| *one == chosen);
        Choices {
            slots: (options.slots, options.slot_bytes),
            algorithm: options.algorithm.and_then(place).map_or(0, |place| place as u32 + 1),
            lend_from: options.lend_from,
            direct_from: options.direct_from,
        }
    }

    /// The first option that differs, with its values here and there.
    pub(crate) fn first_difference(&self, other: &Choices) -> Option<[String; 2]> {
        let algorithm = |choices: &Choices| {
            let place = (choices.algorithm as usize).checked_sub(1);
            match place.and_then(|place| Algorithm::ALL.get(place)) {
                Some(algorithm) => format!("the algorithm {algorithm}"),
                None => "no algorithm of its own".to_string(),
            }
        };
        let slots =
            |choices: &Choices| format!("{} slots of {} bytes", choices.slots.0, choices.slots.1);
        let lengths = |choices: &Choices| {
            format!("lend_from {} and direct_from {}", choices.lend_from, choices.direct_from)
        };
        let texts: [&dyn Fn(&Choices) -> String; 3] = [&slots, &algorithm, &lengths];
        let mut pairs = texts.iter().map(|text| [text(self), text(other)]);
        pairs.find(|[own, theirs]| own != theirs)
    }
}

/// One rank, as the others need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Where its NIC listens.
    pub(crate) address: SocketAddr,
    /// A number of its host, equal for ranks of one host.
    pub(crate) host: u64,
    /// A number of its host's processes, equal for ranks that know each other's by their numbers.
    pub(crate) processes: u64,
    /// Number and token of its Jetty.
    pub(crate) jetty: u32,
    pub(crate) token: u32,
    /// Slots for messages.
    pub(crate) slots: SegmentKey,
    /// Descriptions of its calls.
    pub(crate) status: SegmentKey,
    /// Its options that must be those of all.
    pub(crate) choices: Choices,
    /// By which the other ranks of its host read what it lends.
    pub(crate) seal: SealKey,
}

impl Member {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.host.to_be_bytes());
        bytes.extend(self.processes.to_be_bytes());
        let process = self.seal.process;
        let Choices { slots, algorithm, lend_from, direct_from } = self.choices;
        for word in [self.jetty, self.token, slots.0, slots.1, process, algorithm, lend_from] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(direct_from.to_be_bytes());
        bytes.extend(self.seal.address.to_be_bytes());
        bytes.extend(self.seal.value.to_be_bytes());
        bytes.extend(self.slots.to_bytes());
        bytes.extend(self.status.to_bytes());
        bytes.extend(self.address.to_string().as_bytes());
        bytes
    }

    /// Decodes a record; `None` if it is none of this version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Member> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (host, rest) = rest.split_first_chunk::<8>()?;
        let (processes, rest) = rest.split_first_chunk::<8>()?;
        let mut words = [0; 7];
        let mut rest = rest;
        for word in &mut words {
            let (bytes, after) = rest.split_first_chunk::<4>()?;
            (*word, rest) = (u32::from_be_bytes(*bytes), after);
        }
        let (direct_from, rest) = rest.split_first_chunk::<8>()?;
        let (address, rest) = rest.split_first_chunk::<8>()?;
        let (value, rest) = rest.split_first_chunk::<8>()?;
        let (address, value) = (u64::from_be_bytes(*address), u64::from_be_bytes(*value));
        let (slots, rest) = rest.split_first_chunk::<{ SegmentKey::BYTES }>()?;
        let (status, rest) = rest.split_first_chunk::<{ SegmentKey::BYTES }>()?;
        Some(Member {
            address: str::from_utf8(rest).ok()?.parse().ok()?,
            host: u64::from_be_bytes(*host),
            processes: u64::from_be_bytes(*processes),
            jetty: words[0],
            token: words[1],
            slots: SegmentKey::from_bytes(slots),
            status: SegmentKey::from_bytes(status),
            choices: Choices {
                slots: (words[2], words[3]),
                algorithm: words[5],
                lend_from: words[6],
                direct_from: u64::from_be_bytes(*direct_from),
            },
            seal: SealKey { process: words[4], address, value },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_decoded_as_they_were_encoded_and_others_refused() {
        let key = |word| SegmentKey { token_id: word, token_value: 2, address: 3, length: 4 };
        let address = "[fe80::1%3]:4810".parse().unwrap_or_else(|_| ([127, 0, 0, 1], 4810).into());
        let (slots, status) = (key(5), key(6));
        let seal = SealKey { process: 10, address: 11, value: 12 };
        let (host, jetty, token) = (7, 8, 9);
        let choices = Choices::of(&Options::default());
        let processes = 13;
        let member =
            Member { address, host, processes, jetty, token, slots, status, choices, seal };
        let bytes = member.to_bytes();
        assert_eq!(Member::from_bytes(&bytes), Some(member));
        for end in 0..MAGIC.len() + 116 {
            assert_eq!(Member::from_bytes(&bytes[..end]), None, "{end} bytes");
        }
        assert_eq!(Member::from_bytes(b"GET / HTTP/1.1"), None);
    }
}
