//! A path choice that runs in a module.

use fairway_policy::{ChunkRequest, LossSample, PathAck, PathChoice, PathView};

use crate::abi::PATHS_MAX;
use crate::guest::Guest;
use crate::hook::Hook;
use crate::instance::{Outcome, Shared};
use crate::{Fault, Reason};

/// An instance of a module and, after a fault, the built-in default in its place.
pub(crate) struct UserPath {
    shared: Shared,
    /// Built-in default, created in advance because a fault occurs in the middle of an event.
    fallback: Box<dyn PathChoice>,
    /// True if the module may export the hook that is called before every choice.
    judges_room: bool,
    generation: u32,
}

impl UserPath {
    pub(crate) fn new(shared: Shared, fallback: Box<dyn PathChoice>) -> Self {
        let judges_room = judges_room(&shared);
        UserPath { shared, fallback, judges_room, generation: 0 }
    }

    fn choose(guest: &mut Guest, paths: &[PathView], request: &ChunkRequest) -> Result<u32, Fault> {
        let hook = Hook::ChoosePath;
        let missing = || Fault { hook, reason: Reason::Trap("it is gone") };
        guest.machine.area().ok_or_else(missing)?.put_chunk(paths, request);
        let function = guest.hooks.choose_path.as_ref().ok_or_else(missing)?;
        let path = guest.machine.call(hook, function, paths.len() as u32)?;
        if path as usize >= paths.len() {
            return Err(Fault { hook, reason: Reason::NoSuchPath(path) });
        }
        Ok(path)
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.shared.lock().fuel_used()
    }
}

/// True if the fallback decides, or a module that has the hook.
fn judges_room(shared: &Shared) -> bool {
    shared.lock().guest().is_none_or(|guest| guest.hooks.has_room.is_some())
}

/// Returns the paths of which a module knows.
fn known(paths: &[PathView]) -> &[PathView] {
    &paths[..paths.len().min(PATHS_MAX)]
}

impl PathChoice for UserPath {
    fn prepare(&mut self) {
        self.fallback.prepare();
    }

    fn name(&self) -> &'static str {
        if self.shared.lock().guest().is_some() { "wasm" } else { self.fallback.name() }
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        let mut instance = self.shared.lock();
        let outcome =
            instance.event(request.now, |guest| Some(Self::choose(guest, known(paths), request)));
        let generation = instance.generation();
        drop(instance);
        if generation != self.generation {
            self.generation = generation;
            self.judges_room = judges_room(&self.shared);
        }
        match outcome {
            Outcome::Answer(path) => path as usize,
            Outcome::NoHook | Outcome::Gone => {
                self.judges_room = true;
                self.fallback.choose(paths, request)
            }
        }
    }

    fn has_room(&self, paths: &[PathView]) -> bool {
        if !self.judges_room {
            return true;
        }
        let known = known(paths);
        let outcome = self.shared.lock().event_between(|guest| {
            let hook = guest.hooks.has_room.as_ref()?;
            guest.machine.area()?.put_room(known);
            Some(guest.machine.call(Hook::HasRoom, hook, known.len() as u32))
        });
        match outcome {
            Outcome::Answer(answer) => answer != 0,
            Outcome::NoHook => true,
            Outcome::Gone => self.fallback.has_room(paths),
        }
    }

    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        let outcome = self.shared.lock().event(ack.now, |guest| {
            let hook = guest.hooks.on_path_ack.as_ref()?;
            guest.machine.area()?.put_path_ack(ack);
            Some(guest.machine.call(Hook::OnPathAck, hook, path as u32))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_ack(path, ack);
        }
    }

    fn on_loss(&mut self, path: usize, sample: &LossSample) {
        let outcome = self.shared.lock().event(sample.now, |guest| {
            let hook = guest.hooks.on_path_loss.as_ref()?;
            guest.machine.area()?.put_loss(sample);
            Some(guest.machine.call(Hook::OnPathLoss, hook, path as u32))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_loss(path, sample);
        }
    }
}
