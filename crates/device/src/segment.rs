//! Registered memory: a device's records of it, and the check of remote accesses.

use crate::guard::Guards;
use crate::pool::{Index, Pool};
use crate::{LocalRange, Rights, SegmentId, SegmentRequest, SetupError};
use alloc::vec::Vec;
use fairway_wire::{Access, Refusal};

/// Record of a segment: 32 bytes (checked below), the size that OpenURMA gives for an MR (paper
/// Table 4).
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    address: u64,
    length: u64,
    token_value: u32,
    /// Number of operations and posted receives that still need the memory.
    references: u32,
    /// Counts registrations of this index, so that a message for an earlier one is refused.
    generation: u32,
    rights: Rights,
    state: SegmentState,
}

const _: () = assert!(size_of::<Segment>() == 32);

impl Segment {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Number of operations and posted receives that still need the memory.
    pub fn references(&self) -> u32 {
        self.references
    }

    /// The rights of peers.
    pub fn rights(&self) -> Rights {
        self.rights
    }
}

/// Record of the admission of a remote access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Generation of the registration plus that of the grant, if there is one: both only ever grow.
    pub generation: u32,
    /// The Jetty that granted the access, if Jetties guard the segments.
    pub via: Option<u32>,
}

impl Admission {
    /// The admission of an access of no bytes, which needs no segment.
    pub const NOWHERE: Admission = Admission { generation: 0, via: None };
}

/// The number that stands for no segment.
const NOWHERE: u32 = SegmentId::NOWHERE.number();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    Registered,
    /// Deregistered, but still in use: remote accesses are already refused.
    Releasing,
    Free,
}

/// All segments of a device.
#[derive(Debug)]
pub struct Segments {
    pool: Pool<Segment>,
    generation: u32,
    /// Address of each segment in the memory of its owner.
    places: Vec<u64>,
    /// Grants of Jetties, if peers name a Jetty with every access.
    guards: Option<Guards>,
}

impl Segments {
    /// The first record, if there is one.
    #[inline]
    pub fn first(&self) -> &[Segment] {
        self.pool.first(1)
    }

    /// Creates a table for `capacity` segments.
    pub fn new(capacity: u32) -> Self {
        let places = alloc::vec![0; capacity as usize];
        Segments { pool: Pool::new(capacity), generation: 0, places, guards: None }
    }

    /// The grants of Jetties, if they guard the segments.
    pub fn guards(&self) -> Option<&Guards> {
        self.guards.as_ref()
    }

    /// The grants of Jetties, mutable.
    pub fn guards_mut(&mut self) -> Option<&mut Guards> {
        self.guards.as_mut()
    }

    /// Makes Jetties guard the segments: from now on remote accesses name a Jetty, which must grant
    /// them.
    pub fn guard(&mut self, guards: Guards) {
        self.guards = Some(guards);
    }

    /// Registers memory.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if the end of the segment has no address; [`SetupError::Limit`] if
    /// all records are in use.
    pub fn register(&mut self, request: &SegmentRequest) -> Result<SegmentId, SetupError> {
        if request.address.checked_add(request.length).is_none() {
            return Err(SetupError::Parameter("address + length"));
        }
        self.generation = self.generation.wrapping_add(1);
        let segment = Segment {
            address: request.address,
            length: request.length,
            token_value: request.token_value,
            references: 0,
            generation: self.generation,
            rights: request.rights,
            state: SegmentState::Registered,
        };
        let index = self.pool.add(segment).ok_or(SetupError::Limit("segments"))?.number();
        self.places[index as usize] = request.address;
        if let Some(guards) = &mut self.guards {
            // The number may have been used before; the domain of that segment does not apply.
            guards.set_domain(index, 0);
        }
        Ok(SegmentId::new(index))
    }

    /// Refuses remote accesses from now on. Returns true if the memory may be freed at once.
    ///
    /// # Errors
    /// [`SetupError::Missing`] if it is not registered.
    pub fn deregister(&mut self, id: SegmentId) -> Result<bool, SetupError> {
        match self.get(id.number()) {
            Some(segment) if segment.state == SegmentState::Registered => {}
            _ => return Err(SetupError::Missing),
        }
        if self.pool[Index::of(id.number())].references == 0 {
            self.free(id.number());
            return Ok(true);
        }
        self.pool[Index::of(id.number())].state = SegmentState::Releasing;
        Ok(false)
    }

