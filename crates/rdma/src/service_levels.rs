//! Weights of service levels, with which a scheduler divides a device among its queue pairs.

use std::fmt;
use std::str::FromStr;

use fairway_ub::policy::Share;

/// Number of service levels (InfiniBand Architecture, 9.2.1).
const LEVELS: usize = 16;

/// The weight of each service level, if it has one. The queue pairs of a level with a weight are a
/// tenant: a scheduler divides the device among tenants by these weights, and a tenant's part among
/// its queue pairs equally. Each queue pair of a level without a weight counts by itself.
///
/// As text: `0=1,3=4`, the levels 0 and 3 with the weights 1 and 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceLevels {
    weights: [u16; LEVELS],
}

impl ServiceLevels {
    /// Returns the share of a queue pair of a service level, of which only four bits count.
    pub fn share(&self, level: u8) -> Share {
        let level = usize::from(level) % LEVELS;
        match self.weights[level] {
            0 => Share::default(),
            tenant_weight => Share { tenant: level as u16, weight: 1, tenant_weight },
        }
    }
}

/// A part of the text is not `LEVEL=WEIGHT`, or its level was named before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceLevelsError {
    part: String,
}

impl fmt::Display for ServiceLevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a service level (0 to 15, each once) with its weight (1 to 65535), as in \
             0=1,3=4",
            self.part
        )
    }
}

impl std::error::Error for ServiceLevelsError {}

impl FromStr for ServiceLevels {
    type Err = ServiceLevelsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut levels = ServiceLevels::default();
        for part in text.split(',') {
            let wrong = || ServiceLevelsError { part: part.to_owned() };
            let (level, weight) = part.split_once('=').ok_or_else(wrong)?;
            let level: usize = level.trim().parse().map_err(|_| wrong())?;
            let weight: u16 = weight.trim().parse().map_err(|_| wrong())?;
            let place = levels.weights.get_mut(level).ok_or_else(wrong)?;
            if weight == 0 || *place != 0 {
                return Err(wrong());
            }
            *place = weight;
        }
        Ok(levels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_of_a_level_with_a_weight_are_a_tenant() {
        let levels: ServiceLevels = "0=1, 15=65535".parse().unwrap();
        assert_eq!(levels.share(0), Share { tenant: 0, weight: 1, tenant_weight: 1 });
        assert_eq!(levels.share(15), Share { tenant: 15, weight: 1, tenant_weight: 65_535 });
        assert_eq!(levels.share(3), Share::default());
        assert_eq!(levels.share(16), levels.share(0));
    }

    #[test]
    fn wrong_levels_and_weights_are_refused_by_name() {
        for (text, part) in [
            ("", ""),
            ("1", "1"),
            ("0=1,16=1", "16=1"),
            ("0=0", "0=0"),
            ("0=65536", "0=65536"),
            ("2=1,2=3", "2=3"),
        ] {
            let error = text.parse::<ServiceLevels>().unwrap_err();
            assert_eq!(error.part, part);
        }
    }
}
