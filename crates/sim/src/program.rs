//! Programs: the operations of each rank of a parallel application, in order.
//!
//! A rank's operations are computed from their number when they are due, and none is stored. So
//! 262,144 ranks take no more memory than the state that each of them waits for. Messages between
//! two ranks match in the order in which they were sent and expected.

mod halo;
mod reduce;
mod sweep;
#[cfg(test)]
mod tests;

/// The next operation of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// No operation, because there is no neighbour on this side.
    Nothing,
    /// Provides a buffer for the next message from another rank, without waiting for it.
    Expect {
        /// The sending rank.
        from: u32,
        /// Length of the message, in bytes.
        bytes: u32,
    },
    /// Waits for the oldest expected message from another rank.
    Await {
        /// The sending rank.
        from: u32,
    },
    /// Sends a message, and waits until its memory may be reused.
    Send {
        /// The receiving rank.
        to: u32,
        /// Length of the message, in bytes.
        bytes: u32,
    },
    /// Sends a message without waiting.
    Start {
        /// The receiving rank.
        to: u32,
        /// Length of the message, in bytes.
        bytes: u32,
    },
    /// Waits until the memory of all sent messages may be reused.
    Flush,
    /// Computes.
    Compute {
        /// Time that it takes, in picoseconds.
        ps: u64,
    },
}

/// A communication pattern from SST's ember motifs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Waves from each corner of a plane of ranks to the opposite one, repeated.
    Sweep3d {
        /// Layers of cells that are computed and sent at once; divides `cells[2]`.
        layers: u32,
    },
    /// Faces to the six neighbours, one dimension after the other, then a sum over all ranks.
    Halo3d,
    /// Faces, edges and corners to 26 neighbours at once.
    Halo3d26,
}

/// A pattern and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Motif {
    /// The pattern.
    pub pattern: Pattern,
    /// Ranks in each dimension; Sweep3D has two. Neighbours do not wrap around.
    pub grid: [u32; 3],
    /// Cells of a rank in each dimension.
    pub cells: [u32; 3],
    /// Number of iterations.
    pub iterations: u32,
    /// Computing time in picoseconds: for Sweep3D of one layer and field, otherwise of an
    /// iteration.
    pub compute_ps: u64,
}

/// Bytes of one field of a cell.
const WORD: u32 = 8;

impl Motif {
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.grid.iter().product()
    }

    /// Returns a rank's operation by its number, from 0; `None` after the last.
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

    /// Returns a rank's operations of one iteration.
    pub fn iteration(&self, rank: u32) -> impl Iterator<Item = Operation> + '_ {
        (0..self.per_iteration()).filter_map(move |number| self.operation(rank, number))
    }

    /// Returns the rank `step` away in each dimension, if there is one.
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

    /// Bytes that a rank shares with the neighbour `step` away: a face, an edge or a corner.
    fn bytes(&self, step: [i32; 3]) -> u32 {
        let cells = self.cells.iter().zip(step).filter(|(_, step)| *step == 0);
        cells.map(|(cells, _)| *cells).product::<u32>() * WORD
    }
}

/// Divides `ranks` into up to three dimensions that are as equal as possible, the larger first.
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

/// Protocol of messages between ranks of different hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A put into a mailbox that the receiver has for this sender; each message fills an epoch.
    Mailbox,
    /// The receiver sends the address of its buffer, and the sender WRITEs there. If the network
    /// does not keep packets in order, a message follows that reports the end of the WRITE;
    /// otherwise the receiver polls the last byte.
    Write {
        /// True if the network keeps order, so that no message follows.
        ordered: bool,
    },
    /// Short messages are copied into a receive and out of it. The sender announces a long message,
    /// and the receiver READs it and then acknowledges it.
    Rendezvous,
}

/// A program, and its placement on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The operations of its ranks.
    pub motif: Motif,
    /// Ranks of each host; ranks of consecutive numbers share a host.
    pub ranks_per_host: u32,
    /// Protocol of messages between hosts.
    pub protocol: Protocol,
    /// Delay from a rank to its NIC, and from the NIC to the rank, in picoseconds.
    pub host_ps: u64,
    /// Rate at which a rank copies memory, in megabits per second.
    pub copy_megabits: u64,
    /// Maximum length of a message that [`Protocol::Rendezvous`] copies, in bytes.
    pub eager_bytes: u32,
    /// Buffers of a mailbox, and receives for each neighbour.
    pub buffers: u32,
    /// Messages to one neighbour that may be in flight before the sender waits: 1 or 2. With 2, two
    /// buffers are used alternately.
    pub depth: u32,
}

impl Program {
    /// Returns the host of a rank.
    pub fn host(&self, rank: u32) -> u32 {
        rank / self.ranks_per_host
    }

    /// Number of hosts that have ranks.
    pub fn hosts(&self) -> u32 {
        self.motif.ranks().div_ceil(self.ranks_per_host)
    }

    /// Returns the ranks of a host.
    pub(crate) fn ranks_of(&self, host: u32) -> std::ops::Range<u32> {
        let end = self.motif.ranks();
        (host * self.ranks_per_host).min(end)..((host + 1) * self.ranks_per_host).min(end)
    }

    /// Number of receives that a host's ranks post for `links` links.
    pub(crate) fn receives(&self, links: u32) -> u32 {
        if self.protocol == Protocol::Mailbox { 1 } else { links * self.buffers + 1 }
    }

    pub(crate) fn copy_ps(&self, bytes: u32) -> u64 {
        u64::from(bytes) * 8_000_000 / self.copy_megabits
    }
}
