//! `libibverbs.so.1` and `librdmacm.so.1` for machines without RDMA hardware.
//!
//! **What it is.** The C ABI of libibverbs, on top of [`fairway_softnic::verbs::Carrier`]. No
//! protocol decision is made here.
