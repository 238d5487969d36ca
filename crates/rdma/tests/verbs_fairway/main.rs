//! Verbs over shared TP channels, between providers of this process.

use fairway_rdma::ProviderKind;

#[path = "../verbs/adjust.rs"]
mod adjust;
mod errors;
#[path = "../verbs/established.rs"]
mod established;
#[path = "../verbs/fences.rs"]
mod fences;
#[path = "../verbs/limits.rs"]
mod limits;
mod many;
#[path = "../verbs/missing.rs"]
mod missing;
#[path = "../verbs/node.rs"]
mod node;
#[path = "../verbs/not_ready.rs"]
mod not_ready;
mod order;
#[path = "../../../fairway/tests/common/pages.rs"]
mod pages;
mod parked;
#[path = "../verbs/processes.rs"]
mod processes;
#[path = "../verbs/progress.rs"]
mod progress;
#[path = "../verbs/refusals.rs"]
mod refusals;
#[path = "../verbs/reliable.rs"]
mod reliable;
#[path = "../verbs/rights.rs"]
mod rights;
#[path = "../verbs/send_errors.rs"]
mod send_errors;
mod shared;
#[path = "../verbs/shares.rs"]
mod shares;
#[path = "../verbs/threads.rs"]
mod threads;
mod troubles;

/// The provider that the tests for all providers (`tests/verbs`) use.
const KIND: ProviderKind = ProviderKind::Fairway;
