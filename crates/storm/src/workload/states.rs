//! Changes of Jetty states: Jetties are suspended, resumed, failed and made ready again, and the
//! NIC's responses are compared with the application's records.

use super::Workload;
use crate::adversary::Fault;
use crate::application::Jetty;
use crate::finding::Finding;
use crate::oracles::Model;
use crate::plan::Plan;
use crate::world::World;
use fairway_ub::wire::JettyId;
use fairway_ub::{Completion, ExceptionMode, JettyConfig, JettyState, SetupError, Status};

impl Workload {
    pub(super) fn create_jetty(
        &mut self,
        world: &mut World,
        plan: &Plan,
        node: usize,
        number: u32,
    ) {
        let queues = [world.nodes[node].queues[0], world.nodes[node].queues[1]];
        let mut exception = ExceptionMode::Continue;
        if plan.extras.exceptions > 0 && self.random.chance(plan.extras.exceptions) {
            exception = self.random.pick(&[ExceptionMode::Suspend, ExceptionMode::Error]);
        }
        let number = Some(number);
        let in_sequence = plan.extras.in_sequence;
        let config = JettyConfig {
            number,
            exception,
            in_sequence,
            ..JettyConfig::new(queues[0], queues[1])
        };
        let Some(nic) = world.nic(node) else { return };
        let id = nic.create_jetty(&config).expect("a free Jetty number");
        let jetty = &mut self.applications[node].jetties[id.value() as usize];
        let buffers = std::mem::take(&mut jetty.buffers);
        *jetty = Jetty { alive: true, exception, buffers, ..Jetty::new(jetty.capacity) };
    }

    /// Sometimes changes the state of a Jetty; after the healing, makes all of them ready.
    pub(super) fn change_states(
        &mut self,
        world: &mut World,
        model: &mut Model,
        plan: &Plan,
        node: usize,
    ) -> Result<(), Finding> {
        for number in 0..plan.jetties {
            let jetty = &mut self.applications[node].jetties[number as usize];
            jetty.fresh = false;
            let Some(nic) = world.nic(node) else { return Ok(()) };
            let state = nic.jetty_state(JettyId::new(number));
            if state != if jetty.alive { jetty.state } else { JettyState::Reset } {
                return Err(format!("node {node}: Jetty {number} is {state:?}: {jetty:?}").into());
            }
        }
        if world.adversary.is_healed() {
            for number in 0..plan.jetties {
                if self.applications[node].jetties[number as usize].state != JettyState::Ready {
                    self.change_state(world, model, (node, number), JettyState::Ready)?;
                }
            }
            return self.mend_groups(world, model, node);
        }
        if plan.extras.states == 0 && plan.extras.exceptions == 0 {
            return Ok(());
        }
        if self.random.chance(plan.extras.states.max(100)) {
            let number = self.random.below(u64::from(plan.jetties)) as u32;
            let state = self.applications[node].jetties[number as usize].state;
            let likely = match state {
                JettyState::Ready if plan.extras.states == 0 => return Ok(()),
                JettyState::Ready => [JettyState::Suspended, JettyState::Error],
                JettyState::Suspended => [JettyState::Ready, JettyState::Error],
                _ => [JettyState::Ready; 2],
            };
            let to = match self.random.below(20) {
                0 => self.random.pick(&[JettyState::Reset, JettyState::Group, state]),
                1 => JettyState::Suspended,
                _ => self.random.pick(&likely),
            };
            self.change_state(world, model, (node, number), to)?;
        }
        Ok(())
    }

