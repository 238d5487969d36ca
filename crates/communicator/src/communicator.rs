//! One rank of a group, and its operations.

use crate::background::{self, Shared};
use crate::buffer::Buffer;
use crate::costs;
use crate::driver::Driver;
use crate::element::Element;
use crate::error::{Error, Failure};
use crate::options::Options;
use crate::pending::Pending;
use crate::rendezvous::Rendezvous;
use crate::setup;
use crate::spin;
use fairway::SocketShortage;
use fairway_collectives::{
    Algorithm, Call, Costs, Kind, Message, Piece, Protocol, Reduction, Schedule, Shape, choose,
    choose_for_readers, passed_bytes,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of schedules that are kept for further calls like them.
const KEPT: usize = 64;

/// Maximum length of a message that its receiver reads from the memory of its sender, in bytes.
const LENT_MAX: u32 = 4 << 20;

/// One rank of a group of processes. All ranks must call the same operations in the same order,
/// except for sends, receives and exchanges, which concern only the ranks that they name.
///
/// The methods may be called from any thread; threads that call operations of one communicator at
/// the same time must agree with the threads of the other ranks on their order.
pub struct Communicator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    rank: u32,
    ranks: u32,
    hosts: Vec<u32>,
    options: Options,
    costs: Costs,
    /// True if all ranks read the memory of each other.
    are_readers: bool,
    shortage: Option<SocketShortage>,
    schedules: Mutex<HashMap<(Call, bool), Planned>>,
}

/// A schedule, and how its bytes travel.
#[derive(Clone)]
struct Planned {
    schedule: Arc<Schedule>,
    protocol: Protocol,
    algorithm: Algorithm,
}

impl Communicator {
    /// Joins a group as rank `rank` of `ranks`: meets the others at the rendezvous, and connects to
    /// all of them.
    ///
    /// # Errors
    /// The others did not come in time, have other options, or can't be reached.
    pub fn new(
        rank: u32,
        ranks: u32,
        rendezvous: &mut dyn Rendezvous,
        options: Options,
    ) -> Result<Communicator, Error> {
        let group = setup::connect(rank, ranks, rendezvous, options.clone())?;
        let shortage = group.parts.context.socket_shortage();
        let mut driver = Driver::new(group.parts);
        driver.adopt(group.early);
        let spin = spin::time(rank, &group.hosts);
        if spin.is_zero() {
            driver.sleep_at_once();
        }
        let shared = Arc::new(Shared::new(driver, options.timeout, spin));
        let thread = background::spawn(shared.clone())
            .map_err(|error| Error::Option(format!("no thread could be started: {error}")))?;
        let mut communicator = Communicator {
            shared,
            thread: Some(thread),
            rank,
            ranks,
            hosts: group.hosts,
            costs: options.costs.unwrap_or_default(),
            are_readers: group.are_readers,
            options,
            shortage,
            schedules: Mutex::new(HashMap::new()),
        };
        if communicator.options.costs.is_none() {
            communicator.costs = costs::measure(&communicator)?;
            communicator.kept().clear();
        }
        Ok(communicator)
    }

    /// The number of this rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks of the group.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The costs by which algorithms are chosen.
    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// The host of each rank, by numbers from 0: ranks with the same number share one.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// Why the NIC of this rank has fewer sockets than its paths need
    /// ([`fairway::Context::socket_shortage`]); `None` if it has enough.
    pub fn socket_shortage(&self) -> Option<SocketShortage> {
        self.shortage
    }

    /// Why the group is over, if it is.
    pub fn failure(&self) -> Option<Failure> {
        self.shared.lock().failure().cloned()
    }

    /// Ends the group: all calls under way fail, here and at the other ranks.
    pub fn abort(&self, why: &str) {
        self.shared.lock().abort(why.to_string());
    }

    /// The algorithm of a call.
    ///
    /// # Errors
    /// No rank can execute the call.
    pub fn algorithm_of(&self, call: &Call) -> Result<Algorithm, Error> {
        call.check(self.rank, self.ranks)?;
        Ok(self.plan(call, false).algorithm)
    }

    /// Begins a call. A call without an input or an output takes a null pointer and 0 bytes.
    ///
    /// # Safety
    /// The bytes of `input` can be read, and those of `output` written, until the result has ended:
    /// [`Pending::wait`] has returned, or it was dropped. Nothing else writes the input, or
    /// accesses the output, until then. The output may be exactly that part of the input's memory
    /// to which it corresponds, or the other way round, and must not overlap it otherwise.
    ///
    /// # Errors
    /// The call or the lengths are wrong; or the group is over.
    pub unsafe fn start(
        &self,
        call: Call,
        input: (*const u8, u64),
        output: (*mut u8, u64),
    ) -> Result<Pending, Error> {
        // SAFETY: as the caller promises.
        unsafe { self.start_labelled(call, "", input, output) }
    }

