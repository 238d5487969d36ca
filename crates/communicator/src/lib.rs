//! Groups of processes that execute collective operations over Fairway.
//!
//! **What it is.** A [`Communicator`] is one rank of a group. All ranks call the same operations in
//! the same order: all-reduce, all-gather, broadcast and so on. `fairway-collectives` decides what
//! each rank sends and combines; this crate moves the bytes by the operations of a
//! [`fairway::Jetty`]: WRITEs with immediate data, into slots or straight into the output buffer.
//!
//! ```
//! use fairway_communicator::{Communicator, Options, Reduction, TcpRendezvous};
//! use std::net::TcpListener;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Two ranks in one process; usually each is a process of its own.
//! let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
//! let rank = |rank: u32, address: String| {
//!     move || -> Result<Vec<f32>, fairway_communicator::Error> {
//!         let mut options = Options::default();
//!         options.context = options.context.bind([127, 0, 0, 1].into());
//!         let mut rendezvous = TcpRendezvous::new(&address, "example", rank, 2);
//!         let group = Communicator::new(rank, 2, &mut rendezvous, options)?;
//!         let mut values = vec![rank as f32 + 1.0; 3];
//!         group.all_reduce(&mut values, Reduction::Sum)?;
//!         Ok(values)
//!     }
//! };
//! let other = std::thread::spawn(rank(1, address.clone()));
//! assert_eq!(rank(0, address)()?, [3.0; 3]);
//! assert_eq!(other.join().unwrap()?, [3.0; 3]);
//! # Ok(())
//! # }
//! ```
//!
//! **May import:** `fairway`, `fairway-collectives`.
//!
//! **Invariants.** No algorithm is here. A buffer belongs to the caller again when its call has
//! ended, in success or failure, and no operation of the NIC can touch it then. After a failure the
//! group is over: every call of every rank ends with an error that names the rank to blame. A rank
//! trusts the other ranks of its group, which know the tokens that were exchanged at the
//! rendezvous, and no other process.
//!
//! **Modules.** `communicator`: the operations. `driver`: executes what the state machine of the
//! rank asks for. `setup`: connects all ranks. `rendezvous`: how they find each other. `member`:
//! what they tell each other then. `near`: slots that ranks of one host share. `lending`: buffers
//! that they read from each other's memory. `status`: what a
//! rank publishes about its calls. `buffer`: the application's memory. `costs`: measures what the
//! choice of algorithms needs. `background`: the thread that continues calls while no thread of the
//! application waits for them. `spin`: how long a waiting thread polls before it sleeps.
//!
//! **How to test:** `cargo test -p fairway-communicator` (several ranks in one process, over
//! loopback and shared memory, with emulated loss, and with ranks that die or disagree).
#![warn(unsafe_op_in_unsafe_fn)]

mod background;
mod buffer;
mod communicator;
mod costs;
mod driver;
mod element;
mod error;
mod lending;
mod member;
mod near;
mod options;
mod pending;
mod pulse;
mod rendezvous;
mod setup;
mod spin;
mod status;
mod watch;

pub use communicator::Communicator;
pub use element::Element;
pub use error::{Error, Failure};
pub use fairway_collectives::{
    Algorithm, Call, CallError, Costs, ElementType, Kind, Message, Piece, Protocol, Reduction,
    UnknownName, accumulate, divide,
};
pub use options::Options;
pub use pending::Pending;
pub use rendezvous::{Rendezvous, TcpRendezvous, address_towards};
