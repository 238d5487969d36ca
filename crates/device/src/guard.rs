//! Guarded memory: a remote access names a Jetty of the target, which must grant it.
//!
//! This models RDMA's queue pairs: a WRITE is for a queue pair, and that queue pair's state, access
//! flags and protection domain count beside the region's. UB's accesses name only a segment and a
//! secret. In a guarded NIC the bits of the secret above the segment's own are the number of the
//! Jetty, so the packet format does not change.

use crate::{Grant, Rights};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use fairway_wire::{Access, JettyId, Refusal};

/// The grant of each Jetty, and the domain of each segment.
#[derive(Debug)]
pub struct Guards {
    /// Number of bits of a token value that are the segment's own secret.
    secret_bits: u32,
    /// Grants by Jetty.
    grants: Vec<Granted>,
    /// The domain of each segment.
    domains: Vec<u32>,
    /// By Jetty: true once it has granted an access. It stays true until the Jetty grants nothing.
    accessed: Vec<AtomicBool>,
    /// True if that has become true of a Jetty since [`Self::take_first_accesses`].
    has_first_accesses: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Granted {
    grant: Grant,
    /// Counts the changes that took an access away.
    generation: u32,
}

impl Guards {
    /// Creates a table of Jetties that grant nothing, and of segments of domain 0.
    pub fn new(secret_bits: u32, jetties: u32, segments: u32) -> Guards {
        let grants = alloc::vec![Granted::default(); jetties as usize];
        let accessed = (0..jetties).map(|_| AtomicBool::default()).collect();
        let domains = alloc::vec![0; segments as usize];
        let has_first_accesses = AtomicBool::default();
        Guards { secret_bits, grants, domains, accessed, has_first_accesses }
    }

    /// Sets the grant of a Jetty.
    ///
    /// # Panics
    /// If there is no such Jetty.
    pub fn set(&mut self, jetty: JettyId, grant: Grant) {
        let granted = &mut self.grants[jetty.value() as usize];
        if !grant.contains(&granted.grant) {
            granted.generation = granted.generation.wrapping_add(1);
        }
        granted.grant = grant;
        if !matches!(grant, Grant::Access { .. }) {
            *self.accessed[jetty.value() as usize].get_mut() = false;
        }
    }

    /// Records that an access through this Jetty has been granted.
    #[inline]
    pub(crate) fn note_access(&self, via: u32) {
        let accessed = &self.accessed[via as usize];
        if !accessed.load(Ordering::Relaxed) {
            accessed.store(true, Ordering::Relaxed);
            self.has_first_accesses.store(true, Ordering::Relaxed);
        }
    }

    /// True if this Jetty has granted an access since it began to grant any.
    pub fn is_accessed(&self, jetty: JettyId) -> bool {
        let accessed = self.accessed.get(jetty.value() as usize);
        accessed.is_some_and(|accessed| accessed.load(Ordering::Relaxed))
    }

    /// True if a Jetty has granted its first access since the last call.
    pub fn take_first_accesses(&mut self) -> bool {
        core::mem::take(self.has_first_accesses.get_mut())
    }

    /// Sets the domain of a segment.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn set_domain(&mut self, segment: u32, domain: u32) {
        self.domains[segment as usize] = domain;
    }

    /// The domain of a segment; `None` if there is no such number.
    pub fn domain(&self, segment: u32) -> Option<u32> {
        self.domains.get(segment as usize).copied()
    }

    /// Returns the number of the Jetty that an access names, if it grants the access; its
    /// generation; and the segment's secret.
    ///
    /// # Errors
    /// [`Refusal::NoJetty`], [`Refusal::ReceiverNotReady`] or [`Refusal::Rights`].
    pub fn open(&self, access: &Access, rights: Rights) -> Result<(u32, u32, u32), Refusal> {
        let via = access.token_value >> self.secret_bits;
        let granted = self.grants.get(via as usize).ok_or(Refusal::NoJetty)?;
        match granted.grant {
            Grant::Nothing => Err(Refusal::NoJetty),
            Grant::Later => Err(Refusal::ReceiverNotReady),
            Grant::Access { rights: granted, .. } if !granted.contains(rights) => {
                Err(Refusal::Rights)
            }
            Grant::Access { .. } => {
                Ok((via, granted.generation, self.secret_of(access.token_value)))
            }
        }
    }

    /// Returns the part of a token value that is the segment's own secret.
    pub fn secret_of(&self, token_value: u32) -> u32 {
        token_value & ((1 << self.secret_bits) - 1)
    }

    /// Checks that the segment is in the domain of the Jetty, and that the Jetty grants any access.
    ///
    /// # Errors
    /// [`Refusal::Access`].
    pub fn check_domain(&self, via: u32, segment: u32) -> Result<(), Refusal> {
        match (self.grants[via as usize].grant, self.domains.get(segment as usize)) {
            (Grant::Access { domain, .. }, Some(&of)) if of == domain => Ok(()),
            // The error is that for a missing segment, so that a stranger learns nothing.
            _ => Err(Refusal::Access),
        }
    }

    /// True if this Jetty grants accesses.
    pub fn grants_any(&self, via: u32) -> bool {
        let granted = self.grants.get(via as usize).map(|granted| granted.grant);
        matches!(granted, Some(Grant::Access { .. }))
    }

    /// True if accesses through this Jetty may change memory in any order.
    pub fn is_relaxed(&self, via: u32) -> bool {
        let granted = self.grants.get(via as usize).map(|granted| granted.grant);
        matches!(granted, Some(Grant::Access { rights, .. }) if rights.contains(Rights::RELAXED))
    }

    /// Number of changes that took an access away from this Jetty's grant, modulo 2^32.
    pub fn generation(&self, via: u32) -> u32 {
        self.grants.get(via as usize).map_or(0, |granted| granted.generation)
    }
}