    /// As [`Communicator::start`], with what the call is for, up to some 60 bytes, if that says
    /// more than the call: all ranks must pass the same text, or the group ends as if they had
    /// called different operations. Sends, receives and exchanges of some ranks have no label.
    ///
    /// # Safety
    /// As [`Communicator::start`].
    ///
    /// # Errors
    /// As [`Communicator::start`].
    pub unsafe fn start_labelled(
        &self,
        call: Call,
        label: &str,
        (input, input_bytes): (*const u8, u64),
        (output, output_bytes): (*mut u8, u64),
    ) -> Result<Pending, Error> {
        call.check(self.rank, self.ranks)?;
        let needed = [call.input_bytes(self.rank), call.output_bytes(self.rank)];
        for (buffer, bytes, needed) in
            [("input", input_bytes, needed[0]), ("output", output_bytes, needed[1])]
        {
            let fits =
                if call.kind() == Kind::Exchange { bytes >= needed } else { bytes == needed };
            if !fits {
                return Err(Error::Length { buffer, bytes, needed });
            }
        }
        let offsets = self.in_place(&call, input.addr(), output.addr());
        let planned = self.plan(&call, offsets.is_some());
        let plan = (planned.schedule, planned.protocol);
        // SAFETY: as the caller promises.
        let (buffers, offsets) = unsafe {
            match offsets {
                Some(offsets) => {
                    let start = input.addr().min(output.addr());
                    let start = if input.addr() == start { input.cast_mut() } else { output };
                    let bytes = input_bytes.max(output_bytes);
                    ((Buffer::new(start, bytes), None), offsets)
                }
                None => {
                    let input = Buffer::new(input.cast_mut(), input_bytes);
                    ((input, Some(Buffer::new(output, output_bytes))), [0, 0])
                }
            }
        };
        let work = self.shared.lock().start((call, label), plan, buffers, offsets)?;
        Ok(Pending::new(self.shared.clone(), work))
    }

    /// As [`Communicator::start`], and lets the background thread continue the call while no thread
    /// waits for it.
    ///
    /// # Safety
    /// As [`Communicator::start`].
    ///
    /// # Errors
    /// As [`Communicator::start`].
    pub unsafe fn start_in_background(
        &self,
        call: Call,
        input: (*const u8, u64),
        output: (*mut u8, u64),
    ) -> Result<Pending, Error> {
        // SAFETY: as the caller promises.
        let pending = unsafe { self.start(call, input, output)? };
        pending.continue_in_background();
        Ok(pending)
    }

    /// Executes a call with slices.
    fn call<T: Element>(&self, call: Call, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (input, output) = (
            (input.as_ptr().cast(), size_of_val(input) as u64),
            (output.as_mut_ptr().cast(), size_of_val(output) as u64),
        );
        // SAFETY: both slices are borrowed until the call has ended below.
        unsafe { self.start(call, input, output)? }.wait()
    }

    /// Executes a call whose output is its input.
    fn call_in_place<T: Element>(&self, call: Call, data: &mut [T]) -> Result<(), Error> {
        let start: *mut u8 = data.as_mut_ptr().cast();
        let bytes = size_of_val(data) as u64;
        // SAFETY: the slice is borrowed until the call has ended below.
        unsafe { self.start(call, (start, bytes), (start, bytes))? }.wait()
    }

    /// Combines `data` of all ranks, element by element, into `data` of all ranks.
    ///
    /// # Errors
    /// The group is over.
    pub fn all_reduce<T: Element>(
        &self,
        data: &mut [T],
        reduction: Reduction,
    ) -> Result<(), Error> {
        let bytes = size_of_val(data) as u64;
        self.call_in_place(Call::AllReduce { bytes, element: T::TYPE, reduction }, data)
    }

