//! The trackers of a target, and the receives that are complete and wait for earlier ones.

use super::keyed::{Key, Keyed, KeyedIndex};
use super::target::Tracker;
use crate::arrival::UnreportedReceive;
use crate::names::ChannelIndex;
use crate::pool::{Index, Pool};
use fairway_wire::JettyId;

/// One tracker for each Jetty of a peer whose operations need order.
pub(crate) struct Trackers {
    trackers: Keyed<Tracker>,
    /// In-order receives that wait to complete, listed by their trackers. There are as many records
    /// as receives.
    unreported: Pool<UnreportedReceive>,
}

impl Trackers {
    pub(crate) fn new(capacity: u32, receives: u32) -> Trackers {
        Trackers { trackers: Keyed::new(capacity), unreported: Pool::new(receives) }
    }

    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<KeyedIndex<Tracker>> {
        self.trackers.find(key)
    }

    /// The tracker of a key, created if there is none; `None` if no record is free.
    #[inline]
    pub(crate) fn find_or_make(&mut self, key: &Key) -> Option<KeyedIndex<Tracker>> {
        self.trackers.find_or_make(key, Tracker::NEW)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = KeyedIndex<Tracker>> + use<> {
        self.trackers.all()
    }

    /// The trackers of the Jetties of a peer, by the leader of the group of channels.
    pub(crate) fn of_channel(
        &self,
        channel: ChannelIndex,
    ) -> impl Iterator<Item = KeyedIndex<Tracker>> + use<> {
        self.trackers.of_channel(channel)
    }

    /// Frees the trackers of the Jetties of a peer.
    pub(crate) fn forget_channel(&mut self, channel: ChannelIndex) {
        self.trackers.forget_channel(channel);
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.trackers.in_use()
    }

    // ---- unreported receives ----

    /// Number of receives that are complete and wait for earlier ones.
    #[inline]
    pub(crate) fn unreported_in_use(&self) -> u32 {
        self.unreported.in_use()
    }

    /// Adds a receive to those of a tracker that wait for earlier ones. False if there is no record
    /// for it, which cannot happen: there are as many as receives.
    pub(crate) fn add_unreported(
        &mut self,
        tracker: KeyedIndex<Tracker>,
        mut unreported: UnreportedReceive,
    ) -> bool {
        unreported.next = self.trackers[tracker].unreported;
        let Some(index) = self.unreported.add(unreported) else { return false };
        self.trackers[tracker].unreported = Some(index);
        true
    }

    /// Takes the first unreported receive of a tracker that is due, as completed.
    #[inline]
    pub(crate) fn take_unreported_next(
        &mut self,
        tracker: KeyedIndex<Tracker>,
    ) -> Option<UnreportedReceive> {
        let unreported = self.take_unreported(tracker, |tracker, unreported| {
            tracker.may_receive(unreported.sequence, unreported.after)
        })?;
        self.trackers[tracker].receive_done();
        Some(unreported)
    }

    /// Takes the first unreported receive of a tracker for which `is_it` returns true.
    pub(crate) fn take_unreported(
        &mut self,
        tracker: KeyedIndex<Tracker>,
        is_it: impl Fn(&Tracker, &UnreportedReceive) -> bool,
    ) -> Option<UnreportedReceive> {
        let (mut previous, mut at) =
            (None::<Index<UnreportedReceive>>, self.trackers[tracker].unreported);
        while let Some(index) = at {
            let unreported = self.unreported[index];
            if is_it(&self.trackers[tracker], &unreported) {
                match previous {
                    None => self.trackers[tracker].unreported = unreported.next,
                    Some(previous) => self.unreported[previous].next = unreported.next,
                }
                self.unreported.remove(index);
                return Some(unreported);
            }
            (previous, at) = (at, unreported.next);
        }
        None
    }

    /// The unreported receives of a tracker, the newest first.
    fn unreported_of(
        &self,
        tracker: KeyedIndex<Tracker>,
    ) -> impl Iterator<Item = &UnreportedReceive> {
        UnreportedReceive::list(&self.unreported, self.trackers[tracker].unreported)
    }

    pub(crate) fn has_unreported(&self, tracker: KeyedIndex<Tracker>) -> bool {
        self.trackers[tracker].unreported.is_some()
    }

    /// True if a complete receive of a Jetty waits to be reported.
    pub(crate) fn has_unreported_of(&self, jetty: JettyId) -> bool {
        self.trackers.any(|tracker| {
            let mut unreported = UnreportedReceive::list(&self.unreported, tracker.unreported);
            unreported.any(|unreported| unreported.completion.jetty == jetty)
        })
    }

    /// True if the receive with this number is complete and waits to be reported.
    pub(crate) fn is_unreported(&self, tracker: KeyedIndex<Tracker>, sequence: u16) -> bool {
        self.unreported_of(tracker).any(|unreported| unreported.sequence == sequence)
    }

    /// The lowest sequence number of the receives that wait to be reported.
    pub(crate) fn first_unreported(&self, tracker: KeyedIndex<Tracker>) -> u16 {
        let from = self.trackers[tracker].next_receive();
        let ahead =
            self.unreported_of(tracker).map(|unreported| unreported.sequence.wrapping_sub(from));
        from.wrapping_add(ahead.min().unwrap_or(u16::MAX))
    }
}

impl core::ops::Index<KeyedIndex<Tracker>> for Trackers {
    type Output = Tracker;

    #[inline]
    fn index(&self, index: KeyedIndex<Tracker>) -> &Tracker {
        &self.trackers[index]
    }
}

impl core::ops::IndexMut<KeyedIndex<Tracker>> for Trackers {
    #[inline]
    fn index_mut(&mut self, index: KeyedIndex<Tracker>) -> &mut Tracker {
        &mut self.trackers[index]
    }
}
