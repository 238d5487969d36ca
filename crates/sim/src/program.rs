//! Programs: what the ranks of a parallel application do, one operation after the other.
//!
//! A rank's operations are found by their number, when their turn comes: nothing of them is stored,
//! and 262,144 ranks take no more memory than what each of them waits for. Messages between two
//! ranks match in the order in which they were sent and expected.

mod halo;
mod reduce;
mod sweep;
#[cfg(test)]
mod tests;

/// What a rank does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Nothing: there is no neighbour on this side.
    Nothing,
    /// The rank has a buffer for the next message from another, and does not wait for it.
    Expect {
        /// The rank that sends it.
        from: u32,
        /// Its length.
        bytes: u32,
    },
    /// It waits for the oldest message it expects from another.
    Await {
        /// The rank that sends it.
        from: u32,
    },
    /// It sends a message, and waits until it may use the memory again.
    Send {
        /// The rank that receives it.
        to: u32,
        /// Its length.
        bytes: u32,
    },
    /// It sends a message and goes on.
    Start {
        /// The rank that receives it.
        to: u32,
        /// Its length.
        bytes: u32,
    },
    /// It waits until the memory of all it sends may be used again.
    Flush,
    /// It computes for so many picoseconds.
    Compute {
        /// How long.
        ps: u64,
    },
}

/// A communication pattern, as SST's ember has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A wave from each corner of a plane of ranks to the opposite one, again and again.
    Sweep3d {
        /// Layers of cells that are computed and sent at once; divides `cells[2]`.
        layers: u32,
    },
    /// Faces to the six neighbours, one dimension after the other, and a sum over all ranks.
    Halo3d,
    /// Faces, edges and corners to 26 neighbours at once.
    Halo3d26,
}

/// A pattern with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Motif {
    /// Which.
    pub pattern: Pattern,
    /// Ranks in each dimension; Sweep3D has two. Neighbours do not wrap around.
    pub grid: [u32; 3],
    /// Cells of a rank in each dimension.
    pub cells: [u32; 3],
    /// How often.
    pub iterations: u32,
    /// Picoseconds to compute: of Sweep3D for one layer and field, otherwise for an iteration.
    pub compute_ps: u64,
}

/// Bytes of a cell's field.
const WORD: u32 = 8;

impl Motif {
    /// All ranks.
    pub fn ranks(&self) -> u32 {
        self.grid.iter().product()
    }

    /// What a rank does, by its number from 0; `None` behind the last.
    pub fn operation(&self, rank: u32, number: u32) -> Option<Operation> {
        let per_iteration = self.per_iteration();
        if number >= self.iterations * per_iteration {
            return None;
        }
        let number = number % per_iteration;
        Some(match self.pattern {
            Pattern::Sweep3d { layers } => sweep::operation(self, layers, rank, number),
            Pattern::Halo3d => halo::faces(self, rank, number),
            Pattern::Halo3d26 => halo::all(self, rank, number),
        })
    }

    fn per_iteration(&self) -> u32 {
        match self.pattern {
            Pattern::Sweep3d { layers } => sweep::operations(self, layers),
            Pattern::Halo3d => halo::face_operations(self),
            Pattern::Halo3d26 => halo::ALL_OPERATIONS,
        }
    }

    /// What a rank does in one iteration.
    pub fn iteration(&self, rank: u32) -> impl Iterator<Item = Operation> + '_ {
        (0..self.per_iteration()).filter_map(move |number| self.operation(rank, number))
    }

    /// The rank `step` away from another in each dimension, if there is one.
    fn neighbour(&self, rank: u32, step: [i32; 3]) -> Option<u32> {
        let [x, y, _] = self.grid;
        let place = [rank % x, rank / x % y, rank / (x * y)];
        let mut there = [0; 3];
        for at in 0..3 {
            there[at] = place[at].checked_add_signed(step[at])?;
            if there[at] >= self.grid[at] {
                return None;
            }
        }
        Some((there[2] * y + there[1]) * x + there[0])
    }

    /// Bytes of what a rank shares with the neighbour `step` away: a face, an edge or a corner.
    fn bytes(&self, step: [i32; 3]) -> u32 {
        let cells = self.cells.iter().zip(step).filter(|(_, step)| *step == 0);
        cells.map(|(cells, _)| *cells).product::<u32>() * WORD
    }
}

/// Numbers of ranks in three dimensions that are as equal as can be; the larger first.
pub fn grid_of(ranks: u32, dimensions: u32) -> [u32; 3] {
    let divides = |number: u32| (1..=number).filter(move |part| number.is_multiple_of(*part));
    let mut best = [ranks, 1, 1];
    for z in divides(ranks).take_while(|z| if dimensions < 3 { *z == 1 } else { true }) {
        for y in divides(ranks / z).filter(|y| *y >= z || dimensions < 3) {
            let x = ranks / z / y;
            if x >= y && x + y + z < best.iter().sum() {
                best = [x, y, z];
            }
        }
    }
    best
}

/// How messages between ranks of different hosts travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A put into a mailbox that the receiver has for this sender: each message is an epoch.
    Mailbox,
    /// The receiver sends the address of its buffer, the sender writes there. If the network keeps
    /// no order, a message follows that says so; otherwise the receiver watches the last byte.
    Write {
        /// The network keeps order: no message follows.
        ordered: bool,
    },
    /// Short ones are copied into a receive and out of it. Of long ones the sender announces
    /// itself, the receiver reads, and says that it has.
    Rendezvous,
}

/// A program, and the hosts it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What its ranks do.
    pub motif: Motif,
    /// Ranks of a host, neighbours in their numbers.
    pub ranks_per_host: u32,
    /// How their messages travel.
    pub protocol: Protocol,
    /// From a rank to its NIC, and from the NIC to the rank, in picoseconds.
    pub host_ps: u64,
    /// How fast a rank copies, in megabits per second.
    pub copy_megabits: u64,
    /// The longest message that [`Protocol::Rendezvous`] copies.
    pub eager_bytes: u32,
    /// Buffers of a mailbox, and receives for each neighbour.
    pub buffers: u32,
    /// Messages to one neighbour that may be under way before the sender waits: 1 or 2. With 2 it
    /// has two buffers that take turns.
    pub depth: u32,
}

impl Program {
    /// The host of a rank.
    pub fn host(&self, rank: u32) -> u32 {
        rank / self.ranks_per_host
    }

    /// Hosts that have ranks.
    pub fn hosts(&self) -> u32 {
        self.motif.ranks().div_ceil(self.ranks_per_host)
    }

    /// The ranks of a host.
    pub(crate) fn ranks_of(&self, host: u32) -> std::ops::Range<u32> {
        let end = self.motif.ranks();
        (host * self.ranks_per_host).min(end)..((host + 1) * self.ranks_per_host).min(end)
    }

    /// Receives that a host's ranks post, of `links` links.
    pub(crate) fn receives(&self, links: u32) -> u32 {
        if self.protocol == Protocol::Mailbox { 1 } else { links * self.buffers + 1 }
    }

    pub(crate) fn copy_ps(&self, bytes: u32) -> u64 {
        u64::from(bytes) * 8_000_000 / self.copy_megabits
    }
}
