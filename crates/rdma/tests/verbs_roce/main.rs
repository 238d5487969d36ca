//! The RoCEv2 provider: real packets between providers of this process, and of others.

use fairway_rdma::ProviderKind;

#[path = "../verbs/adjust.rs"]
mod adjust;
#[path = "../verbs/established.rs"]
mod established;
#[path = "../verbs/fences.rs"]
mod fences;
mod hosts;
mod life;
#[path = "../verbs/limits.rs"]
mod limits;
mod management;
#[path = "../verbs/missing.rs"]
mod missing;
mod namespaces;
#[path = "../verbs/node.rs"]
mod node;
#[path = "../verbs/not_ready.rs"]
mod not_ready;
#[path = "../../../fairway/tests/common/pages.rs"]
mod pages;
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
#[path = "../verbs/shares.rs"]
mod shares;
mod strangers;
#[path = "../../../fairway/tests/common/superuser.rs"]
mod superuser;
#[path = "../verbs/threads.rs"]
mod threads;
mod troubles;
mod unreliable;
mod wire_truth;

/// The provider that the tests for all providers (`tests/verbs`) use.
const KIND: ProviderKind = ProviderKind::Roce;
