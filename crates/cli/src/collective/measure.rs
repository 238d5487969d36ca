//! Executes operations again and again, and compares their results.

use super::table::{Column, Row};
use super::{CollectiveOptions, failed};
use crate::failure::Failure;
use crate::process;
use crate::quantity::show_size;
use fairway_communicator::{
    Call, Communicator, ElementType, Kind, Message, Piece, Reduction, UnknownName, accumulate,
    divide,
};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Operations before the first that is measured.
const WARM_UP: u32 = 2;
/// Least number of operations that are measured.
const LEAST: u32 = 5;
/// Buffers of the full size that a rank has at least: input, result to expect, and output.
const BUFFERS: u64 = 3;
/// Most operations that are measured.
const MOST: u32 = 100_000;

/// An operation of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    AllToAll,
    SendRecv,
    Barrier,
}

const OPERATIONS: [(Operation, &str); 10] = [
    (Operation::AllReduce, "all-reduce"),
    (Operation::ReduceScatter, "reduce-scatter"),
    (Operation::AllGather, "all-gather"),
    (Operation::Broadcast, "broadcast"),
    (Operation::Reduce, "reduce"),
    (Operation::Gather, "gather"),
    (Operation::Scatter, "scatter"),
    (Operation::AllToAll, "all-to-all"),
    (Operation::SendRecv, "send-recv"),
    (Operation::Barrier, "barrier"),
];

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = OPERATIONS.iter().find(|(operation, _)| operation == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Operation {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Operation, UnknownName> {
        let found = UnknownName::find("operation", text, &OPERATIONS, |(_, name)| name)?;
        Ok(found.0)
    }
}

impl Operation {
    pub(super) fn kind(self) -> Kind {
        match self {
            Operation::AllReduce => Kind::AllReduce,
            Operation::ReduceScatter => Kind::ReduceScatter,
            Operation::AllGather => Kind::AllGather,
            Operation::Broadcast => Kind::Broadcast,
            Operation::Reduce => Kind::Reduce,
            Operation::Gather => Kind::Gather,
            Operation::Scatter => Kind::Scatter,
            Operation::AllToAll | Operation::SendRecv => Kind::Exchange,
            Operation::Barrier => Kind::Barrier,
        }
    }

    /// Whether the operation divides its buffer into a part for each rank.
    fn has_parts(self) -> bool {
        matches!(
            self,
            Operation::ReduceScatter
                | Operation::AllGather
                | Operation::Gather
                | Operation::Scatter
                | Operation::AllToAll
        )
    }

    /// Whether it can be executed in place.
    fn can_be_in_place(self) -> bool {
        !matches!(self, Operation::AllToAll | Operation::SendRecv | Operation::Barrier)
    }

    /// The factor from algbw to busbw, as nccl-tests defines it.
    pub(super) fn bus_factor(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks);
        match self {
            Operation::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Operation::SendRecv | Operation::Broadcast | Operation::Reduce | Operation::Barrier => {
                1.0
            }
            _ => (ranks - 1.0) / ranks,
        }
    }
}

/// Refuses sizes for whose buffers this host has no memory.
pub(super) fn check_memory(options: &CollectiveOptions) -> Result<(), Failure> {
    let (name, size) = match (options.size, options.sizes) {
        (Some(size), _) => ("--size", size),
        (_, Some((_, last))) => ("--sizes", last),
        _ => return Ok(()),
    };
    if options.operation == Operation::Barrier {
        return Ok(());
    }
    let needed = size.saturating_mul(BUFFERS);
    let have = process::memory_bytes();
    if have.is_some_and(|have| needed > have) || usize::try_from(needed).is_err() {
        return Err(Failure::usage(format!(
            "{name}: buffers of {} take {} a rank, but this host has {} of memory",
            show_size(size),
            show_size(needed),
            // Whole units of 1 MiB.
            have.map_or_else(|| "less".to_string(), |have| show_size(have >> 20 << 20))
        )));
    }
    Ok(())
}

/// A call of this rank: buffers, and the output to expect.
struct Job {
    call: Call,
    input: Vec<u8>,
    expected: Vec<u8>,
    /// Where in one buffer input and output are, if it is in place.
    offsets: [usize; 2],
}

