//! The parameters of path choices: their names, units and ranges.

use super::parameters::{Parameters, Slot, Word};
use crate::{
    Explore, Flowlet, FlowletParameters, Late, Memory, MultipathParameters, MultipathWindow, Pick,
    Plb, PlbParameters, PowerOfTwo, PowerOfTwoParameters, Reps, RepsParameters,
};

impl Parameters for PowerOfTwoParameters {
    const NAME: &'static str = PowerOfTwo::NAME;
    const FIELDS: &'static [&'static str] = &["memory"];
    const KNOWN: &'static str = "it takes memory=off|on";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "memory" => Slot::Word(&mut self.memory),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        true
    }
}

impl Parameters for RepsParameters {
    const NAME: &'static str = Reps::NAME;
    const FIELDS: &'static [&'static str] = &["explore", "late"];
    const KNOWN: &'static str = "it takes explore=bitmap|random, late=avoid|ignore";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "explore" => Slot::Word(&mut self.explore),
            "late" => Slot::Word(&mut self.late),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        true
    }
}

impl Parameters for MultipathParameters {
    const NAME: &'static str = MultipathWindow::NAME;
    const FIELDS: &'static [&'static str] = &["initial", "max", "pick"];
    const KNOWN: &'static str =
        "it takes initial=, max= (packets; initial at most max, max at most 16384), pick=turns|p2c";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "initial" => Slot::Count(&mut self.initial_packets),
            "max" => Slot::Count(&mut self.max_packets),
            "pick" => Slot::Word(&mut self.pick),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        let largest = MultipathParameters::LARGEST_PACKETS;
        self.initial_packets <= self.max_packets && self.max_packets <= largest
    }
}

impl Parameters for PlbParameters {
    const NAME: &'static str = Plb::NAME;
    const FIELDS: &'static [&'static str] = &["threshold", "idle", "rounds"];
    const KNOWN: &'static str =
        "it takes threshold= (thousandths), idle= and rounds= (not zero; idle at most rounds)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "threshold" => Slot::Share(&mut self.threshold_permille),
            "idle" => Slot::Count(&mut self.idle_rounds),
            "rounds" => Slot::Count(&mut self.rounds),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        self.idle_rounds <= self.rounds
    }
}

impl Parameters for FlowletParameters {
    const NAME: &'static str = Flowlet::NAME;
    const FIELDS: &'static [&'static str] = &["gap"];
    const KNOWN: &'static str = "it takes gap= (a time, as 50us)";

    fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
        Some(match name {
            "gap" => Slot::Time(&mut self.gap),
            _ => return None,
        })
    }

    fn is_sound(&self) -> bool {
        true
    }
}

impl Word for Explore {
    fn words(&self) -> &'static [&'static str] {
        &["bitmap", "random"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Explore::Bitmap, Explore::Random][index];
    }
}

impl Word for Pick {
    fn words(&self) -> &'static [&'static str] {
        &["turns", "p2c"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Pick::Turns, Pick::PowerOfTwo][index];
    }
}

impl Word for Late {
    fn words(&self) -> &'static [&'static str] {
        &["avoid", "ignore"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Late::Avoid, Late::Ignore][index];
    }
}

impl Word for Memory {
    fn words(&self) -> &'static [&'static str] {
        &["off", "on"]
    }

    fn index(&self) -> usize {
        *self as usize
    }

    fn choose(&mut self, index: usize) {
        *self = [Memory::Off, Memory::On][index];
    }
}
