//! The rate control of queue pairs, as policies select it.

use crate::policy::{CongestionSpec, DcqcnParameters, LossSpec, PathSpec, PolicySpec, ProbeSpec};

/// How the queue pairs of a device determine their rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateControl {
    /// By DCQCN, with the parameters that the device has for its link.
    Dcqcn,
    /// By a window of this many bytes per queue pair, without a limit of the rate.
    Window(u64),
}

impl RateControl {
    /// Returns the rate control that policies select.
    ///
    /// `None` if RoCE cannot follow them: it has no other congestion control, none of DCQCN's
    /// parameters for windows, one path, losses found by its own rules, and no probes. The
    /// scheduler is the caller's ([`RoceDevice::set_scheduler`](crate::RoceDevice::set_scheduler)).
    pub fn of(policies: &PolicySpec) -> Option<RateControl> {
        let PolicySpec { congestion, path, loss, probe, scheduler: _ } = *policies;
        let has_own = path == PathSpec::default() && loss == LossSpec::default();
        if !has_own || probe != ProbeSpec::default() {
            return None;
        }
        match congestion {
            CongestionSpec::Dcqcn(parameters) => {
                (parameters == DcqcnParameters::default()).then_some(RateControl::Dcqcn)
            }
            CongestionSpec::Fixed { window_bytes } => Some(RateControl::Window(window_bytes)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_roce_lacks_select_no_rate_control() {
        let of = |text: &str| RateControl::of(&text.parse().expect("policies"));
        assert_eq!(of("cc=dcqcn"), Some(RateControl::Dcqcn));
        assert_eq!(of("cc=dcqcn,sched=static:line=20Gbps"), Some(RateControl::Dcqcn));
        assert_eq!(of("cc=fixed:64K"), Some(RateControl::Window(65_536)));
        for text in [
            "cc=swift",
            "cc=cubic",
            "cc=dcqcn:line=10Gbps",
            "cc=dcqcn:window=64K",
            "cc=dcqcn,path=spray",
            "cc=dcqcn,loss=sack",
            "cc=fixed,probe=periodic",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
