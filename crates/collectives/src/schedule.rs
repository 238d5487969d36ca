//! Schedules: the steps by which one rank takes part in a call.

use crate::algorithms::{self, Algorithm};
use crate::call::{Call, Piece};
use crate::header::MESSAGES_MAX;
use std::collections::{BTreeMap, BTreeSet};

/// Consecutive bytes of a buffer, at most as many as a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// Number of a step in its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub(crate) u32);

impl StepIndex {
    /// Returns the number, which is less than that of [`Schedule::steps`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes that a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Bytes of the input buffer.
    Input(Span),
    /// Bytes of the output buffer.
    Output(Span),
    /// The bytes that a receiving step has put into a slot.
    Received(StepIndex),
}

/// The place at the receiver to which a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A slot, from which a later step takes it.
    Slot,
    /// The receiver's output buffer, from this offset on.
    Output(u64),
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends bytes to a rank.
    Send {
        /// The receiving rank.
        to: u32,
        /// The bytes.
        from: Region,
        /// Where they go.
        place: Place,
    },
    /// Waits for the next message of a rank.
    Receive {
        /// The sending rank.
        from: u32,
        /// Length of the message.
        bytes: u32,
        /// Where it goes.
        place: Place,
    },
    /// Combines two ranges of elements, of the same length.
    Combine {
        /// One range.
        left: Region,
        /// The other range.
        right: Region,
        /// Where the result goes: one of the two, or the output.
        into: Region,
        /// True if the result has the elements of all ranks.
        is_last: bool,
    },
    /// Copies bytes.
    Copy {
        /// From here.
        from: Region,
        /// To here.
        into: Region,
    },
}

/// A step, and the steps that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// Earlier steps that must have ended.
    pub after: Vec<StepIndex>,
}

/// The rank for which a schedule is made, and its means.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// Number of the rank.
    pub rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Length of a slot in bytes, a multiple of 8.
    pub slot_bytes: u32,
    /// Number of slots that a rank has for each other rank.
    pub slots: u32,
    /// True if the input is the part of the output to which it corresponds.
    pub is_in_place: bool,
    /// The host of each rank, by any numbers; empty if each rank has a host of its own.
    pub hosts: &'a [u32],
}

/// The steps of one rank for one call. Each step comes after those that it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
    /// For each step: the number of steps that use the bytes that it receives into a slot.
    users: Vec<u32>,
    /// For each step that sends: the number of the message among those to the same rank.
    numbers: Vec<u32>,
    /// For each rank from which messages come: the receiving steps, in order.
    arrivals: BTreeMap<u32, Vec<StepIndex>>,
    /// The ranks to which messages go.
    receivers: BTreeSet<u32>,
    /// For each step: those that wait for it.
    waiting: Vec<Vec<StepIndex>>,
    /// True if bytes that are received to be combined are only ever the second operand.
    combines_from_sender: bool,
}

impl Schedule {
    /// Minimum of [`Shape::slots`].
    pub const SLOTS_MIN: u32 = 4;

    /// Maximum of [`Shape::slots`].
    pub const SLOTS_MAX: u32 = 32;

