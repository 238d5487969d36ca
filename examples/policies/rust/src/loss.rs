//! Loss detectors.

use fairway_policy::{Evidence, LateArrival, LossDetector};
use fairway_wire::{Duration, Instant};

use crate::{COMPARES_ACROSS_PATHS, Slot, Start, TRAITS, area, pair, start, tell};

/// Exports a loss detector: a type with `LossDetector` and `Start`.
#[macro_export]
macro_rules! loss_detector {
    ($policy:ty) => {
        static POLICY: $crate::Slot<$policy> = $crate::Slot::new();
        $crate::exports!();
        #[unsafe(no_mangle)]
        extern "C" fn fairway_init() -> u32 {
            $crate::start_detector(&POLICY)
        }
        #[unsafe(no_mangle)]
        extern "C" fn is_lost() -> u32 {
            $crate::detector_is_lost(&POLICY)
        }
        #[unsafe(no_mangle)]
        extern "C" fn on_reordering() {
            $crate::detector_reordering(&POLICY)
        }
        #[unsafe(no_mangle)]
        extern "C" fn on_progress(now_ps: u64, smoothed_rtt_ps: u64) {
            $crate::detector_progress(&POLICY, now_ps, smoothed_rtt_ps)
        }
        #[unsafe(no_mangle)]
        extern "C" fn overdue_after(smoothed_rtt_ps: u64) -> i64 {
            $crate::detector_overdue_after(&POLICY, smoothed_rtt_ps)
        }
    };
}

pub fn start_detector<P: Start + LossDetector>(slot: &Slot<P>) -> u32 {
    let started = start(slot);
    if slot.get().as_ref().is_some_and(LossDetector::compares_across_paths) {
        area().start[TRAITS] |= COMPARES_ACROSS_PATHS;
    }
    u32::from(!started)
}

pub fn detector_is_lost<P: LossDetector>(slot: &Slot<P>) -> u32 {
    let words = &area().sample;
    let (path_distance, psn_distance) = pair(words[3]);
    let evidence = Evidence {
        path_distance,
        psn_distance,
        beyond_tolerance: words[4] & 1 != 0,
        age: Duration::from_ps(words[0]),
        overtaken_by: Duration::from_ps(words[1]),
        smoothed_rtt: Duration::from_ps(words[2]),
    };
    slot.get().as_mut().map_or(0, |policy| u32::from(policy.is_lost(&evidence)))
}

pub fn detector_reordering<P: LossDetector>(slot: &Slot<P>) {
    let words = &area().sample;
    let (path_distance, psn_distance) = pair(words[3]);
    let late = LateArrival {
        path_distance,
        psn_distance,
        was_declared_lost: words[4] & 1 != 0,
        overtaken_by: Duration::from_ps(words[1]),
        smoothed_rtt: Duration::from_ps(words[2]),
    };
    tell(slot, |policy| policy.on_reordering(&late));
}

pub fn detector_progress<P: LossDetector>(slot: &Slot<P>, now_ps: u64, smoothed_rtt_ps: u64) {
    let rtt = Duration::from_ps(smoothed_rtt_ps);
    let (packets, _) = pair(area().sample[0]);
    tell(slot, |policy| policy.on_ack(Instant::from_ps(now_ps), rtt, packets));
}

/// -1 if packets are not overdue after some time.
pub fn detector_overdue_after<P: LossDetector>(slot: &Slot<P>, smoothed_rtt_ps: u64) -> i64 {
    let rtt = Duration::from_ps(smoothed_rtt_ps);
    let after = slot.get().as_ref().and_then(|policy| policy.overdue_after(rtt));
    after.and_then(|after| i64::try_from(after.as_ps()).ok()).unwrap_or(-1)
}
