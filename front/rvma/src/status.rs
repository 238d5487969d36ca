//! Status numbers that C receives, and texts of failures.

use std::cell::RefCell;
use std::ffi::CStr;
use std::fmt::Display;

/// `RVMA_Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    Success = 0,
    Argument = 1,
    NotInit = 2,
    Init = 3,
    Forked = 4,
    Window = 5,
    Request = 6,
    Closed = 7,
    AddressUsed = 8,
    NoEpoch = 9,
    Timeout = 10,
    Resources = 11,
    System = 12,
    Cancelled = 13,
    Internal = 14,
    Memory = 15,
    Unreachable = 20,
    Peer = 21,
    NoMailbox = 22,
    Epoch = 23,
    Length = 24,
    NoBuffer = 25,
    Refused = 26,
}

/// All statuses, with their texts.
const MEANINGS: &[(Status, &CStr)] = &[
    (Status::Success, c"success"),
    (Status::Argument, c"an argument is NULL, out of range, or malformed"),
    (Status::NotInit, c"the library is not initialised: call RVMA_Init"),
    (Status::Init, c"the library is initialised already"),
    (Status::Forked, c"this process is a child of the one that called RVMA_Init"),
    (Status::Window, c"no such window"),
    (Status::Request, c"no such request"),
    (Status::Closed, c"the window is closed"),
    (Status::AddressUsed, c"another window has this address"),
    (Status::NoEpoch, c"the epoch has no buffer, or is not kept any more"),
    (Status::Timeout, c"it did not happen in time"),
    (Status::Resources, c"a limit of this process is reached"),
    (Status::System, c"the operating system refused"),
    (Status::Cancelled, c"ended by RVMA_Finalize or RVMA_Win_free"),
    (Status::Internal, c"a bug of the library"),
    (Status::Memory, c"memory of this process that it names is not mapped, or can't be written"),
    (Status::Unreachable, c"no answer from that address"),
    (Status::Peer, c"the peer died or left"),
    (Status::NoMailbox, c"the peer has no such mailbox, or it has another key, or is closed"),
    (Status::Epoch, c"the epoch that was named takes no more"),
    (Status::Length, c"it leaves the peer's buffer"),
    (
        Status::NoBuffer,
        c"the peer has posted no buffer and lets no put wait for one, the memory of its buffer is \
          gone or can't be written, or it has no record for one more sender (a higher limit of windows gives it more)",
    ),
    (Status::Refused, c"the peer refused"),
];

