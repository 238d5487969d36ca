//! Memory regions of the application, and bounce buffers for messages in several ranges.

use std::ptr::NonNull;
use std::sync::Arc;

use fairway::embed::Core;
use fairway_roce::{KEY_TAG_BITS, MemoryRegion, MemoryRequest, ScatterList, key_tag};
use fairway_runtime::{Gone, Memory};
use fairway_ub::wire::JettyId;
use fairway_ub::{LocalRange, Rights, SegmentId, SegmentRequest, SetupError};

use crate::{ForeignMemory, ProviderError};

/// The provider's record of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Region {
    pub(super) is_live: bool,
    pub(super) domain: u32,
    length: u64,
    /// True if atomics are allowed. The CPU requires an aligned word: peers align the address that
    /// they send, and that must imply alignment here.
    atomics: bool,
    /// Counts the registrations of this number.
    generation: u32,
    /// The tag of the last registration.
    tag: u32,
}

/// The regions, by the number of their segment.
#[derive(Default)]
pub(super) struct Regions {
    all: Vec<Region>,
    /// Bounce buffers that no message uses, by the logarithm of their length.
    spare: Vec<Vec<SegmentId>>,
    spare_bytes: u64,
}

/// Maximum bytes of unused bounce buffers that are kept.
const SPARE_MAX: u64 = 64 << 20;
/// Logarithm of the length of the shortest bounce buffer.
const BOUNCE_BUFFER_MIN: u32 = 12;

impl Regions {
    /// Registers memory with the protocol.
    pub(super) fn register(
        &mut self,
        core: &mut Core,
        memory: ForeignMemory,
        request: &MemoryRequest,
    ) -> Result<MemoryRegion, ProviderError> {
        let length = request.length.min(memory.len() as u64);
        let start = NonNull::new(memory.start()).unwrap_or(NonNull::dangling());
        let atomics = (memory.start() as u64).wrapping_sub(request.address).is_multiple_of(8);
        let rights = if atomics { request.rights } else { without_atomics(request.rights) };
        // SAFETY: the caller of `ForeignMemory::new` promised that the bytes stay mapped while
        // they are registered, and are writable where that matters, and that there are no
        // references to them.
        let memory = unsafe { Memory::from_raw(start, memory.len()) };
        let place = (request.address, length, rights);
        let segment = self.add(core, memory, place, request.domain)?;
        let region = &mut self.all[segment.index()];
        region.atomics = atomics;
        let r_key = (segment.index() as u32) << KEY_TAG_BITS | region.tag;
        Ok(MemoryRegion { segment, r_key })
    }

    /// Changes a region's protection domain, and the peers' rights.
    pub(super) fn change(
        &mut self,
        core: &mut Core,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), ProviderError> {
        let region = self.all.get_mut(segment.index()).filter(|region| region.is_live);
        let region = region.ok_or(ProviderError::Missing)?;
        let rights = if region.atomics { rights } else { without_atomics(rights) };
        core.nic.set_segment_access(segment, rights, domain).map_err(|_| ProviderError::Missing)?;
        region.domain = domain;
        Ok(())
    }

    fn add(
        &mut self,
        core: &mut Core,
        memory: Memory,
        (address, length, rights): (u64, u64, Rights),
        domain: u32,
    ) -> Result<SegmentId, ProviderError> {
        // A key that a peer can predict gives no protection.
        let random = crate::random()?;
        // The tag depends on the number, which the protocol chooses, so the request contains a
        // placeholder.
        let request = SegmentRequest { address, length, rights, token_value: u32::MAX };
        let segment = core.nic.register(&request).map_err(|error| match error {
            SetupError::Limit(name) => ProviderError::Limit(name),
            _ => ProviderError::Parameter("address"),
        })?;
        let index = segment.index();
        if self.all.len() <= index {
            self.all.resize(index + 1, Region::default());
        }
        let region = &mut self.all[index];
        let last = (region.generation > 0).then_some(region.tag);
        region.tag = key_tag(random, last);
        region.generation = region.generation.wrapping_add(1);
        (region.is_live, region.domain, region.length) = (true, domain, length);
        core.nic.set_segment_token(segment, region.tag);
        // The segment was registered just now, so this succeeds.
        let _ = core.nic.set_segment_access(segment, rights, domain);
        core.nic.set_segment_place(segment, memory.start().as_ptr() as u64);
        core.memories.redirect(segment, None);
        core.memories.insert(segment, Arc::new(memory));
        Ok(segment)
    }

