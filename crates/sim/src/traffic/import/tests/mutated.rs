//! Inputs that are cut off or changed: each is read, or refused with a place or a remedy.

use super::chakra::{json, rank};
use super::{Format, ImportError, Input};
use crate::traffic::read_trace;
use fairway_device::random::Random;

/// A log of two ranks.
const NCCL: &str = "\
h:1:1 [0] NCCL INFO ncclCommInitRank comm 0xa0 rank 0 nranks 2 cudaDev 0 commId 0x11 - Init START\n\
h:2:2 [1] NCCL INFO ncclCommInitRank comm 0xa1 rank 1 nranks 2 cudaDev 1 commId 0x11 - Init START\n\
h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 \
comm 0xa0 [nranks=2] stream 0x9\n\
h:2:2 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 0 \
comm 0xa1 [nranks=2] stream 0x9\n\
h:1:1 [0] NCCL INFO Send: opCount 1 sendbuff 0x1 recvbuff 0x2 count 8 datatype 7 op 0 root 1 \
comm 0xa0 [nranks=2] stream 0x9\n\
h:2:2 [1] NCCL INFO Recv: opCount 1 sendbuff 0x1 recvbuff 0x2 count 8 datatype 7 op 0 root 0 \
comm 0xa1 [nranks=2] stream 0x9\n";

/// Two ranks.
const GOAL: &str = "num_ranks 2\nrank 0 {\nl1: calc 100\nl2: send 8b to 1 tag 5\nl2 requires l1\n\
                    l3: recv 4b from -1 tag -1\nl3 irequires l2 }\n\
                    rank 1 {\nl1: recv 8b from 0 tag 5\nl2: send 4b to 0 cpu 1 nic 0 }\n";

/// Reads an input in a format, and makes its flows; an error must name a file.
fn is_handled(first: &[u8], second: Option<&[u8]>, format: Format) {
    let mut inputs = vec![Input { name: "x.0.in", bytes: first }];
    inputs.extend(second.map(|bytes| Input { name: "x.1.in", bytes }));
    match read_trace(&inputs, Some(format)) {
        // Whether the messages fit is another matter.
        Ok(trace) => drop(trace.flows(None)),
        Err(ImportError::OneFile { given, .. }) => assert_eq!(given, 2),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("x.0.in") || text.contains("x.1.in"), "{text}");
            if let ImportError::At { place, .. } = &error {
                assert!(text.starts_with(&place.to_string()), "{text}");
            }
            assert!(text.contains(':') && text.len() < 700, "{text}");
        }
    }
}

fn samples() -> Vec<(Vec<u8>, Option<Vec<u8>>, Format)> {
    vec![
        (NCCL.as_bytes().to_vec(), None, Format::Nccl),
        (GOAL.as_bytes().to_vec(), None, Format::Goal),
        (rank(0), Some(rank(1)), Format::Chakra),
        (json(0).into_bytes(), Some(json(1).into_bytes()), Format::Chakra),
    ]
}

#[test]
fn samples_are_right_before_they_are_changed() {
    for (first, second, format) in samples() {
        let mut inputs = vec![Input { name: "x.0.in", bytes: &first }];
        inputs.extend(second.as_deref().map(|bytes| Input { name: "x.1.in", bytes }));
        assert_eq!(Format::of(&first), format);
        read_trace(&inputs, None).expect("a trace").flows(None).expect("flows");
    }
}

#[test]
fn inputs_cut_off_at_any_byte_are_handled() {
    for (first, second, format) in samples() {
        for end in 0..first.len() {
            is_handled(&first[..end], second.as_deref(), format);
        }
    }
}

#[test]
fn changed_inputs_are_handled() {
    let mut random = Random::fork(7, 0x696D_706F);
    for (sample, second, format) in samples() {
        let formats = Format::NAMES.map(|(_, format)| format);
        for turn in 0..6000 {
            let mut bytes = sample.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len().max(1) as u64) as usize;
                if bytes.is_empty() {
                    break;
                }
                match random.below(5) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = b"0 -{}[]:;9\n\xFF\x00b"[random.below(14) as usize],
                    2 => drop(bytes.remove(at)),
                    3 => {
                        let end = (at + random.below(40) as usize).min(bytes.len());
                        let part = bytes[at..end].to_vec();
                        bytes.splice(at..at, part);
                    }
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let format = if turn % 8 == 0 { formats[random.below(4) as usize] } else { format };
            is_handled(&bytes, second.as_deref(), format);
        }
    }
}
