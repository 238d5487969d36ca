//! A path choice that runs in a module.

use std::sync::Arc;

use fairway_policy::{ChunkRequest, PathAck, PathChoice, PathView};

use crate::abi::{Decision, PATHS_MAX};
use crate::guest::Guest;
use crate::module::Hook;
use crate::slot::{Cursor, Slot};
use crate::{Fault, Reason};

/// An instance of a module and, after a fault, the built-in default in its place.
pub(crate) struct UserPath {
    slot: Arc<Slot>,
    cursor: Cursor,
    guest: Option<Guest>,
    /// Built-in default, created in advance because a fault occurs in the middle of an event.
    fallback: Box<dyn PathChoice>,
    mtu_bytes: u32,
}

impl UserPath {
    pub(crate) fn new(slot: Arc<Slot>, fallback: Box<dyn PathChoice>, mtu_bytes: u32) -> Self {
        let (guest, cursor) = slot.start(mtu_bytes);
        UserPath { slot, cursor, guest, fallback, mtu_bytes }
    }

    fn choose(guest: &mut Guest, paths: &[PathView], request: &ChunkRequest) -> Result<u32, Fault> {
        let hook = Hook::ChoosePath;
        let missing = || Fault { hook, reason: Reason::Trap("it is gone") };
        guest.area().ok_or_else(missing)?.put_chunk(paths, request);
        let function = guest.hooks.choose_path.ok_or_else(missing)?;
        let path = guest.call(hook, function, paths.len() as u32)?;
        if path as usize >= paths.len() {
            return Err(Fault { hook, reason: Reason::NoSuchPath(path) });
        }
        Ok(path)
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.guest.as_ref().map_or(0, Guest::fuel_used)
    }
}

impl PathChoice for UserPath {
    fn name(&self) -> &'static str {
        if self.guest.is_some() { "wasm" } else { self.fallback.name() }
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let nothing = Decision::default();
        let change = self.slot.replacement(&mut self.cursor, request.now, self.mtu_bytes, nothing);
        if let Some(guest) = change {
            self.guest = guest;
        }
        let known = &paths[..paths.len().min(PATHS_MAX)];
        if let Some(guest) = &mut self.guest {
            match Self::choose(guest, known, request) {
                Ok(path) => return path as usize,
                Err(fault) => {
                    self.guest = None;
                    self.slot.note(request.now, fault);
                }
            }
        }
        self.fallback.choose(paths, request)
    }

    fn has_room(&self, paths: &[PathView]) -> bool {
        self.guest.is_some() || self.fallback.has_room(paths)
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        if self.guest.is_none() {
            self.fallback.on_ack(path, ack);
        }
    }
}