    /// Makes the schedule of a rank.
    ///
    /// # Panics
    /// [`Call::check`] refuses the call; the algorithm is none of [`Algorithm::of`] for its kind;
    /// the slots are too few, too many, or their length is no multiple of 8.
    pub fn new(call: &Call, algorithm: Algorithm, shape: &Shape<'_>) -> Schedule {
        call.check(shape.rank, shape.ranks).expect("the caller has checked the call");
        assert!((Self::SLOTS_MIN..=Self::SLOTS_MAX).contains(&shape.slots), "slots fit a mask");
        assert!(shape.slot_bytes >= 8 && shape.slot_bytes.is_multiple_of(8), "elements fit a slot");
        let mut builder = Builder::new(*shape);
        algorithms::build(&mut builder, call, algorithm);
        builder.finish()
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The receiving steps for messages of a rank, in the order in which it sends them.
    pub fn arrivals(&self, from: u32) -> &[StepIndex] {
        self.arrivals.get(&from).map_or(&[], Vec::as_slice)
    }

    /// Length of a region in bytes.
    ///
    /// # Panics
    /// The region is that of a step which does not receive.
    pub fn bytes(&self, region: Region) -> u32 {
        match region {
            Region::Input(span) | Region::Output(span) => span.bytes,
            Region::Received(step) => match self.action(step) {
                Action::Receive { bytes, .. } => bytes,
                _ => panic!("only steps that receive have received something"),
            },
        }
    }

    /// The messages that the rank sends, in the order of its steps: the receiving rank, and the
    /// length in bytes.
    pub fn sent(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.steps.iter().filter_map(|step| match step.action {
            Action::Send { to, from, .. } => Some((to, self.bytes(from))),
            _ => None,
        })
    }

    /// The messages that go to places of the output buffer: the sending rank, the offset of the
    /// first byte, and the length in bytes.
    pub fn placed(&self) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        self.steps.iter().filter_map(|step| match step.action {
            Action::Receive { from, bytes, place: Place::Output(offset) } => {
                Some((from, offset, bytes))
            }
            _ => None,
        })
    }

    /// The ranks from which messages come into the output buffer.
    pub(crate) fn placing_ranks(&self) -> impl Iterator<Item = u32> {
        let is_placed = |step: &StepIndex| {
            matches!(
                self.steps[step.index()].action,
                Action::Receive { place: Place::Output(_), .. }
            )
        };
        self.arrivals.iter().filter(move |(_, steps)| steps.iter().any(is_placed)).map(|at| *at.0)
    }

    /// True if messages go to a rank, or come from it. The schedule of that rank says the same.
    pub(crate) fn has_messages_with(&self, peer: u32) -> bool {
        self.receivers.contains(&peer) || self.arrivals.contains_key(&peer)
    }

    /// True if a rank may combine bytes straight from the memory of their sender: each is used
    /// once, as the second operand, and never a result.
    pub(crate) fn combines_from_sender(&self) -> bool {
        self.combines_from_sender
    }

    /// The action of a step.
    pub(crate) fn action(&self, step: StepIndex) -> Action {
        self.steps[step.index()].action
    }

    /// For each step: the number of steps that use the bytes which it receives into a slot.
    pub(crate) fn users(&self) -> &[u32] {
        &self.users
    }

    /// The number of the message that a step sends, among those to the same rank.
    pub(crate) fn number(&self, step: StepIndex) -> u32 {
        self.numbers[step.index()]
    }

    /// The steps that wait for a step.
    pub(crate) fn waiting(&self, step: StepIndex) -> &[StepIndex] {
        &self.waiting[step.index()]
    }
}

/// Appends steps.
pub(crate) struct Builder<'a> {
    shape: Shape<'a>,
    steps: Vec<Step>,
    users: Vec<u32>,
    /// For each receiving step: the last step that has written its slot.
    writers: Vec<StepIndex>,
    combines_from_sender: bool,
}

impl<'a> Builder<'a> {
    fn new(shape: Shape<'a>) -> Self {
        Builder {
            shape,
            steps: Vec::new(),
            users: Vec::new(),
            writers: Vec::new(),
            combines_from_sender: false,
        }
    }

