//! The built-in path choice of MP-RDMA as a module, from the same source file: a window for each
//! path. Parameters: initial and max, in packets.
#![no_std]

use fairway_guest::policy::{
    ChunkRequest, LossSample, MultipathParameters, MultipathWindow, PathAck, PathChoice, PathView,
};
use fairway_guest::{Beginning, Start, path_choice};

struct Windows(MultipathWindow);

impl Start for Windows {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "mprdma takes initial and max";
        let mut parameters = MultipathParameters::default();
        for given in beginning.parameters {
            match given.name {
                "initial" => parameters.initial_packets = given.bytes().ok_or(HELP)?,
                "max" => parameters.max_packets = given.bytes().ok_or(HELP)?,
                _ => return Err(HELP),
            }
        }
        Ok(Windows(MultipathWindow::new(parameters)))
    }
}

impl PathChoice for Windows {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn has_room(&self, paths: &[PathView]) -> bool {
        self.0.has_room(paths)
    }
    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        self.0.choose(paths, request)
    }
    fn on_ack(&mut self, path: usize, ack: &PathAck) {
        self.0.on_ack(path, ack);
    }
    fn on_loss(&mut self, path: usize, sample: &LossSample) {
        self.0.on_loss(path, sample);
    }
}

path_choice!(Windows, hooks = [has_room, on_path_ack, on_path_loss]);