/// Measures one row for each size.
pub(super) fn all(
    options: &CollectiveOptions,
    group: &Communicator,
    mut report: impl FnMut(&Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (first, last) = options
        .sizes
        .unwrap_or_else(|| options.size.map_or((1 << 20, 1 << 20), |size| (size, size)));
    let sizes = match options.operation {
        Operation::Barrier => vec![0],
        _ => sizes((first, last), unit(options, group)),
    };
    if group.rank() == 0 {
        say_rounding(options, (first, last), &sizes, unit(options, group));
    }
    let mut wrong = 0;
    for (at, size) in sizes.into_iter().enumerate() {
        let row = row(options, group, size, at == 0)?;
        wrong += row.wrong();
        report(&row)?;
    }
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::failed(format!("{wrong} elements were wrong"))),
    }
}

/// Sizes that double from the first to the last, in whole units, each once.
fn sizes((first, last): (u64, u64), unit: u64) -> Vec<u64> {
    let whole = |size: u64| if size == 0 { 0 } else { (size / unit).max(1) * unit };
    let mut sizes: Vec<_> = doubled(first, last).map(whole).collect();
    sizes.dedup();
    sizes
}

/// Notes on standard error that sizes were rounded to whole elements, if any was.
fn say_rounding(
    options: &CollectiveOptions,
    (first, last): (u64, u64),
    measured: &[u64],
    unit: u64,
) {
    if options.operation == Operation::Barrier || doubled(first, last).all(|size| size % unit == 0)
    {
        return;
    }
    let (element, bytes) = (options.element, options.element.bytes());
    let why = match unit == bytes {
        true => format!("an element of {element} has {bytes} bytes"),
        false => format!("each rank has a part of whole elements, {unit} bytes in all"),
    };
    let shown: Vec<String> = measured.iter().map(u64::to_string).collect();
    let shown = match shown.as_slice() {
        [.., _, _, _, _] => format!("{} to {}", shown[0], shown[shown.len() - 1]),
        few => few.join(", "),
    };
    process::say(&format!("fairway: sizes are rounded, because {why}: measured are {shown} bytes"));
}

/// Sizes that double from the first to the last.
fn doubled(first: u64, last: u64) -> impl Iterator<Item = u64> {
    let next = move |size: &u64| size.checked_mul(2).filter(|next| *next > 0 && *next <= last);
    std::iter::successors(Some(first), next)
}

/// Bytes of the smallest buffer: an element, or one for each rank.
fn unit(options: &CollectiveOptions, group: &Communicator) -> u64 {
    match options.operation.has_parts() {
        true => options.element.bytes() * u64::from(group.ranks()),
        false => options.element.bytes(),
    }
}

fn row(
    options: &CollectiveOptions,
    group: &Communicator,
    size: u64,
    is_first: bool,
) -> Result<Row, Failure> {
    let job = job(options, group, size);
    let operation = options.operation;
    let algorithm = group.algorithm_of(&job.call).map_err(failed)?;
    let apart = column(options, group, &job, false)?;
    let in_place = match operation.can_be_in_place() {
        true => Some(column(options, group, &job, true)?),
        false => None,
    };
    Ok(Row {
        operation,
        ranks: group.ranks(),
        bytes: job.bytes(operation, group),
        element: options.element,
        reduction: job.call.reduction().map(|(_, reduction)| reduction),
        root: matches!(
            operation,
            Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter
        )
        .then_some(options.root),
        algorithm,
        columns: [Some(apart), in_place],
        is_first,
    })
}

/// Measures one column of a row.
fn column(
    options: &CollectiveOptions,
    group: &Communicator,
    job: &Job,
    is_in_place: bool,
) -> Result<Column, Failure> {
    let mut buffers = Buffers::new(job, is_in_place);
    for _ in 0..WARM_UP {
        buffers.execute(job, group)?;
    }
    // One execution with fresh buffers is checked before and after those that are timed.
    let mut wrong = buffers.check(job, options.element, group)?;
    let started = Instant::now();
    buffers.execute(job, group)?;
    let once = largest(group, started.elapsed())?;
    let fitting = options.duration.as_secs_f64() / once.as_secs_f64().max(1e-7);
    let iterations = options.iters.unwrap_or((fitting as u32).clamp(LEAST, MOST));
    buffers.clear(job);
    group.barrier().map_err(failed)?;
    let started = Instant::now();
    for _ in 0..iterations {
        buffers.execute(job, group)?;
    }
    let time = largest(group, started.elapsed() / iterations)?;
    wrong += buffers.check(job, options.element, group)?;
    let mut total = [wrong];
    group.all_reduce(&mut total, Reduction::Sum).map_err(failed)?;
    Ok(Column { time, wrong: total[0], iterations })
}