    fn finish(self) -> Schedule {
        let Builder { steps, users, combines_from_sender, .. } = self;
        let mut schedule = Schedule { users, combines_from_sender, ..Schedule::default() };
        let mut sent = BTreeMap::new();
        schedule.waiting = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            let index = StepIndex(at as u32);
            let mut number = 0;
            match step.action {
                Action::Send { to, .. } => {
                    let count = sent.entry(to).or_insert(0);
                    number = *count;
                    *count += 1;
                    assert!(number < MESSAGES_MAX, "a call has fewer messages");
                }
                Action::Receive { from, .. } => {
                    schedule.arrivals.entry(from).or_default().push(index);
                }
                Action::Combine { .. } | Action::Copy { .. } => {}
            }
            schedule.numbers.push(number);
            step.after.iter().for_each(|before| schedule.waiting[before.index()].push(index));
        }
        schedule.receivers = sent.into_keys().collect();
        Schedule { steps, ..schedule }
    }

    /// Allows what [`Schedule::combines_from_sender`] says.
    pub(crate) fn combine_from_sender(&mut self) {
        self.combines_from_sender = true;
    }

    pub(crate) fn rank(&self) -> u32 {
        self.shape.rank
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.shape.ranks
    }

    pub(crate) fn shape(&self) -> &Shape<'a> {
        &self.shape
    }

    /// Returns the spans of a piece, each as long as a slot at most.
    pub(crate) fn spans(&self, piece: Piece) -> impl Iterator<Item = Span> + use<> {
        let slot = u64::from(self.shape.slot_bytes);
        (0..piece.bytes.div_ceil(slot)).map(move |at| {
            let bytes = slot.min(piece.bytes - at * slot) as u32;
            Span { offset: piece.offset + at * slot, bytes }
        })
    }

    /// Returns span `at` of a piece, if it has so many.
    pub(crate) fn span(&self, piece: Piece, at: u64) -> Option<Span> {
        let slot = u64::from(self.shape.slot_bytes);
        let start = at.checked_mul(slot).filter(|start| *start < piece.bytes)?;
        let bytes = slot.min(piece.bytes - start) as u32;
        Some(Span { offset: piece.offset + start, bytes })
    }

    pub(crate) fn send(
        &mut self,
        to: u32,
        from: Region,
        place: Place,
        after: impl IntoIterator<Item = StepIndex>,
    ) -> StepIndex {
        self.push(Action::Send { to, from, place }, after)
    }

    pub(crate) fn receive(&mut self, from: u32, bytes: u32, place: Place) -> StepIndex {
        self.push(Action::Receive { from, bytes, place }, [])
    }

    pub(crate) fn combine(
        &mut self,
        [left, right]: [Region; 2],
        into: Region,
        is_last: bool,
        after: impl IntoIterator<Item = StepIndex>,
    ) -> StepIndex {
        let step = self.push(Action::Combine { left, right, into, is_last }, after);
        if let Region::Received(slot) = into {
            self.writers[slot.index()] = step;
        }
        step
    }

    pub(crate) fn copy(
        &mut self,
        from: Region,
        into: Region,
        after: impl IntoIterator<Item = StepIndex>,
    ) -> StepIndex {
        self.push(Action::Copy { from, into }, after)
    }

    /// Adds a step. It waits for `after`, and for the bytes of the slots that it uses.
    fn push(&mut self, action: Action, after: impl IntoIterator<Item = StepIndex>) -> StepIndex {
        let step = StepIndex(self.steps.len() as u32);
        let mut after: Vec<_> = after.into_iter().collect();
        let mut slots: Vec<_> = action.regions().filter_map(Region::slot).collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            after.push(self.writers[slot.index()]);
            self.users[slot.index()] += 1;
        }
        after.sort_unstable();
        after.dedup();
        debug_assert!(after.iter().all(|earlier| *earlier < step), "steps are in order");
        self.steps.push(Step { action, after });
        self.users.push(0);
        self.writers.push(step);
        step
    }
}

impl Action {
    /// The regions that the action reads or writes.
    fn regions(self) -> impl Iterator<Item = Region> {
        let regions = match self {
            Action::Send { from, .. } => [Some(from), None, None],
            Action::Receive { .. } => [None; 3],
            Action::Combine { left, right, into, .. } => [Some(left), Some(right), Some(into)],
            Action::Copy { from, into } => [Some(from), Some(into), None],
        };
        regions.into_iter().flatten()
    }
}

impl Region {
    fn slot(self) -> Option<StepIndex> {
        match self {
            Region::Received(step) => Some(step),
            Region::Input(_) | Region::Output(_) => None,
        }
    }
}