    /// Combines `input` of all ranks, and returns an equal part of the result to each: `output` is
    /// as long as `input` divided by the number of ranks.
    ///
    /// # Errors
    /// The lengths do not match, or the group is over.
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        reduction: Reduction,
    ) -> Result<(), Error> {
        let pieces = vec![size_of_val(output) as u64; self.ranks as usize];
        self.call(Call::ReduceScatter { pieces, element: T::TYPE, reduction }, input, output)
    }

    /// Collects `input` of all ranks, one after the other, in `output` of all ranks.
    ///
    /// # Errors
    /// The lengths do not match, or the group is over.
    pub fn all_gather<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let pieces = vec![size_of_val(input) as u64; self.ranks as usize];
        self.call(Call::AllGather { pieces }, input, output)
    }

    /// Copies `data` of the root to `data` of all other ranks.
    ///
    /// # Errors
    /// There is no such root, or the group is over.
    pub fn broadcast<T: Element>(&self, data: &mut [T], root: u32) -> Result<(), Error> {
        let bytes = size_of_val(data) as u64;
        let call = Call::Broadcast { bytes, root };
        if self.rank == root {
            return self.call_in_place(call, data);
        }
        self.call(call, &[], data)
    }

    /// Combines `input` of all ranks into `output` of the root. The others pass an empty output.
    ///
    /// # Errors
    /// The lengths do not match, there is no such root, or the group is over.
    pub fn reduce<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        reduction: Reduction,
        root: u32,
    ) -> Result<(), Error> {
        let bytes = size_of_val(input) as u64;
        self.call(Call::Reduce { bytes, element: T::TYPE, reduction, root }, input, output)
    }

    /// Collects `input` of all ranks in `output` of the root. The others pass an empty output.
    ///
    /// # Errors
    /// The lengths do not match, there is no such root, or the group is over.
    pub fn gather<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let pieces = vec![size_of_val(input) as u64; self.ranks as usize];
        self.call(Call::Gather { pieces, root }, input, output)
    }

    /// Returns an equal part of the root's `input` to `output` of each rank. The others pass an
    /// empty input.
    ///
    /// # Errors
    /// The lengths do not match, there is no such root, or the group is over.
    pub fn scatter<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let pieces = vec![size_of_val(output) as u64; self.ranks as usize];
        self.call(Call::Scatter { pieces, root }, input, output)
    }

    /// Sends part *r* of `input` to rank *r*, and receives its part in part *r* of `output`; all
    /// parts are equal.
    ///
    /// # Errors
    /// The lengths differ, or are no multiple of the number of ranks; or the group is over.
    pub fn all_to_all<T: Element>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (elements, ranks) = (input.len() as u64, self.ranks);
        if !elements.is_multiple_of(u64::from(ranks)) {
            return Err(Error::Parts { elements, ranks });
        }
        let [bytes, needed] = [size_of_val(output), size_of_val(input)].map(|bytes| bytes as u64);
        if bytes != needed {
            return Err(Error::Length { buffer: "output", bytes, needed });
        }
        let part = (size_of_val(input) as u64) / u64::from(self.ranks);
        let lengths = vec![part; self.ranks as usize];
        self.call(all_to_all(&lengths, &lengths), input, output)
    }

    /// Sends `data` to a rank.
    ///
    /// # Errors
    /// There is no such rank, or the group is over.
    pub fn send<T: Element>(&self, data: &[T], to: u32) -> Result<(), Error> {
        let piece = Piece { offset: 0, bytes: size_of_val(data) as u64 };
        let sends = vec![Message { rank: to, piece }];
        let call = Call::Exchange { is_collective: false, sends, receives: Vec::new() };
        self.call(call, data, &mut [])
    }

    /// Receives `data` from a rank.
    ///
    /// # Errors
    /// There is no such rank, or the group is over.
    pub fn receive<T: Element>(&self, data: &mut [T], from: u32) -> Result<(), Error> {
        let piece = Piece { offset: 0, bytes: size_of_val(data) as u64 };
        let receives = vec![Message { rank: from, piece }];
        let call = Call::Exchange { is_collective: false, sends: Vec::new(), receives };
        self.call(call, &[], data)
    }

    /// Returns when all ranks have called it.
    ///
    /// # Errors
    /// The group is over.
    pub fn barrier(&self) -> Result<(), Error> {
        self.call::<u8>(Call::Barrier, &[], &mut [])
    }

    /// As [`Communicator::barrier`], but ends the group if it takes longer than `timeout`.
    ///
    /// # Errors
    /// The group is over: [`Failure::TimedOut`] names the ranks that did not come.
    pub fn monitored_barrier(&self, timeout: Duration) -> Result<(), Error> {
        let nothing = std::ptr::null_mut();
        // SAFETY: no bytes.
        unsafe { self.start(Call::Barrier, (nothing, 0), (nothing, 0))? }.wait_for(timeout)
    }

    /// Offsets of input and output in one buffer, if they are in place.
    fn in_place(&self, call: &Call, input: usize, output: usize) -> Option<[u64; 2]> {
        let before = |pieces: &[u64]| pieces[..self.rank as usize].iter().sum::<u64>();
        let [input_offset, output_offset] = match call {
            Call::AllReduce { .. } | Call::Broadcast { .. } | Call::Reduce { .. } => [0, 0],
            Call::AllGather { pieces } | Call::Gather { pieces, .. } => [before(pieces), 0],
            Call::ReduceScatter { pieces, .. } | Call::Scatter { pieces, .. } => {
                [0, before(pieces)]
            }
            Call::Exchange { .. } | Call::Barrier => return None,
        };
        if call.input_bytes(self.rank) == 0 || call.output_bytes(self.rank) == 0 {
            return None;
        }
        let is_same = input.wrapping_sub(input_offset as usize)
            == output.wrapping_sub(output_offset as usize);
        is_same.then_some([input_offset, output_offset])
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<(Call, bool), Planned>> {
        self.schedules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The algorithm in which the ranks read the messages of a call from the memory of their
    /// senders, if they can and the call is long enough. The same at all ranks.
    fn algorithm_of_readers(&self, call: &Call) -> Option<Algorithm> {
        let ranks = u64::from(self.ranks);
        let longest = match call {
            Call::AllReduce { bytes, .. } => *bytes / ranks,
            Call::Broadcast { bytes, .. } => *bytes,
            Call::ReduceScatter { pieces, .. }
            | Call::AllGather { pieces }
            | Call::Gather { pieces, .. }
            | Call::Scatter { pieces, .. } => pieces.iter().copied().max().unwrap_or(0),
            // Each pair of ranks knows its own messages only, so short ones may be among them.
            Call::Exchange { .. } => u64::MAX,
            Call::Reduce { .. } | Call::Barrier => 0,
        };
        let is_long = longest >= u64::from(self.options.lend_from);
        (self.are_readers && is_long).then(|| choose_for_readers(call, self.ranks)).flatten()
    }

    /// Longest message of a call whose buffers are not lent, in bytes.
    fn message_bytes(&self, call: &Call, algorithm: Algorithm) -> u32 {
        let most = self.options.means().message_bytes(call, self.ranks);
        if self.hosts.iter().all(|host| *host == self.hosts[0]) {
            return most;
        }
        let best = passed_bytes(call, algorithm, self.ranks, &self.costs);
        best.map_or(most, |best| best.min(u64::from(most)) as u32)
    }

    /// Chooses how a call is executed, and makes its schedule.
    fn plan(&self, call: &Call, is_in_place: bool) -> Planned {
        let key = (call.clone(), is_in_place);
        if let Some(planned) = self.kept().get(&key) {
            return planned.clone();
        }
        let able = Algorithm::of(call.kind());
        let wanted = self.options.algorithm.filter(|algorithm| able.contains(algorithm));
        let of_readers = self.algorithm_of_readers(call);
        let algorithm = wanted.or(of_readers);
        let algorithm =
            algorithm.unwrap_or_else(|| choose(call, self.ranks, &self.hosts, &self.costs));
        let means = self.options.means();
        // Bytes that are combined on the way are in slots, unless the algorithm is for readers.
        let reads = of_readers == Some(algorithm);
        let (message_bytes, protocol) = match reads {
            true => (LENT_MAX, Protocol::Lent),
            false => (self.message_bytes(call, algorithm), means.protocol(call)),
        };
        let shape = Shape {
            rank: self.rank,
            ranks: self.ranks,
            slot_bytes: message_bytes,
            slots: means.slots,
            is_in_place,
            hosts: &self.hosts,
        };
        let schedule = Arc::new(Schedule::new(call, algorithm, &shape));
        let planned = Planned { schedule, protocol, algorithm };
        let mut kept = self.kept();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, planned.clone());
        planned
    }
}

/// The call of an all-to-all with these lengths of the parts, in bytes, for each rank.
pub(crate) fn all_to_all(sent: &[u64], received: &[u64]) -> Call {
    let messages = |lengths: &[u64]| {
        let mut offset = 0;
        let message = |(rank, bytes): (usize, &u64)| {
            let piece = Piece { offset, bytes: *bytes };
            offset += bytes;
            Message { rank: rank as u32, piece }
        };
        lengths.iter().enumerate().map(message).collect()
    };
    Call::Exchange { is_collective: true, sends: messages(sent), receives: messages(received) }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.shared.is_of_this_process() {
            // A child has no thread to join, and what it sent would end the group of its parent.
            std::mem::forget((self.thread.take(), self.shared.clone()));
            return;
        }
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut driver = self.shared.lock();
        if driver.is_busy() {
            driver.abort("its communicator was dropped during a call".to_string());
        }
        // The last messages of this rank may not have arrived yet.
        driver.close();
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shape = f.debug_struct("Communicator");
        shape.field("rank", &self.rank).field("ranks", &self.ranks).finish_non_exhaustive()
    }
}
