//! Datagrams that wait for the link to their process.
//!
//! A queue pair of datagrams sends to many processes. A datagram that waits for its link is put
//! aside, so that those to other processes do not wait with it. Its bytes are copied: an adapter
//! would have sent it at once, and there are programs that use the memory again when they hear from
//! the peer, whether or not the send has completed (UCX does when both sides request a connection).
//! Completions stay in the order of posting.

use fairway::embed::Core;
use fairway_roce::Status;
use fairway_runtime::{Gone, clock};

use super::link::DATAGRAM_CONNECT_TIMEOUT;
use super::memory::copy;
use super::send::{Begun, Send};
use super::tables::Verbs;

impl Send {
    /// True if it waits for a link.
    fn is_parked(&self) -> bool {
        self.parked.is_some() && !self.is_begun
    }

    fn is_parked_for(&self, link: u32) -> bool {
        self.parked == Some(link) && !self.is_begun
    }
}

impl Verbs {
    /// Puts a datagram aside until the link has been made or has failed. It is lost if the link has
    /// just failed.
    pub(super) fn park(&mut self, core: &mut Core, local: u32, index: usize, link: u32) -> Begun {
        let in_backoff = |verbs: &Verbs| verbs.links[link as usize].in_backoff(clock::now());
        if !in_backoff(self) {
            // Queue pairs wait for a link only while an attempt to make it is under way. So none
            // waits for this one yet, and none fails here if the attempt fails at once.
            self.connect(core, link, DATAGRAM_CONNECT_TIMEOUT);
        }
        if in_backoff(self) {
            self.set(local, |pair| pair.sends[index].finish(Status::Success));
            return Begun::Yes;
        }
        if let Err(begun) = self.gather(core, local, index, 1) {
            return begun;
        }
        self.set(local, |pair| pair.sends[index].parked = Some(link));
        let waiting = &mut self.links[link as usize].waiting;
        if !waiting.contains(&local) {
            waiting.push(local);
        }
        Begun::Yes
    }

    /// Tries once more to send the parked datagrams, in the order of posting. Those whose links
    /// have not been made stay parked.
    pub(super) fn unpark(&mut self, core: &mut Core, local: u32) -> Begun {
        let begun = self.pairs[local as usize].as_deref().map_or(0, |pair| pair.begun() as usize);
        let now = clock::now();
        for index in 0..begun {
            let pair = self.pairs[local as usize].as_deref_mut();
            let parked = pair.is_some_and(|pair| pair.sends[index].is_parked());
            if parked && self.begin(core, (local, index), now) == Begun::Later {
                self.set(local, |pair| pair.unparks = true);
                return Begun::Later;
            }
        }
        Begun::Yes
    }

    /// True if a datagram of a queue pair waits for the link.
    pub(super) fn has_parked(&self, local: u32, link: u32) -> bool {
        let pair = self.pairs[local as usize].as_deref();
        pair.is_some_and(|pair| pair.sends.iter().any(|send| send.is_parked_for(link)))
    }

    /// Drops the datagrams of a queue pair that wait for a link which cannot be made.
    pub(super) fn lose_parked(&mut self, local: u32, link: u32) {
        self.set(local, |pair| {
            let parked = pair.sends.iter_mut().filter(|send| send.is_parked_for(link));
            parked.for_each(|send| send.finish(Status::Success));
        });
    }

    /// Copies the bytes of a send to one buffer, if the send must be one message and has at least
    /// `ranges` ranges.
    ///
    /// # Errors
    /// The bytes could not be copied. Returns whether the send has ended, or is to be begun later.
    pub(super) fn gather(
        &mut self,
        core: &mut Core,
        local: u32,
        index: usize,
        ranges: usize,
    ) -> Result<(), Begun> {
        let Some(pair) = self.pairs[local as usize].as_deref() else {
            return Err(Begun::Later);
        };
        let Some((list, length)) = pair.sends[index].uncopied(ranges) else { return Ok(()) };
        let Ok(bounce_buffer) = self.regions.lend(core, length) else {
            return Err(self.wait(local));
        };
        self.set(local, |pair| pair.sends[index].copied_to(bounce_buffer));
        copy(core, &list, &bounce_buffer, length).map_err(|Gone| {
            self.set(local, |pair| {
                pair.sends[index].finish(Status::LocalProtection);
                pair.is_failing = true;
            });
            Begun::Yes
        })
    }
}
