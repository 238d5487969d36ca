//! Capacities.

/// Buffers of one `irecv`: the property `maxRecvs`.
pub(crate) const GROUP_MAX: usize = 8;
/// Receives in flight per connection, as many as NCCL demands.
pub(crate) const RECEIVES: usize = 32;
/// Sends in flight per connection: one for each buffer of all receives.
pub(crate) const SENDS: usize = RECEIVES * GROUP_MAX;
/// Announcements that may be under way to a sender, and places to receive them. A receive may have
/// ended before its announcement is known to have arrived, so these are more than the receives.
pub(crate) const ANNOUNCEMENTS: usize = 2 * RECEIVES;
/// Completions that a Jetty of either end can have at once: notifications or sends,
/// announcements, and the hello.
pub(crate) const QUEUE_DEPTH: u32 = (SENDS + ANNOUNCEMENTS + 16) as u32;
/// Largest message in bytes, 1 GiB: a WRITE has a length of 32 bits.
pub(crate) const MESSAGE_MAX: u64 = 1 << 30;
/// Largest number of devices.
pub(crate) const DEVICES_MAX: usize = 16;
/// Hellos that may wait to be accepted; senders repeat further ones.
pub(crate) const BACKLOG: u64 = 64;

/// Connections of one NIC, if the environment names no number.
pub(crate) const CONNECTIONS: u32 = 2048;
/// Registered segments per connection: two of its own, and those of NCCL's buffers.
pub(crate) const SEGMENTS: u32 = 16;
/// Messages of several packets that are in flight per connection; further ones wait.
pub(crate) const MESSAGE_SLOTS: u32 = 16;
