//! Jetty groups: which member takes a message (UB §8.2.2.1, type 3).

use crate::api::{Dispatch, SetupError};
use fairway_wire::JettyId;

/// Largest number of members of a group.
pub(crate) const MEMBERS: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    members: [JettyId; MEMBERS],
    count: u8,
    /// Index of the member whose turn it is.
    cursor: u8,
    dispatch: Dispatch,
}

impl Group {
    pub(crate) fn new(dispatch: Dispatch) -> Group {
        Group { members: [JettyId::new(0); MEMBERS], count: 0, cursor: 0, dispatch }
    }

    fn members(&self) -> &[JettyId] {
        &self.members[..usize::from(self.count)]
    }

    pub(crate) fn join(&mut self, member: JettyId) -> Result<(), SetupError> {
        if self.members().contains(&member) {
            return Err(SetupError::Number);
        }
        let count = usize::from(self.count);
        *self.members.get_mut(count).ok_or(SetupError::Limit("members of a group"))? = member;
        self.count += 1;
        Ok(())
    }

    /// Removes a member. True if the Jetty was one.
    pub(crate) fn leave(&mut self, member: JettyId) -> bool {
        let Some(at) = self.members().iter().position(|&other| other == member) else {
            return false;
        };
        self.members.copy_within(at + 1..usize::from(self.count), at);
        self.count -= 1;
        // The turn stays with the member that had it.
        if usize::from(self.cursor) > at {
            self.cursor -= 1;
        }
        true
    }

    /// The member that takes the next message. `depth` returns how much each has to do, or `None`
    /// if the member can take nothing. The decision is made once for each message.
    pub(crate) fn dispatch(
        &mut self,
        hint: u8,
        depth: impl Fn(JettyId) -> Option<u32>,
    ) -> Option<JettyId> {
        let count = usize::from(self.count);
        if count == 0 {
            return None;
        }
        match self.dispatch {
            Dispatch::Hint => {
                let member = self.members[usize::from(hint) % count];
                depth(member).map(|_| member)
            }
            Dispatch::RoundRobin => {
                let start = usize::from(self.cursor);
                let turn = (0..count).map(|step| (start + step) % count);
                let at = turn.into_iter().find(|&at| depth(self.members[at]).is_some())?;
                self.cursor = ((at + 1) % count) as u8;
                Some(self.members[at])
            }
            Dispatch::LeastDepth => {
                let ready = |&member: &JettyId| Some((depth(member)?, member));
                let members = self.members().iter().filter_map(ready);
                members
                    .reduce(|least, next| if next.0 < least.0 { next } else { least })
                    .map(|m| m.1)
            }
        }
    }
}
