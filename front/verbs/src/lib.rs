//! `libibverbs.so.1` for machines without RDMA hardware.
//!
//! **What it is.** The C ABI of libibverbs, on top of [`fairway_rdma::Provider`]: programs that
//! were written for RDMA hardware run unmodified, over ordinary Ethernet. `docs/verbs.md` lists
//! them, and the environment variables that configure the library.
//!
//! **May import:** `fairway-rdma`, `fairway-roce`, `fairway-device`, `fairway-wire`, `fairway`,
//! `libc`.
//!
//! **Invariants.** No protocol decision is made here. No panic crosses into C. Handles are boxes
//! that contain the C struct; they and the memory they point to are trusted as libibverbs trusts
//! them (`pointer`), and every other argument of a program is checked. While the provider is
//! called, this library holds no locks except those of the object itself; the provider holds none
//! of its own when it calls this library. The thread that calls `exit` takes no lock and allocates
//! no memory. Each `unsafe` block names the rule for programs or the invariant of this library that
//! makes it sound.
//!
//! **Modules.** `abi` mirrors the header. `pointer` has the types of the pointers that programs
//! pass, and states what they are trusted for. `device` lists devices and defines contexts, `open`
//! opens and closes them; `device_state` holds the state that all contexts of a device share: the
//! provider, and the objects that receive its events. `query`, `memory`, `cq` (`cq_ex`), `qp`
//! (`modify`, `transitions`), `srq` and `ah` are the objects; `post`, `wr` and `receives` convert
//! work requests to the provider's, with `keys` and `inline`. `async_events` delivers asynchronous
//! events to programs. `operations` has the tables that inline functions of the header jump
//! through, and `stubs` the functions that are not offered. `manager` is for librdmacm, the crate
//! `fairway-rdmacm`; `unattended` forwards its datagrams in processes that do not use it, and
//! completion queues call it by the hook in `after_poll`. `sysfs` presents the devices as files.
//! `farewell` notifies peers that the process ends. The shared object is linked by `cargo run -p
//! xtask -- verbs`, with the symbol versions of `exports.map`.
//!
//! **How to test:** `cargo test -p fairway-verbs` checks the exported symbols, compares the structs
//! with the installed header, and runs programs against the library: the C programs of this
//! repository, and those of rdma-core and perftest where they are installed.
#![warn(unsafe_op_in_unsafe_fn)]

pub mod abi;
mod after_poll;
mod ah;
mod async_events;
mod completion;
mod cq;
mod cq_ex;
mod device;
mod device_state;
pub mod events;
mod farewell;
pub mod guard;
mod inline;
mod keys;
pub mod manager;
mod memory;
mod modify;
mod open;
mod operations;
mod outstanding;
pub mod pointer;
mod post;
mod qp;
mod query;
mod receives;
mod settings;
mod srq;
mod strings;
mod stubs;
mod sysfs;
mod transitions;
mod unattended;
mod wr;
