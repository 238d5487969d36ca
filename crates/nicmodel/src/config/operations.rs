//! The operations that a configuration issues, and checks that its stack can carry them out.

use super::{Config, Ordering, Stack, Verb, WorkloadKind};
use crate::error::ConfigError;
use fairway_roce::RateControl;
use fairway_ub::policy::PolicySpec;

/// Bytes of payload in the longest packet of UB.
pub(crate) const UB_MTU: u32 = 32_768;

/// The policies, if none are given: a window that limits nothing.
pub(super) const USUAL_POLICY: &str = "cc=fixed:16M";

/// Operations per microsecond that may arrive in an open loop.
const RATE_MOPS: std::ops::RangeInclusive<f64> = 1e-4..=1e6;

impl Config {
    /// Checks that the stack has the operations of the workload, in the requested order.
    pub(super) fn check_operations(&self) -> Result<(), ConfigError> {
        self.check_mtu()?;
        self.check_paging()?;
        self.check_order()?;
        self.check_rate()
    }

    /// Returns the policies.
    pub(crate) fn policies(&self) -> Result<PolicySpec, ConfigError> {
        if self.stack.is_ub() {
            return Ok(self.policy.parse()?);
        }
        let usual: PolicySpec = USUAL_POLICY.parse()?;
        Ok(usual.with(&self.policy)?)
    }

    /// Returns how the queue pairs of a RoCE stack determine their rates.
    pub(crate) fn rate_control(&self) -> Result<RateControl, ConfigError> {
        let control = RateControl::of(&self.policies()?);
        control.ok_or_else(|| ConfigError::RocePolicy(self.policy.clone()))
    }

    /// Checks that the stack can follow the policies.
    pub(super) fn check_policies(&self) -> Result<(), ConfigError> {
        if self.stack.is_ub() {
            return self.policies().map(drop);
        }
        if self.stack == Stack::Coherent {
            let is_usual = self.policies()? == USUAL_POLICY.parse::<PolicySpec>()?;
            let refused = || ConfigError::CoherentPolicy(self.policy.clone());
            return is_usual.then_some(()).ok_or_else(refused);
        }
        self.rate_control().map(drop)
    }

    /// Returns the order of an operation that `--order` applies to (`chosen`) or not.
    pub(crate) fn order_of(&self, chosen: bool) -> Ordering {
        match (self.without.unordered && self.stack.is_ub(), chosen) {
            (true, _) => Ordering::Roi,
            (_, true) => self.order,
            (_, false) => Ordering::None,
        }
    }

    /// True if operations are instructions of the CPU that bypass the transport of UB.
    fn has_bypass(&self) -> bool {
        // The oracle also has longer loads and stores, which the protocol moves as READs and
        // WRITEs.
        let short = self.payload <= 64;
        let issues = match self.workload {
            WorkloadKind::Bulk | WorkloadKind::Incast => {
                short && matches!(self.verb, Verb::Load | Verb::Store)
            }
            WorkloadKind::PointerChase => short && self.verb == Verb::Load,
            WorkloadKind::Search
            | WorkloadKind::Probe
            | WorkloadKind::Ycsb(_)
            | WorkloadKind::Zipf
            | WorkloadKind::Share { .. }
            | WorkloadKind::Scan { .. } => true,
            WorkloadKind::CasLock
            | WorkloadKind::Barrier
            | WorkloadKind::Fanout { .. }
            | WorkloadKind::Setup => false,
        };
        issues && self.stack == Stack::UbLdst
    }

    /// Checks that the engine can keep the order of the operations: it refuses an order of loads
    /// and stores, and sends nothing unreliably but WRITEs and SENDs of one packet.
    fn check_order(&self) -> Result<(), ConfigError> {
        let order = self.order_of(self.order_percent > 0);
        if order != Ordering::None && self.has_bypass() {
            return Err(match self.without.unordered {
                true => ConfigError::UnorderedLoad,
                false => ConfigError::OrderedLoad(order.name()),
            });
        }
        if order != Ordering::Uno || self.workload == WorkloadKind::Setup {
            return Ok(());
        }
        let sends = match self.workload {
            WorkloadKind::Bulk | WorkloadKind::Incast => self.verb.is_outgoing(),
            WorkloadKind::Fanout { .. } => true,
            _ => false,
        };
        if !sends {
            return Err(ConfigError::UnreliableVerb);
        }
        // The channels of the oracle have packets of any length.
        let mtu = if self.oracle { UB_MTU } else { self.mtu };
        if self.payload > mtu {
            return Err(ConfigError::UnreliableLength { payload: self.payload, mtu });
        }
        Ok(())
    }

    /// Checks that the stack has packets of this length.
    fn check_mtu(&self) -> Result<(), ConfigError> {
        match (self.stack, self.mtu) {
            (Stack::Coherent, _) => Ok(()),
            (stack, 1..=UB_MTU) if stack.is_ub() => Ok(()),
            (stack, mtu) if stack.is_ub() => {
                let (value, low, high) = (mtu.into(), 1, UB_MTU.into());
                Err(ConfigError::Range { name: "mtu", value, low, high })
            }
            (_, 256 | 512 | 1024 | 2048 | 4096) => Ok(()),
            (_, mtu) => Err(ConfigError::Mtu(mtu)),
        }
    }

    /// Checks that the programs of a paging stack only load and store.
    fn check_paging(&self) -> Result<(), ConfigError> {
        let pages = self.stack.swaps();
        match self.workload {
            WorkloadKind::CasLock | WorkloadKind::Barrier if pages => {
                Err(ConfigError::PagingAtomics)
            }
            WorkloadKind::Bulk | WorkloadKind::Incast | WorkloadKind::PointerChase
                if pages && self.verb == Verb::Read =>
            {
                Err(ConfigError::PagingVerb)
            }
            WorkloadKind::PointerChase if pages && self.verb != Verb::Load => {
                Err(ConfigError::PagingVerb)
            }
            _ => Ok(()),
        }
    }

    /// Checks that operations can arrive at random times. They cannot if the next operation depends
    /// on the answer to the previous one, or if actors wait for each other.
    fn check_rate(&self) -> Result<(), ConfigError> {
        let depends = matches!(
            self.workload,
            WorkloadKind::Barrier
                | WorkloadKind::CasLock
                | WorkloadKind::PointerChase
                | WorkloadKind::Probe
                | WorkloadKind::Search
                | WorkloadKind::Share { .. }
        );
        match self.rate_mops {
            Some(rate) if !RATE_MOPS.contains(&rate) => Err(ConfigError::Rate(rate)),
            Some(rate) if depends => Err(ConfigError::OpenLoop(rate)),
            _ => Ok(()),
        }
    }
}