    /// Returns the record at this index, if it was ever used.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Segment> {
        if index == NOWHERE { None } else { self.pool.get(Index::of(index)) }
    }

    /// Changes the rights of peers. `revoke` must be true if some rights are withdrawn: then
    /// accesses under way are refused.
    ///
    /// # Errors
    /// [`SetupError::Missing`] if it is not registered.
    pub fn set_rights(
        &mut self,
        id: SegmentId,
        rights: Rights,
        revoke: bool,
    ) -> Result<(), SetupError> {
        if !self.is_registered(id.number()) {
            return Err(SetupError::Missing);
        }
        let segment = &mut self.pool[Index::of(id.number())];
        if revoke || !rights.contains(segment.rights.accesses()) {
            self.generation = self.generation.wrapping_add(1);
            segment.generation = self.generation;
        }
        segment.rights = rights;
        Ok(())
    }

    /// Changes the secret of a segment.
    pub fn set_token(&mut self, index: u32, token_value: u32) {
        if self.get(index).is_some() {
            self.pool[Index::of(index)].token_value = token_value;
        }
    }

    /// Returns true if a new local operation may use this range, false if the range leaves the
    /// segment, `None` if the segment is not registered.
    #[inline]
    pub fn holds(&self, index: u32, offset: u64, length: u32) -> Option<bool> {
        let segment = self.get(index)?;
        if segment.state != SegmentState::Registered {
            return None;
        }
        Some(offset.checked_add(u64::from(length)).is_some_and(|end| end <= segment.length))
    }

    /// Adds a reference of an operation or receive that needs the memory. [`SegmentId::NOWHERE`],
    /// which stands for no bytes, has no references.
    ///
    /// # Panics
    /// If there is no such segment.
    #[inline]
    pub fn hold(&mut self, index: u32) {
        if index != NOWHERE {
            self.pool[Index::of(index)].references += 1;
        }
    }

    /// Removes a reference. Returns true if that released a deregistered segment.
    ///
    /// # Panics
    /// If there is no reference.
    #[inline]
    pub fn release(&mut self, index: u32) -> bool {
        if index == NOWHERE {
            return false;
        }
        let segment = &mut self.pool[Index::of(index)];
        assert!(segment.references > 0, "segment {index} was let go too often");
        segment.references -= 1;
        if segment.references == 0 && segment.state == SegmentState::Releasing {
            self.free(index);
            return true;
        }
        false
    }

    /// Checks a remote access. Returns the admission, for [`Self::is_current`], and the range in
    /// the segment.
    ///
    /// If Jetties guard the segments, an access of no bytes needs the grant of its Jetty, and no
    /// segment (InfiniBand specification C9-88: the key of a request of length 0 is not checked).
    /// Its range has the segment number [`SegmentId::NOWHERE`].
    ///
    /// # Errors
    /// Why it is refused: [`Refusal::Access`] for a segment that is not registered, a wrong secret,
    /// and a range outside alike; [`Refusal::Rights`] for a right that the segment does not grant.
    /// If Jetties guard the segments, what [`Guards::open`] says, and [`Refusal::Access`] also for
    /// a right that the segment does not grant.
    #[inline]
    pub fn check(
        &self,
        access: &Access,
        rights: Rights,
    ) -> Result<(Admission, LocalRange), Refusal> {
        let segment = SegmentId::new(access.token_id.value());
        let Some(guards) = &self.guards else {
            let (generation, offset) = self.check_segment(access, rights)?;
            let range = LocalRange { segment, offset, length: access.length };
            return Ok((Admission { generation, via: None }, range));
        };
        let (via, granted, secret) = guards.open(access, rights)?;
        if access.length == 0 {
            guards.note_access(via);
            let nothing = LocalRange { segment: SegmentId::NOWHERE, offset: 0, length: 0 };
            return Ok((Admission { generation: granted, via: Some(via) }, nothing));
        }
        let own = Access { token_value: secret, ..*access };
        // The missing right of a Jetty has an error of its own.
        let of_segment =
            |refusal| if refusal == Refusal::Rights { Refusal::Access } else { refusal };
        let (generation, offset) = self.check_segment(&own, rights).map_err(of_segment)?;
        guards.check_domain(via, segment.number())?;
        guards.note_access(via);
        let range = LocalRange { segment, offset, length: access.length };
        Ok((Admission { generation: generation.wrapping_add(granted), via: Some(via) }, range))
    }

    #[inline(always)]
    fn check_segment(&self, access: &Access, rights: Rights) -> Result<(u32, u64), Refusal> {
        let segment = self.get(access.token_id.value()).ok_or(Refusal::Access)?;
        // A free or releasing segment, a wrong secret and a range outside give the same error, so
        // that a stranger learns nothing from it.
        if segment.state != SegmentState::Registered || segment.token_value != access.token_value {
            return Err(Refusal::Access);
        }
        let offset = access.address.checked_sub(segment.address).ok_or(Refusal::Access)?;
        let end = offset.checked_add(u64::from(access.length)).ok_or(Refusal::Access)?;
        if end > segment.length {
            return Err(Refusal::Access);
        }
        if !segment.rights.contains(rights) {
            return Err(Refusal::Rights);
        }
        Ok((segment.generation, offset))
    }

    /// True if the segment is registered, and its secret differs from that of the access.
    pub fn has_other_secret(&self, access: &Access) -> bool {
        let secret = match &self.guards {
            Some(guards) => guards.secret_of(access.token_value),
            None => access.token_value,
        };
        self.get(access.token_id.value()).is_some_and(|segment| {
            segment.state == SegmentState::Registered && segment.token_value != secret
        })
    }

    /// True if an admission is still valid: that of the registration, if the segment is not
    /// [`SegmentId::NOWHERE`], and that of the grant.
    ///
    /// # Panics
    /// If there never was such a segment.
    pub fn is_current(&self, index: u32, admission: &Admission) -> bool {
        let granted = match &self.guards {
            Some(guards) => admission.via.map_or(0, |via| guards.generation(via)),
            None => 0,
        };
        if index == NOWHERE {
            return admission.generation == granted;
        }
        let segment = &self.pool[Index::of(index)];
        segment.generation.wrapping_add(granted) == admission.generation
            && segment.state == SegmentState::Registered
    }

    /// Returns the reason for which the rest of an access is refused whose admission is not valid
    /// any more: [`Refusal::NoJetty`] if its Jetty grants nothing, as for a new access, and
    /// [`Refusal::Access`] otherwise.
    pub fn revocation(&self, admission: &Admission) -> Refusal {
        let granted = self.guards.as_ref().zip(admission.via);
        match granted.is_none_or(|(guards, via)| guards.grants_any(via)) {
            true => Refusal::Access,
            false => Refusal::NoJetty,
        }
    }

    /// True if the segment was registered, or the access granted, for relaxed ordering.
    ///
    /// # Panics
    /// If there never was such a segment.
    pub fn is_relaxed(&self, index: u32, admission: &Admission) -> bool {
        let granted = self.guards.as_ref().zip(admission.via);
        let granted = granted.is_some_and(|(guards, via)| guards.is_relaxed(via));
        granted
            || (index != NOWHERE && self.pool[Index::of(index)].rights.contains(Rights::RELAXED))
    }

    /// True if two ranges share memory. Several segments may cover the same memory.
    pub fn overlap(&self, one: &LocalRange, other: &LocalRange) -> bool {
        if [one.segment, other.segment].contains(&SegmentId::NOWHERE) {
            return false;
        }
        let start = |range: &LocalRange| match one.segment == other.segment {
            true => u128::from(range.offset),
            false => u128::from(self.places[range.segment.index()]) + u128::from(range.offset),
        };
        let (first, second) = (start(one), start(other));
        first < second + u128::from(other.length) && second < first + u128::from(one.length)
    }

    /// Sets the address of a segment in its owner's memory.
    pub fn set_place(&mut self, index: u32, place: u64) {
        if let Some(known) = self.places.get_mut(index as usize) {
            *known = place;
        }
    }

    /// True if the segment is registered: neither free nor being released.
    pub fn is_registered(&self, index: u32) -> bool {
        self.get(index).is_some_and(|segment| segment.state == SegmentState::Registered)
    }

    /// Number of segments, including deregistered ones that are still needed.
    pub fn in_use(&self) -> u32 {
        self.pool.in_use()
    }

    fn free(&mut self, index: u32) {
        self.pool[Index::of(index)].state = SegmentState::Free;
        self.pool.remove(Index::of(index));
    }
}
