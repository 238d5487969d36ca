//! Bounds of a search.

use super::program::ParseError;
use fairway_ub::InjectedBug;
use std::fmt;
use std::str::FromStr;

/// Deviations that a run may have from packets arriving in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Packets that arrive before one that left earlier on the same path.
    pub overtakes: u32,
    /// Packets that are lost.
    pub losses: u32,
    /// Packets that arrive twice.
    pub duplicates: u32,
    /// Placements and atomics that are executed late.
    pub late: u32,
    /// Packets and accesses that a node handles before its next operation is posted.
    pub late_posts: u32,
    /// Timers that fire although another step is possible.
    pub early_timers: u32,
    /// Maximum number of runs per program.
    pub runs: u64,
    /// Places at the target for early packets. The number of slots of each kind is the same, but at
    /// least one and at most eight.
    pub places: u32,
    /// Number of clock advances before receives are posted.
    pub receives_after: u32,
    /// Channels of the group between two nodes; operations use all of them in turn.
    pub channels: u32,
    /// Bug to inject into every NIC. Requires the feature `injected-bugs`.
    pub bug: Option<InjectedBug>,
}

impl Bounds {
    /// Number of places that is enough for every program.
    pub const PLACES: u32 = 16;
    /// No packet is lost, duplicated, late or overtaken.
    pub const CALM: Bounds = Bounds {
        overtakes: 0,
        losses: 0,
        duplicates: 0,
        late: 0,
        late_posts: 0,
        early_timers: 0,
        runs: 1,
        places: Self::PLACES,
        receives_after: 0,
        channels: 1,
        bug: None,
    };

    /// True if operations may have to wait for each other's slots.
    pub fn is_tight(&self) -> bool {
        self.places < Self::PLACES
    }

    /// Returns bounds without deviations, for the same NICs.
    #[must_use]
    pub fn calmed(&self) -> Bounds {
        let Bounds { places, receives_after, channels, bug, .. } = *self;
        Bounds { places, receives_after, channels, bug, ..Self::CALM }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bounds { overtakes, losses, duplicates, late, late_posts, early_timers, .. } = self;
        let Bounds { runs, places, receives_after, channels, .. } = self;
        write!(f, "{overtakes},{losses},{duplicates},{late},{late_posts},{early_timers}")?;
        write!(f, ",{runs},{places},{receives_after},{channels}")
    }
}

impl FromStr for Bounds {
    type Err = ParseError;

    /// Parses the printed form: the numbers in the order of the fields; the last three may be
    /// omitted.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError { expected: "seven to ten numbers", text: text.to_owned() };
        let number = |word: &str| word.trim().parse::<u32>().map_err(|_| wrong());
        let numbers = text.split(',').map(number).collect::<Result<Vec<u32>, _>>()?;
        let &[overtakes, losses, duplicates, late, late_posts, early_timers, runs, ref rest @ ..] =
            &numbers[..]
        else {
            return Err(wrong());
        };
        let (runs, places) = (u64::from(runs), *rest.first().unwrap_or(&Self::PLACES));
        let calm = Self::CALM;
        let receives_after = *rest.get(1).unwrap_or(&0);
        let channels = *rest.get(2).unwrap_or(&1);
        let many = Bounds { overtakes, losses, duplicates, late, runs, places, ..calm };
        Ok(Bounds { late_posts, early_timers, receives_after, channels, ..many })
    }
}
