//! A guide to this crate: from the first WRITE to the packets on the wire.
//!
//! Every section continues the program of the one before. Here both ends run in one process, over
//! loopback. On two hosts each has its own [`Context`], and `"HOST:PORT"` replaces the address.
//!
//! # 1. Two contexts, and memory that one of them offers
//!
//! A [`Context`] is one NIC in software: its sockets, its protocol state and, unless
//! [`Builder::progress_thread`](crate::Builder::progress_thread) disables it, a background thread.
//! [`Context::register`] makes memory reachable: it returns a [`Segment`] with rights, which define
//! the operations that peers may use, and a [`SegmentKey`], which a peer needs to access it. The
//! key is 24 bytes of plain data; send it by any means that the two programs have.
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
//! one of completions. (The term is that of the Unified Bus. A Jetty is not tied to a connection,
//! so one Jetty can reach all peers.) The data of an operation must be in registered memory on this
//! side too, because retransmissions read it again.
//!
//! [`Jetty::write_all`] posts the WRITE, waits, and returns an error if it failed. When it returns,
//! the bytes are in the owner's memory, although the owner's program did nothing.
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
//! [`Jetty::read`] and the other methods without a time-out only post. You give each operation a
//! number ([`WrId`](crate::WrId)), which its [`Completion`] contains; operations complete in any
//! order. Check every completion with [`Completion::result`], because failed operations have
//! completions too.
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
//! [`Jetty::poll`] returns completions without waiting, [`Jetty::next_completion`] is a future, and
//! the feature `tokio` adds `write_all_async` and similar methods. [`Jetty::batch`] posts many
//! operations under one lock.
//!
//! # 4. Messages
//!
//! A SEND is a message to the program at the other end: it goes to a Jetty by its number ([`To`])
//! and consumes the next receive that was posted there. While none is posted, the sender's NIC
//! repeats the SEND.
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
//! If the receiver should own the memory, and the sender should need no address in it, use a
//! [`Mailbox`]: the receiver posts buffers under a name, and puts to that name fill them one after
//! the other. The example `mailbox_server` is a small server of that kind.
//!
//! # 5. Words that are shared
//!
//! [`Jetty::update`] changes a word of 4 or 8 bytes exactly once, even if the network loses or
//! duplicates packets, and atomically with the CPU's own instructions at the owner
//! ([`Segment::atomic_u64`]). [`RemotePtr`](crate::RemotePtr) is a short way to access single
//! values.
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
//! Operations without an order may take effect in any order, even those of one Jetty, because
//! packets take up to 256 paths and are placed as they arrive. An operation that must follow others
//! requests that by its [`Order`]; [`Jetty::ordered`] returns a view of the Jetty that posts with
//! an order, by the methods of [`Post`](crate::Post). The usual case is a flag that is written
//! after the data that it announces:
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
//! * **Packets.** A WRITE of 1 MiB becomes packets of the path's MTU. Each names the place of its
//!   bytes, so the receiver can place it in any order of arrival; a bitmap records the packets
//!   received. The bytes of every header are in `docs/wire.md` of the repository.
//! * **Policies.** Congestion control, the choice of paths, loss detection and scheduling are
//!   selected by a specification: `Context::builder().policy_named("cc=cubic,path=p2c")`. The
//!   simulator accepts the same ones, and you can write a policy as a WebAssembly file
//!   ([`Policies`](crate::Policies)).
//! * **Progress.** A thread that polls or waits drives the NIC itself; the background thread does
//!   while no other thread does. The program need not call anything for peers to reach its memory.
//! * **Failures.** A peer from which nothing is received for
//!   [`Profile::peer_dead`](crate::Profile::peer_dead) is declared dead: its operations fail, and
//!   [`Context::wait_event`] reports it. Every operation gets a completion.
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
