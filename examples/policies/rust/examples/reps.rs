//! The built-in path choice REPS as a module, from the same source file. Parameters: explore and
//! late.
#![no_std]

use fairway_guest::policy::{
    ChunkRequest, Explore, Late, LossSample, PathAck, PathChoice, PathView, Reps, RepsParameters,
};
use fairway_guest::{Beginning, Start, path_choice};

struct Recycling(Reps);

impl Start for Recycling {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "reps takes explore=bitmap|random and late=avoid|ignore";
        let mut parameters = RepsParameters::default();
        for given in beginning.parameters {
            match (given.name, given.value) {
                ("explore", "bitmap") => parameters.explore = Explore::Bitmap,
                ("explore", "random") => parameters.explore = Explore::Random,
                ("late", "avoid") => parameters.late = Late::Avoid,
                ("late", "ignore") => parameters.late = Late::Ignore,
                _ => return Err(HELP),
            }
        }
        let mut reps = Reps::new(parameters);
        reps.prepare();
        Ok(Recycling(reps))
    }
}

impl PathChoice for Recycling {
    fn name(&self) -> &'static str {
        self.0.name()
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

path_choice!(Recycling, hooks = [on_path_ack, on_path_loss]);
