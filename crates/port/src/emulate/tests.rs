//! Paths decide as specified, and the packets they pass arrive byte for byte.

mod end_to_end;
mod models;
mod specs;
