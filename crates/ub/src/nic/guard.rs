//! Memory that peers reach by way of Jetties.

use super::UbDevice;
use crate::api::{Grant, Rights, SegmentId, SetupError};
use crate::guard::Guards;
use fairway_wire::JettyId;

impl UbDevice {
    /// Requires from now on that every remote access to memory goes through a Jetty. A peer names
    /// the Jetty in the secret: the lowest `secret_bits` are the segment's, those above are the
    /// Jetty's number. The Jetty has to grant the access ([`Self::set_jetty_grant`]), and be of the
    /// segment's domain ([`Self::set_segment_access`]). Memory for that is allocated here.
    ///
    /// # Panics
    /// If a Jetty's number does not fit into the bits above, or `secret_bits` is above 31.
    pub fn guard_segments(&mut self, secret_bits: u32) {
        let limits = self.shared.config.limits();
        assert!(secret_bits < 32 && limits.jetties <= u32::MAX >> secret_bits, "secret_bits");
        let guards = Guards::new(secret_bits, limits.jetties, limits.segments);
        self.shared.segments.guard(guards);
    }

    /// Sets what peers may do through a Jetty; before the first call they may do nothing.
    /// Unfinished operations that relied on an earlier grant are refused, except READs that are
    /// being answered.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty; `Parameter` if segments are not guarded.
    pub fn set_jetty_grant(&mut self, jetty: JettyId, grant: Grant) -> Result<(), SetupError> {
        self.shared.jetties.get(jetty).ok_or(SetupError::Missing)?;
        let guards = self.shared.segments.guards_mut();
        guards.ok_or(SetupError::Parameter("guard_segments"))?.set(jetty, grant);
        Ok(())
    }

    /// True if a peer has accessed memory by way of this Jetty since it began to grant accesses.
    pub fn is_accessed(&self, jetty: JettyId) -> bool {
        self.shared.segments.guards().is_some_and(|guards| guards.is_accessed(jetty))
    }

    /// True if a peer has made the first access by way of a Jetty since the last call.
    pub fn take_first_accesses(&mut self) -> bool {
        self.shared.segments.guards_mut().is_some_and(Guards::take_first_accesses)
    }

    /// Changes what peers may do with a segment, and the segment's domain, which counts if segments
    /// are guarded. Unfinished operations are refused if they were allowed before and are not now,
    /// except READs that are being answered.
    ///
    /// # Errors
    /// `Missing` if the segment is not registered.
    pub fn set_segment_access(
        &mut self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), SetupError> {
        let segments = &mut self.shared.segments;
        let before = segments.guards().and_then(|guards| guards.domain(segment.number()));
        let moved = before.is_some_and(|before| before != domain);
        segments.set_rights(segment, rights, moved)?;
        if let Some(guards) = segments.guards_mut() {
            guards.set_domain(segment.number(), domain);
        }
        Ok(())
    }
}
