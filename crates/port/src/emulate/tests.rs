//! Paths decide as specified; what they let through arrives byte for byte.

mod end_to_end;
mod models;
mod specs;
