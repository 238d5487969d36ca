//! What a module may use, in either engine.

/// Maximum number of instructions (approximately) of an event. The built-in Swift takes about
/// 1,400.
pub const EVENT_FUEL: u64 = 20_000;
/// Fuel that an event of a scheduler may use in addition, for each flow that is active.
pub(crate) const FLOW_FUEL: u64 = 4_000;
/// Maximum number of instructions (approximately) for starting an instance and reading its
/// parameters.
pub const START_FUEL: u64 = 5_000_000;
/// Maximum size of an instance's memory, in bytes.
pub const MEMORY_BYTES_MAX: usize = 1 << 20;
/// Maximum number of elements of its tables.
pub(crate) const TABLE_MAX: usize = 1024;
/// Maximum number of locals of a function, parameters excluded. The examples have up to 29.
pub(crate) const LOCALS_MAX: u64 = 128;
