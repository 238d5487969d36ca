//! The functions that a module may export, and their types.

use wasmi::ValType;
use wasmi::ValType::{I32, I64};

/// The functions that a module may export. The first three are required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Returns the version of the interface that the module was made for.
    Abi,
    /// Returns the address of the module's area.
    Area,
    /// Reads the parameters and makes the first decision. Returns 0 on success.
    Init,
    /// [`CongestionControl::on_ack`](fairway_policy::CongestionControl::on_ack).
    OnAck,
    /// [`CongestionControl::on_loss`](fairway_policy::CongestionControl::on_loss).
    OnLoss,
    /// [`CongestionControl::on_spurious`](fairway_policy::CongestionControl::on_spurious).
    OnSpurious,
    /// [`CongestionControl::permit_retransmit`](fairway_policy::CongestionControl::permit_retransmit).
    PermitRetransmit,
    /// [`CongestionControl::on_data`](fairway_policy::CongestionControl::on_data).
    OnData,
    /// [`CongestionControl::on_credit`](fairway_policy::CongestionControl::on_credit).
    OnCredit,
    /// [`PathChoice::choose`](fairway_policy::PathChoice::choose).
    ChoosePath,
    /// [`CongestionControl::on_sent`](fairway_policy::CongestionControl::on_sent).
    OnSent,
    /// [`CongestionControl::credit_request`](fairway_policy::CongestionControl::credit_request).
    CreditRequest,
    /// [`PathChoice::has_room`](fairway_policy::PathChoice::has_room).
    HasRoom,
    /// [`PathChoice::on_ack`](fairway_policy::PathChoice::on_ack).
    OnPathAck,
    /// [`PathChoice::on_loss`](fairway_policy::PathChoice::on_loss).
    OnPathLoss,
    /// [`LossDetector::is_lost`](fairway_policy::LossDetector::is_lost).
    IsLost,
    /// [`LossDetector::on_reordering`](fairway_policy::LossDetector::on_reordering).
    OnReordering,
    /// [`LossDetector::on_ack`](fairway_policy::LossDetector::on_ack).
    OnProgress,
    /// [`LossDetector::overdue_after`](fairway_policy::LossDetector::overdue_after).
    OverdueAfter,
    /// Returns the address of the list of rates.
    Rates,
    /// [`Scheduler::flow_started`](fairway_policy::Scheduler::flow_started).
    FlowStarted,
    /// [`Scheduler::flow_ended`](fairway_policy::Scheduler::flow_ended).
    FlowEnded,
    /// [`Scheduler::share_changed`](fairway_policy::Scheduler::share_changed).
    ShareChanged,
    /// [`Scheduler::on_transmit`](fairway_policy::Scheduler::on_transmit).
    OnTransmit,
    /// [`Scheduler::on_hint`](fairway_policy::Scheduler::on_hint).
    OnHint,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Hook; 25] = [
        Hook::Abi,
        Hook::Area,
        Hook::Init,
        Hook::OnAck,
        Hook::OnLoss,
        Hook::OnSpurious,
        Hook::PermitRetransmit,
        Hook::OnData,
        Hook::OnCredit,
        Hook::ChoosePath,
        Hook::OnSent,
        Hook::CreditRequest,
        Hook::HasRoom,
        Hook::OnPathAck,
        Hook::OnPathLoss,
        Hook::IsLost,
        Hook::OnReordering,
        Hook::OnProgress,
        Hook::OverdueAfter,
        Hook::Rates,
        Hook::FlowStarted,
        Hook::FlowEnded,
        Hook::ShareChanged,
        Hook::OnTransmit,
        Hook::OnHint,
    ];

    /// Name of the export.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Abi => "fairway_policy_abi",
            Hook::Area => "fairway_area",
            Hook::Init => "fairway_init",
            Hook::OnAck => "on_ack",
            Hook::OnLoss => "on_loss",
            Hook::OnSpurious => "on_spurious",
            Hook::PermitRetransmit => "permit_retransmit",
            Hook::OnData => "on_data",
            Hook::OnCredit => "on_credit",
            Hook::ChoosePath => "choose_path",
            Hook::OnSent => "on_sent",
            Hook::CreditRequest => "credit_request",
            Hook::HasRoom => "has_room",
            Hook::OnPathAck => "on_path_ack",
            Hook::OnPathLoss => "on_path_loss",
            Hook::IsLost => "is_lost",
            Hook::OnReordering => "on_reordering",
            Hook::OnProgress => "on_progress",
            Hook::OverdueAfter => "overdue_after",
            Hook::Rates => "fairway_rates",
            Hook::FlowStarted => "flow_started",
            Hook::FlowEnded => "flow_ended",
            Hook::ShareChanged => "share_changed",
            Hook::OnTransmit => "on_transmit",
            Hook::OnHint => "on_hint",
        }
    }

    /// Types of the parameters and results.
    pub(crate) const fn signature(self) -> (&'static [ValType], &'static [ValType]) {
        match self {
            Hook::Abi | Hook::Area | Hook::Init | Hook::IsLost | Hook::Rates => (&[], &[I32]),
            Hook::OnAck | Hook::OnLoss | Hook::OnReordering => (&[], &[]),
            Hook::OnSpurious | Hook::OnCredit => (&[I64, I32], &[]),
            Hook::PermitRetransmit => (&[I64, I32], &[I32]),
            Hook::OnData => (&[I64, I32, I32], &[]),
            Hook::ChoosePath | Hook::HasRoom | Hook::OnTransmit => (&[I32], &[I32]),
            Hook::OnSent => (&[I64, I32, I64], &[]),
            Hook::CreditRequest => (&[I64, I64], &[I32]),
            Hook::OnPathAck | Hook::OnPathLoss => (&[I32], &[]),
            Hook::OnProgress => (&[I64, I64], &[]),
            Hook::OverdueAfter => (&[I64], &[I64]),
            Hook::FlowStarted | Hook::FlowEnded | Hook::ShareChanged => (&[I64, I32], &[I32]),
            Hook::OnHint => (&[I64, I32, I64], &[I32]),
        }
    }

    pub(crate) const fn is_required(self) -> bool {
        matches!(self, Hook::Abi | Hook::Area | Hook::Init)
    }
}

/// Module and name of the function that a module may import: the square root, rounded down.
pub(crate) const ROOT: (&str, &str) = ("fairway", "isqrt");
