//! A guide to this crate: from the first WRITE to the packets on the wire.
//!
//! Every section continues the program of the one before. Both ends run in one process here, over
//! loopback; on two hosts each has its own [`Context`], and `"HOST:PORT"` takes the place of the
//! address.
//!
//! # 1. Two contexts, and memory that one of them offers
//!
//! A [`Context`] is one NIC in software: its sockets, its protocol state and, unless
//! [`Builder::progress_thread`](crate::Builder::progress_thread) says otherwise, a background
//! thread. Memory becomes reachable by [`Context::register`]: a [`Segment`] has rights, which say
//! what peers may do, and a [`SegmentKey`], which a peer needs in order to do it. The key is 24
//! bytes of plain data; send it by whatever means the two programs have.
//!
//! ```
//! use fairway::{Context, Memory, Rights};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), fairway::Error> {
//! let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! let offered = owner.register(Memory::zeroed(1 << 16)?, Rights::READ_WRITE)?;
//! let (server, key) = (owner.local_addrs()[0], offered.key());
//!
//! let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! let peer = client.connect(server, Duration::from_secs(5))?;
//! assert!(peer.is_alive());
//! # Ok(())
//! # }
//! ```
//!
//! # 2. The first WRITE
//!
//! Operations are posted to a [`Jetty`], the endpoint of an application: it has a queue of work and
//! one of completions. (The term is that of the Unified Bus. A Jetty has no connection of its own,
//! so one reaches all peers.) The data of an operation lies in memory that is registered here, too,
//! because retransmissions read it again.
//!
//! [`Jetty::write_all`] posts, waits and returns an error if the WRITE failed. Its end means that
//! the bytes are in the owner's memory, while the owner's program did nothing.
//!
//! ```
//! # use fairway::{Context, Error, JettyOptions, Memory, Rights};
//! # use std::time::Duration;
//! # fn main() -> Result<(), Error> {
//! # let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let offered = owner.register(Memory::zeroed(1 << 16)?, Rights::READ_WRITE)?;
//! # let key = offered.key();
//! # let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let peer = client.connect(owner.local_addrs()[0], Duration::from_secs(5))?;
//! let timeout = Duration::from_secs(5);
//! let local = client.register(Memory::from_vec(b"hello, memory".to_vec()), Rights::NONE)?;
//! let jetty = client.create_jetty(JettyOptions::default())?;
//! jetty.write_all(&peer, &local, key.at(100), timeout)?;
//!
//! let mut seen = [0; 13];
//! offered.read_at(100, &mut seen)?;
//! assert_eq!(&seen, b"hello, memory");
//!
//! // A WRITE that leaves the segment is refused by the owner's NIC, and is an error here.
//! let refused = jetty.write_all(&peer, &local, key.at((1 << 16) - 5), timeout);
//! assert!(matches!(refused, Err(Error::Failed { .. })));
//! # Ok(())
//! # }
//! ```
//!
//! # 3. Many operations at once
//!
//! One operation at a time leaves the network idle for a round trip. [`Jetty::write`],
//! [`Jetty::read`] and the other methods without a time-out only post. Each operation has a number
//! of yours ([`WrId`](crate::WrId)), which comes back in its [`Completion`]; operations complete in
//! any order. [`Completion::result`] tells success from failure, and nothing else does: a failed
//! operation has a completion, too.
//!
//! ```
//! # use fairway::{Context, Error, JettyOptions, Memory, Rights};
//! # use std::time::Duration;
//! # fn main() -> Result<(), Error> {
//! # let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let offered = owner.register(Memory::zeroed(1 << 16)?, Rights::READ_WRITE)?;
//! # let key = offered.key();
//! # let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let timeout = Duration::from_secs(5);
//! # let peer = client.connect(owner.local_addrs()[0], timeout)?;
//! # let jetty = client.create_jetty(JettyOptions::default())?;
//! let local = client.register(Memory::zeroed(1 << 16)?, Rights::NONE)?;
//! for number in 0..8 {
//!     let at = number * 4096;
//!     jetty.read(&peer, local.slice(at..at + 4096), key.at(at), number)?;
//! }
//! for _ in 0..8 {
//!     let done = jetty.wait(timeout)?.result()?;
//!     assert_eq!(done.bytes, 4096);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Jetty::poll`] takes completions without waiting, [`Jetty::next_completion`] is a future, and
//! with the feature `tokio` there are `write_all_async` and its like. [`Jetty::batch`] posts many
//! operations under one lock.
//!
//! # 4. Messages
//!
//! A SEND is for the program at the other end: it goes to a Jetty by its number ([`To`]) and takes
//! the next receive that was posted there. While there is none, the sender's NIC tries again.
//!
//! ```
//! # use fairway::{Context, Error, JettyOptions, Memory, Rights};
//! # use std::time::Duration;
//! # fn main() -> Result<(), Error> {
//! # let timeout = Duration::from_secs(5);
//! # let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let peer = client.connect(owner.local_addrs()[0], timeout)?;
//! # let jetty = client.create_jetty(JettyOptions::default())?;
//! # let local = client.register(Memory::from_vec(b"a message".to_vec()), Rights::NONE)?;
//! let inbox = owner.create_jetty(JettyOptions::default().number(9))?;
//! let landing = owner.register(Memory::zeroed(4096)?, Rights::NONE)?;
//! inbox.post_receive(landing.slice(0..4096), 1)?;
//!
//! jetty.send_all(&peer, 9, &local, timeout)?;
//! let arrived = inbox.wait(timeout)?.result()?;
//! assert_eq!(arrived.bytes, 9);
//! # Ok(())
//! # }
//! ```
//!
//! Where the receiver should own the memory, and a sender should know no address in it, use a
//! [`Mailbox`]: the receiver posts buffers under a name, and puts into the name fill one after the
//! other. The example `mailbox_server` is a small server of that kind.
//!
//! # 5. Words that are shared
//!
//! [`Jetty::update`] changes a word of 4 or 8 bytes exactly once, whatever the network loses or
//! repeats, and atomically with the CPU's own instructions at the owner
//! ([`Segment::atomic_u64`]). [`RemotePtr`](crate::RemotePtr) is the short way to single values.
//!
//! ```
//! # use fairway::{AtomicOp, Context, Error, JettyOptions, Memory, Rights};
//! # use std::sync::atomic::Ordering;
//! # use std::time::Duration;
//! # fn main() -> Result<(), Error> {
//! # let timeout = Duration::from_secs(5);
//! # let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let peer = client.connect(owner.local_addrs()[0], timeout)?;
//! # let jetty = client.create_jetty(JettyOptions::default())?;
//! let counters = owner.register(Memory::zeroed(4096)?, Rights::ALL)?;
//! let word = counters.key().at(8).word64();
//! assert_eq!(jetty.update(&peer, word, AtomicOp::Add(2), timeout)?, 0);
//! assert_eq!(counters.atomic_u64(8)?.load(Ordering::SeqCst), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # 6. Order
//!
//! Operations that ask for no order may take effect in any, also those of one Jetty: packets take
//! up to 256 paths and are placed as they arrive. An operation that has to follow others says so by
//! its [`Order`]; [`Jetty::ordered`] gives a view of the Jetty that posts with
//! one, by the methods of [`Post`](crate::Post). A flag that is
//! written behind the data it announces is the usual case:
//!
//! ```
//! # use fairway::{Context, Error, JettyOptions, Memory, Rights};
//! # use std::time::Duration;
//! # fn main() -> Result<(), Error> {
//! # let timeout = Duration::from_secs(5);
//! # let owner = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let offered = owner.register(Memory::zeroed(1 << 16)?, Rights::READ_WRITE)?;
//! # let key = offered.key();
//! # let client = Context::builder().bind([127, 0, 0, 1].into()).build()?;
//! # let peer = client.connect(owner.local_addrs()[0], timeout)?;
//! # let jetty = client.create_jetty(JettyOptions::default())?;
//! # let local = client.register(Memory::from_vec(vec![1; 8192]), Rights::NONE)?;
//! use fairway::{Order, Post, ServiceMode};
//! let data = jetty.ordered(Order::relaxed(ServiceMode::Rot));
//! let flag = jetty.ordered(Order::strict(ServiceMode::Rot));
//! data.write(&peer, local.slice(0..8184), key.at(0), 1)?;
//! flag.write(&peer, local.slice(0..8), key.at(8192), 2)?;
//! # for _ in 0..2 { jetty.wait(timeout)?.result()?; }
//! # Ok(())
//! # }
//! ```
//!
//! # 7. What happens below
//!
//! * **Channels.** All Jetties of a context share one reliable channel to each peer. It numbers
//!   packets, acknowledges them selectively, and finds losses although paths reorder.
//! * **Packets.** A WRITE of 1 MiB becomes packets of the path's MTU. Each says where its bytes
//!   belong, so the receiver places it whatever came before; a bitmap records which ones came. The
//!   bytes of every header are in `docs/wire.md` of the repository.
//! * **Policies.** Congestion control, the choice of paths, loss detection and scheduling are named
//!   by a specification: `Context::builder().policy_named("cc=cubic,path=p2c")`. The simulator
//!   takes the same ones, and a policy may be a WebAssembly file of yours
//!   ([`Policies`](crate::Policies)).
//! * **Progress.** A thread that polls or waits drives the NIC itself; the background thread does
//!   while none does. Nothing has to be called for peers to reach the memory.
//! * **Failures.** A peer that is silent for [`Profile::peer_dead`](crate::Profile::peer_dead) is
//!   dead: its operations fail, and [`Context::wait_event`] reports it. No operation is lost
//!   without a completion.
//!
//! [`Context`]: crate::Context
//! [`Context::register`]: crate::Context::register
//! [`Context::wait_event`]: crate::Context::wait_event
//! [`Completion`]: crate::Completion
//! [`Completion::result`]: crate::Completion::result
//! [`Jetty`]: crate::Jetty
//! [`Jetty::batch`]: crate::Jetty::batch
//! [`Jetty::next_completion`]: crate::Jetty::next_completion
//! [`Jetty::ordered`]: crate::Jetty::ordered
//! [`Jetty::poll`]: crate::Jetty::poll
//! [`Jetty::read`]: crate::Jetty::read
//! [`Jetty::update`]: crate::Jetty::update
//! [`Jetty::write`]: crate::Jetty::write
//! [`Jetty::write_all`]: crate::Jetty::write_all
//! [`Mailbox`]: crate::Mailbox
//! [`Order`]: crate::Order
//! [`Segment`]: crate::Segment
//! [`Segment::atomic_u64`]: crate::Segment::atomic_u64
//! [`SegmentKey`]: crate::SegmentKey
//! [`To`]: crate::To
