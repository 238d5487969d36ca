//! What settings of switches and hosts change in a scenario.

use super::Settings;
use crate::error::SettingsError;
use crate::scenario::{Marking, QueueSpec, Scenario};
use fairway_sandbox::{Policies, PoliciesError};
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::Instant;

impl Settings {
    /// Applies the settings of switches to a scenario: queues and forwarding.
    pub(super) fn apply_switches(&self, scenario: &mut Scenario) {
        (scenario.mtu, scenario.loss) = (self.mtu, self.loss);
        scenario.queue.overflow = self.overflow;
        scenario.size_queues();
        if let Some(bytes) = self.queue_bytes {
            let marking = Marking::Random { low: bytes / 5, high: bytes / 5 * 4, permille: 1000 };
            scenario.queue = QueueSpec { bytes, marking, ..scenario.queue };
        }
        scenario.queue.marking = self.marking.unwrap_or(scenario.queue.marking);
        scenario.queue.hint = self.hints.spec(scenario, self.policy.as_ref());
        (scenario.queue.shared, scenario.queue.pfc) = (self.shared, self.pfc);
        scenario.queue.classes = self.classes;
        if self.pfc.is_some() && self.queue_bytes.is_none() {
            // PFC is to keep queues short, so the limit of their length must not.
            scenario.queue.bytes = 1 << 30;
        }
        (scenario.cut_through, scenario.routing) = (self.cut_through, self.routing);
    }

    /// Applies the settings of hosts to a scenario: stack, policies and timing.
    pub(super) fn apply_transport(&self, scenario: &mut Scenario) -> Result<(), SettingsError> {
        (scenario.stack, scenario.split) = (self.stack, self.split.channels);
        (scenario.chunk, scenario.paths) = (self.chunk.bytes(self.mtu), self.paths);
        (scenario.policy, scenario.window_packets) = (self.policies()?, self.window_packets);
        if let Some(PolicySpec { path, .. }) = self.path {
            let policies =
                scenario.policy.take().unwrap_or_else(|| scenario.default_policy().into());
            scenario.policy = Some(policies.with_path(path));
        }
        let mut profile = scenario.timing();
        if let Some(shortest) = self.timeout_min {
            profile.timeout_min = shortest;
            profile.timeout_initial = profile.timeout_initial.max(shortest);
            // The longest time-out would otherwise cap the shortest.
            profile.timeout_max = profile.timeout_max.max(shortest);
        }
        profile.acknowledge_every = self.acknowledge_every.unwrap_or(profile.acknowledge_every);
        profile.small_message_bytes = self.small_messages.unwrap_or(profile.small_message_bytes);
        profile.part_bytes = self.split.part_bytes.unwrap_or(profile.part_bytes);
        profile.acknowledge_chunks = self.acknowledge_chunks;
        profile.acknowledge_marks = self.acknowledge_marks;
        profile.reorder_tolerance = self.reorder_tolerance.unwrap_or(profile.reorder_tolerance);
        profile.message_turn_bytes = self.collectives.turn_bytes(scenario.group.as_ref());
        scenario.profile = Some(profile);
        Ok(())
    }

    /// Returns the policies of a run, with counters of their own.
    fn policies(&self) -> Result<Option<Policies>, SettingsError> {
        let mut policies = self.policy.as_ref().map(Policies::fresh).unwrap_or_default();
        for (at, item) in &self.policy_swaps {
            policies =
                policies.with_planned(Instant::from_ps(*at), item).map_err(
                    |error| match error {
                        PoliciesError::BuiltIn(_) => SettingsError::SwapOfNoModule(item.clone()),
                        error => SettingsError::PolicySwap(error),
                    },
                )?;
        }
        Ok(self.policy.is_some().then_some(policies))
    }
}
