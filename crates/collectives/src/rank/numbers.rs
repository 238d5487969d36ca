//! The number of a call with each other rank, and what the two compare.

use super::{Rank, Work};
use crate::call::{Call, Digest, Message};
use crate::header::Header;
use crate::schedule::Schedule;

/// What a call has with each other rank.
pub(super) struct Numbers {
    /// Its number.
    pub(super) sequences: Vec<u32>,
    /// Its digest, for messages to that rank.
    pub(super) digests: Vec<Digest>,
    /// Messages that have already arrived, and their senders.
    pub(super) early: Vec<(u32, Header)>,
}

impl Rank {
    /// All ranks pass the same text before the same one of their calls, which ends the group if the
    /// texts differ. Sends and receives are none of those calls.
    pub fn label_next(&mut self, text: &str) {
        let digest = Digest::of_text(text);
        self.links.iter_mut().for_each(|link| link.pass(digest));
    }

    /// Begins a call with all other ranks that take part. It takes a number with those with which
    /// it has messages, and is passed with the others.
    pub(super) fn begin_with_all(
        &mut self,
        call: &Call,
        schedule: &Schedule,
        work: Work,
    ) -> Numbers {
        let (own, count) = (self.rank, self.links.len() as u32);
        let digests = (0..count).map(|peer| call.digest_to(peer)).collect();
        let sequences = vec![0; self.links.len()];
        let mut numbers = Numbers { sequences, digests, early: Vec::new() };
        for peer in (0..count).filter(|peer| *peer != own && call.involves(*peer)) {
            let digest = &mut numbers.digests[peer as usize];
            if !schedule.has_messages_with(peer) {
                self.links[peer as usize].pass(*digest);
                continue;
            }
            let (sequence, headers) = self.begin(call, peer, work, digest);
            numbers.sequences[peer as usize] = sequence;
            numbers.early.extend(headers.into_iter().map(|header| (peer, header)));
        }
        numbers
    }

    /// Begins a call with one other rank. Returns the number of the messages to it, and the
    /// messages of it that have already arrived. `sent` is the digest of the messages to it.
    fn begin(
        &mut self,
        call: &Call,
        peer: u32,
        work: Work,
        sent: &mut Digest,
    ) -> (u32, Vec<Header>) {
        let (digest, link) = (call.digest_from(peer), &mut self.links[peer as usize]);
        let Call::Exchange { is_collective: false, sends, receives } = call else {
            let passed = link.take_passed();
            *sent = sent.after(passed);
            return link.begin(digest.after(passed), work);
        };
        let names_peer = |messages: &[Message]| messages.iter().any(|with| with.rank == peer);
        let sequence = if names_peer(sends) { link.begin_send() } else { 0 };
        let early = match names_peer(receives) {
            true => link.begin_receive(digest, work),
            false => Vec::new(),
        };
        (sequence, early)
    }
}
