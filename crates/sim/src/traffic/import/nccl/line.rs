//! Lines of a log.

use super::MARK;
use crate::traffic::import::error::Wrong;

/// Operations that NCCL calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Gather,
    Scatter,
    Send,
    Receive,
}

impl Kind {
    const KNOWN: &'static str = "AllReduce, Broadcast, Reduce, AllGather, ReduceScatter, AllToAll, \
                                 Gather, Scatter, Send and Recv";

    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "AllReduce" => Kind::AllReduce,
            "Broadcast" | "Bcast" => Kind::Broadcast,
            "Reduce" => Kind::Reduce,
            "AllGather" => Kind::AllGather,
            "ReduceScatter" => Kind::ReduceScatter,
            "AllToAll" | "AlltoAll" | "Alltoall" => Kind::AllToAll,
            "Gather" => Kind::Gather,
            "Scatter" => Kind::Scatter,
            "Send" => Kind::Send,
            "Recv" => Kind::Receive,
            _ => return None,
        })
    }

    /// True if the operation is one end of a message.
    pub(super) fn is_message(self) -> bool {
        matches!(self, Kind::Send | Kind::Receive)
    }

    /// True if one rank has another part than the others.
    pub(super) fn has_root(self) -> bool {
        matches!(self, Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter)
    }

    /// True if the count is that of one rank's part of the buffer.
    pub(super) fn counts_a_part(self) -> bool {
        matches!(self, Kind::AllGather | Kind::ReduceScatter | Kind::AllToAll)
    }
}

/// A call of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub kind: Kind,
    /// Bytes of `count` elements.
    pub bytes: u128,
    /// Root, or peer of a message.
    pub root: u64,
    /// Address of the communicator in its process.
    pub comm: String,
    pub nranks: u32,
    pub stream: String,
    pub count: u64,
    /// RCCL's number of the rank among all.
    pub global: Option<u32>,
}

/// The beginning of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub comm: String,
    pub rank: u32,
    pub nranks: u32,
    /// Hash that all ranks of the communicator have; `None` before NCCL 2.17.
    pub id: Option<u64>,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Call(Call),
    Begun(Begun),
}

/// Host, process and device of a line.
type Source = (String, String, u32);

/// Parses a line; `None` for one that says neither.
pub(super) fn line(text: &str) -> Result<Option<(Source, Line)>, Wrong> {
    let Some((before, message)) = text.split_once(MARK) else { return Ok(None) };
    let (name, fields) = match message.split_once(": opCount ") {
        Some((name, _)) => (Some(name), &message[name.len() + 2..]),
        None => (None, message),
    };
    let words: Vec<&str> = fields.split_whitespace().collect();
    let field = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let Some(name) = name else {
        let begun = (field("comm"), field("rank"), field("nranks"));
        let (Some(comm), Some(rank), Some(nranks)) = begun else { return Ok(None) };
        let (Ok(rank), Ok(nranks)) = (rank.parse::<u32>(), nranks.parse::<u32>()) else {
            return Ok(None);
        };
        if rank >= nranks {
            return Err(Wrong::Rank { rank: rank.into(), last: nranks.saturating_sub(1) });
        }
        let id = field("commId").and_then(hexadecimal);
        let begun = Begun { comm: comm.trim_end_matches(',').to_owned(), rank, nranks, id };
        return Ok(Some((source(before).ok_or(Wrong::Process)?, Line::Begun(begun))));
    };
    let name = name.trim();
    let kind = Kind::of(name).ok_or_else(|| {
        let name = name.chars().take(40).collect();
        Wrong::Operation { name, known: Kind::KNOWN }
    })?;
    let number = |name: &'static str| {
        field(name).and_then(|text| text.parse::<u64>().ok()).ok_or(Wrong::Field(name))
    };
    let nranks = words.iter().find_map(|word| word.strip_prefix("[nranks=")?.strip_suffix(']'));
    let nranks = nranks.and_then(|text| text.parse::<u32>().ok()).filter(|nranks| *nranks > 0);
    let data_type = number("datatype")?;
    let call = Call {
        kind,
        bytes: u128::from(number("count")?) * element_bytes(data_type)?,
        root: number("root")?,
        comm: field("comm")
            .filter(|comm| comm.starts_with("0x"))
            .ok_or(Wrong::Field("comm"))?
            .to_owned(),
        nranks: nranks.ok_or(Wrong::Field("nranks"))?,
        stream: field("stream").ok_or(Wrong::Field("stream"))?.to_owned(),
        count: field("opCount").and_then(hexadecimal).ok_or(Wrong::Field("opCount"))?,
        global: field("globalrank").and_then(|text| text.parse().ok()),
    };
    Ok(Some((source(before).ok_or(Wrong::Process)?, Line::Call(call))))
}

/// Parses what precedes the message: `host:pid:tid [device]`, and perhaps times.
fn source(before: &str) -> Option<Source> {
    let words: Vec<&str> = before.split_whitespace().collect();
    let device = |word: &str| word.strip_prefix('[')?.strip_suffix(']')?.parse::<u32>().ok();
    // What an MPI launcher writes in front may also be in brackets.
    let at = words.iter().rposition(|word| device(word).is_some())?;
    let process = words[..at].last()?;
    // Launchers write `[1,0]<stdout>:` right in front of the host.
    let process = process.rsplit('>').next()?;
    let mut parts = process.trim_start_matches(':').rsplitn(3, ':');
    let (_thread, pid, host) = (parts.next()?, parts.next()?, parts.next()?);
    Some((host.to_owned(), pid.to_owned(), device(words[at])?))
}

/// Parses a number in base 16, with `0x` or without.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Bytes of an element of `ncclDataType_t`: int8, uint8, int32, uint32, int64, uint64, float16,
/// float32, float64, bfloat16, and two of float8.
fn element_bytes(data_type: u64) -> Result<u128, Wrong> {
    const BYTES: [u128; 12] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1];
    let bytes = usize::try_from(data_type).ok().and_then(|at| BYTES.get(at));
    bytes.copied().ok_or(Wrong::DataType(data_type))
}