impl Status {
    /// Text of a status number, if it is one of this library's.
    pub(crate) fn meaning(number: i32) -> &'static CStr {
        let known = MEANINGS.iter().find(|(status, _)| *status as i32 == number);
        known.map_or(c"no status of this library", |(_, meaning)| meaning)
    }

    /// The status for an operation's completion.
    pub(crate) fn of_completion(status: fairway::Status) -> Status {
        match status {
            fairway::Status::Success => Status::Success,
            fairway::Status::RemoteNoMailbox => Status::NoMailbox,
            fairway::Status::RemoteEpoch => Status::Epoch,
            fairway::Status::RemoteLength => Status::Length,
            fairway::Status::RemoteResources | fairway::Status::ReceiverNotReady => {
                Status::NoBuffer
            }
            fairway::Status::PeerDead | fairway::Status::PeerClosed => Status::Peer,
            fairway::Status::Flushed => Status::Cancelled,
            fairway::Status::LocalMemory => Status::Memory,
            fairway::Status::TimedOut => Status::Timeout,
            _ => Status::Refused,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

/// Result type of the functions behind the C calls.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    /// An argument has an illegal value.
    pub(crate) fn argument(name: &str, value: impl Display, remedy: &str) -> Failure {
        Failure::new(Status::Argument, format!("{name} can't be {value}: {remedy}"))
    }

    /// The failure of this status, with the status's text.
    pub(crate) fn of(status: Status) -> Failure {
        Failure::new(status, Status::meaning(status as i32).to_string_lossy())
    }
}

impl From<fairway::Error> for Failure {
    fn from(error: fairway::Error) -> Failure {
        use fairway::Error;
        let status = match &error {
            Error::Io { .. } => Status::System,
            Error::Number { .. } => Status::AddressUsed,
            Error::Limit { .. }
            | Error::QueueFull
            | Error::TooManyOperations
            | Error::TooManyReceives
            | Error::TooManyPuts
            | Error::TooManyBuffers
            | Error::TooManyOrders => Status::Resources,
            Error::MailboxClosed => Status::Closed,
            Error::Timeout { .. } => Status::Timeout,
            Error::PeerGone { .. } => Status::Peer,
            Error::Refused { .. }
            | Error::Unanswered { .. }
            | Error::NoSharedMemory { .. }
            | Error::UnknownHost { .. }
            | Error::NoListener { .. } => Status::Unreachable,
            Error::ShutDown => Status::Cancelled,
            Error::Parameter { .. } | Error::TooLong { .. } | Error::OutOfBounds { .. } => {
                Status::Argument
            }
            _ => Status::Internal,
        };
        Failure::new(status, in_terms_of_c(&error).unwrap_or_else(|| error.to_string()))
    }
}

/// The text of an error whose own text names settings that only Rust has.
fn in_terms_of_c(error: &fairway::Error) -> Option<String> {
    use fairway::Error;
    let text = match error {
        Error::Limit { name: "mailboxes" } => {
            "no more windows: free some, or raise RVMA_Init_options.windows"
        }
        Error::Limit { name } => return Some(format!("no more {name}: wait for operations")),
        Error::TooManyBuffers => {
            "too many buffers posted: post fewer, or raise RVMA_Init_options.buffers"
        }
        Error::TooManyPuts => {
            "puts to too many windows, or of 4 GiB to one, are under way: wait for some, or raise \
             RVMA_Init_options.windows"
        }
        Error::TooManyOperations => "too many operations are under way: wait for some",
        Error::NoBuffer => "the epoch has no buffer: post one (RVMA_Post_buffer)",
        Error::EpochNotKept => {
            "the window does not keep that epoch: go back less far, or raise \
             RVMA_Win_options.retired"
        }
        Error::MailboxClosed => "the window is closed: make another",
        Error::ShutDown => "RVMA_Finalize has ended everything: call RVMA_Init again",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Bytes of a failure's text that are kept, including the zero byte at the end.
const TEXT_BYTES: usize = 512;

thread_local! {
    /// The last failure of this thread. It needs no destructor, because `exit` would run one,
    /// perhaps from a signal handler, where the allocator's lock could block for ever.
    static LAST: RefCell<(Status, [u8; TEXT_BYTES])> =
        const { RefCell::new((Status::Success, [0; TEXT_BYTES])) };
}

/// Keeps a failure for `RVMA_Last_status` and `RVMA_Last_error`.
pub(crate) fn remember(failure: &Failure) {
    let mut text = [0; TEXT_BYTES];
    let kept = failure.text.bytes().filter(|byte| *byte != 0).take(TEXT_BYTES - 1);
    text.iter_mut().zip(kept).for_each(|(to, byte)| *to = byte);
    // The value is inaccessible only in a thread that is ending, which makes no further call.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (failure.status, text));
}

/// The status of the last failure in this thread.
pub(crate) fn last_status() -> Status {
    LAST.try_with(|last| last.borrow().0).unwrap_or(Status::Success)
}

/// Text of the last failure in this thread, valid until the next failure in this thread.
pub(crate) fn last_error() -> *const std::ffi::c_char {
    LAST.try_with(|last| last.borrow().1.as_ptr().cast()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_header_has_its_number_and_a_meaning() {
        let header = include_str!("../include/rvma.h");
        let lines = header.lines().filter_map(|line| line.trim().strip_prefix("RVMA_"));
        let numbers: Vec<i32> = lines
            .filter(|line| line.starts_with("ERR_") || line.starts_with("SUCCESS ="))
            .filter_map(|line| line.split('=').nth(1))
            .filter_map(|rest| rest.trim().split([',', ' ', '/']).next()?.parse().ok())
            .collect();
        let ours: Vec<i32> = MEANINGS.iter().map(|(status, _)| *status as i32).collect();
        assert_eq!(numbers, ours);
        assert_eq!(Status::meaning(-7), c"no status of this library");
    }

    #[test]
    fn texts_name_no_settings_of_rust() {
        use fairway::Error;
        let errors = [
            Error::Limit { name: "mailboxes" },
            Error::Limit { name: "jetties" },
            Error::TooManyBuffers,
            Error::TooManyPuts,
            Error::TooManyOperations,
            Error::NoBuffer,
            Error::EpochNotKept,
            Error::MailboxClosed,
            Error::ShutDown,
        ];
        for error in errors {
            let text = Failure::from(error).text;
            let of_rust = ["Limits", "Mailbox", "Jett", "build "];
            assert!(!of_rust.iter().any(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn a_failure_is_remembered_by_its_thread_only() {
        remember(&Failure::argument("size", -1, "a size is not negative"));
        assert_eq!(last_status(), Status::Argument);
        // SAFETY: a C string of this thread; nothing fails meanwhile.
        let text = unsafe { CStr::from_ptr(last_error()) };
        assert_eq!(text, c"size can't be -1: a size is not negative");
        std::thread::spawn(|| assert_eq!(last_status(), Status::Success)).join().unwrap();
    }
}