    pub(super) fn change_state(
        &mut self,
        world: &mut World,
        model: &mut Model,
        (node, number): (usize, u32),
        to: JettyState,
    ) -> Result<(), Finding> {
        let id = JettyId::new(number);
        let jetty = &mut self.applications[node].jetties[number as usize];
        let Some(nic) = world.nodes[node].nic_mut() else { return Ok(()) };
        let outcome = nic.set_jetty_state(id, to);
        let expected = match (jetty.state, to) {
            _ if !jetty.alive => Err(SetupError::Missing),
            (JettyState::Error, JettyState::Ready) if !jetty.drained => Err(SetupError::Busy),
            (JettyState::Error | JettyState::Suspended, JettyState::Ready)
            | (JettyState::Ready | JettyState::Suspended, JettyState::Error)
            | (JettyState::Ready, JettyState::Suspended) => Ok(()),
            _ => Err(SetupError::Parameter("state")),
        };
        world.trace.line(world.now, node, || format!("takes {id:?} to {to:?}: {outcome:?}"));
        if outcome != expected {
            return Err(
                format!("node {node}: {to:?} gives {outcome:?} for {id:?}: {jetty:?}").into()
            );
        }
        if outcome.is_err() {
            return Ok(());
        }
        (jetty.state, jetty.drained) = (to, false);
        jetty.fresh = to == JettyState::Error;
        let life = (node, world.nodes[node].incarnation);
        match to {
            JettyState::Suspended => world.adversary.count(Fault::SuspendJetty),
            JettyState::Error => {
                world.adversary.count(Fault::FailJetty);
                model.fails(life, id);
            }
            _ => model.recovers(life, id),
        }
        Ok(())
    }

    /// Checks a state change that a Jetty made by itself: it is correct if one of its operations
    /// has just failed.
    pub(crate) fn jetty_fault(
        &mut self,
        world: &mut World,
        model: &mut Model,
        (node, id): (usize, JettyId),
        state: JettyState,
    ) -> Result<(), Finding> {
        world.adversary.count(Fault::JettyFault);
        let jetty = &mut self.applications[node].jetties[id.value() as usize];
        let right = match jetty.exception {
            ExceptionMode::Continue => None,
            ExceptionMode::Suspend => Some(JettyState::Suspended),
            ExceptionMode::Error => Some(JettyState::Error),
        };
        if !jetty.alive || jetty.state != JettyState::Ready || Some(state) != right {
            return Err(format!("node {node}: {id:?} is {state:?} by itself: {jetty:?}").into());
        }
        (jetty.state, jetty.drained) = (state, false);
        if state == JettyState::Error {
            model.fails((node, world.nodes[node].incarnation), id);
        }
        Ok(())
    }

    /// Checks a report that a Jetty has no operation in flight, after all its completions have been
    /// read.
    pub(crate) fn jetty_drained(
        &mut self,
        world: &mut World,
        model: &Model,
        node: usize,
        id: JettyId,
    ) -> Result<(), Finding> {
        let life = (node, world.nodes[node].incarnation);
        let jetty = &mut self.applications[node].jetties[id.value() as usize];
        if !jetty.alive {
            // The Jetty was destroyed before the application read the event.
            return Ok(());
        }
        if jetty.state == JettyState::Ready {
            return Err(format!("node {node}: {id:?} is drained: {jetty:?}").into());
        }
        jetty.drained = true;
        let left = world.nic(node).map_or(0, |nic| nic.outstanding(id));
        match model.under_way(life, id) {
            None if left == 0 => Ok(()),
            found => Err(format!("node {node}: {id:?} is drained, and {left}: {found:?}").into()),
        }
    }

    /// Checks the completion of a Jetty's operation.
    pub(crate) fn check_end(
        &self,
        model: &Model,
        node: usize,
        done: &Completion,
    ) -> Result<(), Finding> {
        let jetty = &self.applications[node].jetties[done.jetty.value() as usize];
        if jetty.drained {
            return Err(format!("node {node}: it completes after it was drained: {done:?}").into());
        }
        let gone = matches!(done.status, Status::PeerDead | Status::PeerClosed | Status::Flushed);
        let harmless = gone || done.status == Status::Success;
        if !harmless
            && !model.is_aborted(done)
            && jetty.exception != ExceptionMode::Continue
            && jetty.state == JettyState::Ready
        {
            return Err(format!("node {node}: no fault of {jetty:?} after {done:?}").into());
        }
        Ok(())
    }
}