    pub(super) fn get(&self, segment: SegmentId) -> Option<&Region> {
        self.all.get(segment.index()).filter(|region| region.is_live)
    }

    /// Closes a region: no operation may use it from now on. Returns its generation; `None` if
    /// there is no such region.
    pub(super) fn close(&mut self, segment: SegmentId) -> Option<u32> {
        let region = self.all.get_mut(segment.index()).filter(|region| region.is_live)?;
        region.is_live = false;
        Some(region.generation)
    }

    /// True if the segment's number has had no registration since.
    pub(super) fn is_latest(&self, segment: SegmentId, generation: u32) -> bool {
        self.all.get(segment.index()).is_some_and(|region| region.generation == generation)
    }

    /// True if an operation of this domain may use all of these bytes.
    pub(super) fn holds(&self, domain: u32, list: &ScatterList) -> bool {
        list.ranges().iter().all(|range| {
            let end = range.offset.checked_add(u64::from(range.length));
            self.get(range.segment).is_some_and(|region| {
                region.domain == domain && end.is_some_and(|end| end <= region.length)
            })
        })
    }

    /// Returns a bounce buffer of at least this many bytes.
    pub(super) fn lend(
        &mut self,
        core: &mut Core,
        length: u32,
    ) -> Result<LocalRange, ProviderError> {
        let class = (u64::from(length).next_power_of_two().ilog2()).max(BOUNCE_BUFFER_MIN);
        if let Some(segment) = self.spare.get_mut(class as usize).and_then(Vec::pop) {
            self.spare_bytes -= 1 << class;
            return Ok(LocalRange { segment, offset: 0, length });
        }
        let memory = Memory::zeroed(1 << class).map_err(|_| ProviderError::Limit("memory"))?;
        let segment = self.add(core, memory, (0, 1 << class, Rights::NONE), u32::MAX)?;
        // No request of a program or peer may refer to the buffer.
        self.all[segment.index()].is_live = false;
        Ok(LocalRange { segment, offset: 0, length })
    }

    /// Takes a bounce buffer back. The protocol does not use it any more.
    pub(super) fn take_back(&mut self, core: &mut Core, bounce_buffer: &LocalRange) {
        let class =
            (u64::from(bounce_buffer.length).next_power_of_two().ilog2()).max(BOUNCE_BUFFER_MIN);
        if self.spare_bytes + (1 << class) > SPARE_MAX {
            return core.deregister(bounce_buffer.segment);
        }
        self.spare_bytes += 1 << class;
        let classes = self.spare.len().max(class as usize + 1);
        self.spare.resize_with(classes, Vec::new);
        self.spare[class as usize].push(bounce_buffer.segment);
    }
}

fn without_atomics(rights: Rights) -> Rights {
    [Rights::READ, Rights::WRITE, Rights::RELAXED]
        .into_iter()
        .filter(|one| rights.contains(*one))
        .fold(Rights::NONE, Rights::with)
}

/// Returns the remote range for a key: its segment and secret, and the peer's Jetty that must grant
/// the access.
pub(super) fn remote(r_key: u32, address: u64, via: JettyId) -> fairway_ub::RemoteRange {
    fairway_ub::RemoteRange {
        token_id: fairway_ub::wire::TokenId::new(r_key >> KEY_TAG_BITS),
        token_value: via.value() << KEY_TAG_BITS | r_key & ((1 << KEY_TAG_BITS) - 1),
        address,
    }
}

/// Copies the first `length` bytes of a list to a bounce buffer.
///
/// # Errors
/// The memory of the list is gone.
pub(super) fn copy(
    core: &Core,
    list: &ScatterList,
    bounce_buffer: &LocalRange,
    length: u32,
) -> Result<(), Gone> {
    let mut scratch = [0; 4096];
    let mut done = 0;
    for range in list.slice(0, length).ranges() {
        let mut from = 0;
        while from < range.length {
            let count = (range.length - from).min(scratch.len() as u32);
            let source =
                LocalRange { offset: range.offset + u64::from(from), length: count, ..*range };
            let target = LocalRange {
                offset: bounce_buffer.offset + u64::from(done),
                length: count,
                ..*bounce_buffer
            };
            let bytes = &mut scratch[..count as usize];
            if let (Some(source), Some(target)) =
                (core.memories.source(&source), core.memories.target(&target))
            {
                source.read(bytes)?;
                target.write(bytes)?;
            }
            from += count;
            done += count;
        }
    }
    Ok(())
}
