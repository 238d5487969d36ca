//! Each rank exchanges with all others, without going through a third one.

use super::copy_own;
use crate::call::{Message, Piece};
use crate::schedule::{Builder, Place, Region, Span, StepIndex};

/// The other ranks, beginning with the next one, so that not all send to the same one at once.
pub(super) fn others(b: &Builder<'_>) -> impl Iterator<Item = u32> + use<> {
    let (rank, ranks) = (b.rank(), b.ranks());
    (1..ranks).map(move |distance| (rank + distance) % ranks)
}

/// Combines a span of the own input with those that all others send, in the order of the ranks.
fn combine_all(b: &mut Builder<'_>, input: Span, into: Span, after: &[StepIndex]) -> StepIndex {
    let rank = b.rank();
    let mut values = Vec::new();
    for from in 0..b.ranks() {
        values.push(match from == rank {
            true => Region::Input(input),
            false => Region::Received(b.receive(from, input.bytes, Place::Slot)),
        });
    }
    let mut sum = values[0];
    let mut last = None;
    for (at, value) in values.iter().enumerate().skip(1) {
        let is_last = at + 1 == values.len();
        // The sum so far is in a slot, unless it is the own input.
        let place = match value {
            _ if is_last => Region::Output(into),
            Region::Received(_) => *value,
            _ => sum,
        };
        let after = if is_last { after.to_vec() } else { Vec::new() };
        last = Some(b.combine([sum, *value], place, is_last, after));
        sum = place;
    }
    last.expect("a group of one rank does not come here")
}

pub(super) fn all_reduce(b: &mut Builder<'_>, whole: Piece) {
    let spans: Vec<_> = b.spans(whole).collect();
    for span in spans {
        let peers: Vec<_> = others(b).collect();
        // The output may be the same memory as the input, which the others need.
        let send = |to| b.send(to, Region::Input(span), Place::Slot, []);
        let sends: Vec<_> = peers.into_iter().map(send).collect();
        combine_all(b, span, span, &sends);
    }
}

pub(super) fn reduce_scatter(b: &mut Builder<'_>, pieces: &[Piece]) {
    let peers: Vec<_> = others(b).collect();
    for to in peers {
        let spans: Vec<_> = b.spans(pieces[to as usize]).collect();
        for span in spans {
            b.send(to, Region::Input(span), Place::Slot, []);
        }
    }
    let own = pieces[b.rank() as usize];
    let spans: Vec<_> = b.spans(own).collect();
    for span in spans {
        let into = Span { offset: span.offset - own.offset, ..span };
        combine_all(b, span, into, &[]);
    }
}

pub(super) fn reduce(b: &mut Builder<'_>, whole: Piece, root: u32) {
    let spans: Vec<_> = b.spans(whole).collect();
    for span in spans {
        if b.rank() == root {
            combine_all(b, span, span, &[]);
        } else {
            b.send(root, Region::Input(span), Place::Slot, []);
        }
    }
}

/// Sends spans of the input to `place` in the output of a rank.
fn send_piece(b: &mut Builder<'_>, to: u32, input: Piece, place: u64) {
    let spans: Vec<_> = b.spans(input).collect();
    for span in spans {
        let place = Place::Output(place + (span.offset - input.offset));
        b.send(to, Region::Input(span), place, []);
    }
}

fn receive_piece(b: &mut Builder<'_>, from: u32, output: Piece) {
    let spans: Vec<_> = b.spans(output).collect();
    for span in spans {
        b.receive(from, span.bytes, Place::Output(span.offset));
    }
}

pub(super) fn all_gather(b: &mut Builder<'_>, pieces: &[Piece]) {
    let own = pieces[b.rank() as usize];
    let input = Piece { offset: 0, ..own };
    let peers: Vec<_> = others(b).collect();
    for to in &peers {
        send_piece(b, *to, input, own.offset);
    }
    copy_own(b, own, 0);
    for from in peers {
        receive_piece(b, from, pieces[from as usize]);
    }
}

pub(super) fn gather(b: &mut Builder<'_>, pieces: &[Piece], root: u32) {
    let own = pieces[b.rank() as usize];
    if b.rank() != root {
        return send_piece(b, root, Piece { offset: 0, ..own }, own.offset);
    }
    copy_own(b, own, 0);
    let peers: Vec<_> = others(b).collect();
    for from in peers {
        receive_piece(b, from, pieces[from as usize]);
    }
}

pub(super) fn scatter(b: &mut Builder<'_>, pieces: &[Piece], root: u32) {
    let own = pieces[b.rank() as usize];
    let output = Piece { offset: 0, ..own };
    if b.rank() != root {
        return receive_piece(b, root, output);
    }
    let peers: Vec<_> = others(b).collect();
    for to in peers {
        send_piece(b, to, pieces[to as usize], 0);
    }
    copy_own(b, output, own.offset);
}

/// Spans of a message. An empty message has one empty span: it is sent, too.
fn message_spans(b: &Builder<'_>, piece: Piece) -> Vec<Span> {
    match piece.bytes {
        0 => vec![Span { offset: piece.offset, bytes: 0 }],
        _ => b.spans(piece).collect(),
    }
}

/// Only the receiver knows where a message goes, so the senders send all to slots. If `pairwise`, a
/// rank sends to one rank and receives from one rank at a time.
pub(super) fn exchange(
    b: &mut Builder<'_>,
    sends: &[Message],
    receives: &[Message],
    pairwise: bool,
) {
    let (rank, ranks) = (b.rank(), b.ranks());
    let with = |messages: &[Message], peer: u32| -> Vec<Piece> {
        let with_peer = messages.iter().filter(|message| message.rank == peer);
        with_peer.map(|message| message.piece).collect()
    };
    for (from, into) in with(sends, rank).into_iter().zip(with(receives, rank)) {
        let spans: Vec<_> = b.spans(into).collect();
        for span in spans {
            let from = Span { offset: from.offset + (span.offset - into.offset), ..span };
            b.copy(Region::Input(from), Region::Output(span), []);
        }
    }
    let mut before: Vec<StepIndex> = Vec::new();
    for distance in 1..ranks {
        let (to, from) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
        let mut steps = Vec::new();
        for piece in with(sends, to) {
            for span in message_spans(b, piece) {
                let after = if pairwise { before.clone() } else { Vec::new() };
                steps.push(b.send(to, Region::Input(span), Place::Slot, after));
            }
        }
        for piece in with(receives, from) {
            for span in message_spans(b, piece) {
                steps.push(b.receive(from, span.bytes, Place::Output(span.offset)));
            }
        }
        before = steps;
    }
}