/// The largest time of any rank.
fn largest(group: &Communicator, time: Duration) -> Result<Duration, Failure> {
    let mut ns = [time.as_nanos() as u64];
    group.all_reduce(&mut ns, Reduction::Max).map_err(failed)?;
    Ok(Duration::from_nanos(ns[0]))
}

/// Memory of a call.
struct Buffers {
    input: Vec<u8>,
    /// `None` in place.
    output: Option<Vec<u8>>,
    offsets: [usize; 2],
}

impl Buffers {
    fn new(job: &Job, is_in_place: bool) -> Buffers {
        if !is_in_place {
            let output = Some(vec![0; job.output_bytes()]);
            return Buffers { input: job.input.clone(), output, offsets: [0, 0] };
        }
        let [input, output] = job.offsets;
        let end = (input + job.input.len()).max(output + job.output_bytes());
        let mut whole = vec![0; end];
        whole[input..input + job.input.len()].copy_from_slice(&job.input);
        Buffers { input: whole, output: None, offsets: job.offsets }
    }

    fn execute(&mut self, job: &Job, group: &Communicator) -> Result<(), Failure> {
        let (in_bytes, out_bytes) = (job.input.len() as u64, job.output_bytes() as u64);
        let [input, output] = self.offsets;
        let start = self.input.as_mut_ptr();
        let from = start.wrapping_add(input);
        let into = match &mut self.output {
            Some(buffer) => buffer.as_mut_ptr(),
            None => start.wrapping_add(output),
        };
        // SAFETY: both buffers live in `self`, which is borrowed until the call has ended.
        let pending = unsafe { group.start(job.call.clone(), (from, in_bytes), (into, out_bytes)) };
        pending.and_then(fairway_communicator::Pending::wait).map_err(failed)
    }

    /// Executes the call with fresh buffers. Returns the number of elements that are wrong.
    fn check(
        &mut self,
        job: &Job,
        element: ElementType,
        group: &Communicator,
    ) -> Result<u64, Failure> {
        self.clear(job);
        self.execute(job, group)?;
        let output = match &self.output {
            Some(output) => output.as_slice(),
            None => &self.input[self.offsets[1]..self.offsets[1] + job.output_bytes()],
        };
        let size = element.bytes() as usize;
        let pairs = output.chunks(size).zip(job.expected.chunks(size));
        Ok(pairs.filter(|(found, expected)| found != expected).count() as u64)
    }

    /// Forgets the results.
    fn clear(&mut self, job: &Job) {
        if let Some(output) = &mut self.output {
            output.fill(0);
        } else {
            self.input.fill(0);
            let at = self.offsets[0];
            self.input[at..at + job.input.len()].copy_from_slice(&job.input);
        }
    }
}

impl Job {
    fn output_bytes(&self) -> usize {
        self.expected.len()
    }

    /// The size of the row: that of the largest buffer of a rank.
    fn bytes(&self, operation: Operation, group: &Communicator) -> u64 {
        let ranks = u64::from(group.ranks());
        match operation {
            Operation::Gather | Operation::Scatter => {
                // The root has all parts on one side; the others have nothing there.
                let (sent, received) = (self.input.len(), self.expected.len());
                let part = if operation == Operation::Gather { sent } else { received };
                part as u64 * ranks
            }
            _ => self.input.len().max(self.expected.len()) as u64,
        }
    }
}

/// The byte pattern of a rank's input: small numbers, whose combinations are exact in every type.
fn pattern(element: ElementType, reduction: Option<Reduction>, rank: u32, bytes: u64) -> Vec<u8> {
    let count = bytes / element.bytes();
    let number = |at: u64| match reduction {
        // Products of many ranks stay exact.
        Some(Reduction::Product) => 1 + u64::from((at + u64::from(rank)).is_multiple_of(7)),
        _ => (at * 7 + u64::from(rank) * 3) % 13,
    };
    let mut data = Vec::with_capacity(bytes as usize);
    for at in 0..count {
        encode(element, number(at), &mut data);
    }
    data
}

/// Appends a small number as an element.
fn encode(element: ElementType, number: u64, to: &mut Vec<u8>) {
    // The bits of 0 to 13 in half precision: the exponent of the highest bit, and the rest.
    let half = |mantissa: u32, bias: u32| match number.checked_ilog2() {
        None => 0u16,
        Some(high) => {
            let rest = (number - (1 << high)) << (mantissa - high);
            ((bias + high) << mantissa) as u16 | rest as u16
        }
    };
    match element {
        ElementType::F64 => to.extend((number as f64).to_ne_bytes()),
        ElementType::F32 => to.extend((number as f32).to_ne_bytes()),
        ElementType::F16 => to.extend(half(10, 15).to_ne_bytes()),
        ElementType::Bf16 => to.extend(half(7, 127).to_ne_bytes()),
        ElementType::I8 | ElementType::U8 => to.push(number as u8),
        ElementType::I32 | ElementType::U32 => to.extend((number as u32).to_ne_bytes()),
        ElementType::I64 | ElementType::U64 => to.extend(number.to_ne_bytes()),
    }
}

/// Makes the call of a size, in whole units, for this rank, and computes its result.
fn job(options: &CollectiveOptions, group: &Communicator, bytes: u64) -> Job {
    let (rank, ranks) = (group.rank(), group.ranks());
    let (element, reduction, root) = (options.element, options.reduction, options.root);
    let part = bytes / u64::from(ranks);
    let pieces = vec![part; ranks as usize];
    let own = part as usize * rank as usize;
    let range = own..own + part as usize;
    let plain = |rank, bytes| pattern(element, None, rank, bytes);
    let summed = |bytes| combined(element, reduction, ranks, bytes);
    let number = |rank, bytes| pattern(element, Some(reduction), rank, bytes);
    let all = || (0..ranks).flat_map(|rank| plain(rank, part)).collect::<Vec<u8>>();
    let is_root = rank == root;
    let at_root = |data: Vec<u8>| if is_root { data } else { Vec::new() };
    let (call, input, expected, offsets) = match options.operation {
        Operation::AllReduce => {
            let call = Call::AllReduce { bytes, element, reduction };
            (call, number(rank, bytes), summed(bytes), [0, 0])
        }
        Operation::ReduceScatter => {
            let call = Call::ReduceScatter { pieces, element, reduction };
            (call, number(rank, bytes), summed(bytes)[range].to_vec(), [0, own])
        }
        Operation::AllGather => (Call::AllGather { pieces }, plain(rank, part), all(), [own, 0]),
        Operation::Broadcast => {
            let data = plain(root, bytes);
            (Call::Broadcast { bytes, root }, at_root(data.clone()), data, [0, 0])
        }
        Operation::Reduce => {
            let call = Call::Reduce { bytes, element, reduction, root };
            (call, number(rank, bytes), at_root(summed(bytes)), [0, 0])
        }
        Operation::Gather => {
            let offsets = if is_root { [own, 0] } else { [0, 0] };
            (Call::Gather { pieces, root }, plain(rank, part), at_root(all()), offsets)
        }
        Operation::Scatter => {
            let data = plain(root, bytes);
            let expected = data[range].to_vec();
            let offsets = if is_root { [0, own] } else { [0, 0] };
            (Call::Scatter { pieces, root }, at_root(data), expected, offsets)
        }
        Operation::AllToAll => {
            let from = |from| plain(from, bytes)[range.clone()].to_vec();
            let expected = (0..ranks).flat_map(from).collect();
            let messages = || {
                let piece = |at| Piece { offset: u64::from(at) * part, bytes: part };
                (0..ranks).map(|rank| Message { rank, piece: piece(rank) }).collect()
            };
            let call =
                Call::Exchange { is_collective: true, sends: messages(), receives: messages() };
            (call, plain(rank, bytes), expected, [0, 0])
        }
        Operation::SendRecv => {
            let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let message = |rank| vec![Message { rank, piece: Piece { offset: 0, bytes } }];
            let (sends, receives) = (message(next), message(before));
            let call = Call::Exchange { is_collective: true, sends, receives };
            (call, plain(rank, bytes), plain(before, bytes), [0, 0])
        }
        Operation::Barrier => (Call::Barrier, Vec::new(), Vec::new(), [0, 0]),
    };
    Job { call, input, expected, offsets }
}

/// The combination of the inputs of all ranks.
fn combined(element: ElementType, reduction: Reduction, ranks: u32, bytes: u64) -> Vec<u8> {
    let mut sum = pattern(element, Some(reduction), 0, bytes);
    for rank in 1..ranks {
        accumulate(element, reduction, &mut sum, &pattern(element, Some(reduction), rank, bytes));
    }
    if reduction == Reduction::Average {
        divide(element, &mut sum, ranks);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_below_a_unit_are_measured_once() {
        assert_eq!(sizes((1, 32), 4), [4, 8, 16, 32]);
        assert_eq!(sizes((8, 60), 12), [12, 24]);
        assert_eq!(sizes((5, 5), 4), [4]);
        assert_eq!(sizes((0, 0), 4), [0]);
        assert_eq!(sizes((1 << 63, u64::MAX), 1), [1 << 63]);
    }
}
