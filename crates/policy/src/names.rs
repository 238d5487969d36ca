//! Policies by name.
//!
//! A specification is text such as `cc=swift,path=p2c,loss=path-order,sched=drr`: for each kind the
//! name of an algorithm, and after colons its parameters, as in `cc=fixed:4M` or
//! `cc=swift:target=200us:max=4M`. A kind that is left out has its default. Since no two algorithms
//! share a name, the kind's own name may be left out as well: `swift`, `p2c`.
//!
//! Bytes are a number with an optional `K`, `M` or `G` (powers of 1024); times need `ns`, `us`,
//! `ms` or `s`; rates need `bps`, `Kbps`, `Mbps` or `Gbps` (powers of 1000); shares such as `loss`
//! are in thousandths.
//!
//! To add an algorithm, add its file and, in this module, a variant, its line in `LISTS`, and one
//! arm in each `match`; if it has parameters, add their table in `parameters.rs`.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

mod parameters;
mod path_parameters;
mod probe;

use crate::{
    Backpressure, BackpressureParameters, Bitmap, Caqm, CaqmParameters, CongestionControl,
    CreditPolicy, CreditSender, Cubic, CubicParameters, Dcqcn, DcqcnParameters, Eqds,
    EqdsParameters, FixedWindow, Flowlet, FlowletParameters, Greedy, HintedWeights, Hints, Homa,
    HomaParameters, Hpcc, HpccParameters, LeastRoundTrip, LossDetector, MultipathParameters,
    MultipathWindow, Nscc, NsccParameters, PathChoice, PathOrder, Plb, PlbParameters, PowerOfTwo,
    PowerOfTwoParameters, ProbeSpec, Rack, ReceiverDistance, Reps, RepsParameters, RoundRobin,
    RoundRobinParameters, SackThreshold, Scheduler, Spray, StaticParameters, StaticShare, Swift,
    SwiftParameters, Timely, TimelyParameters, WaterFilling, WaterFillingParameters,
};
use parameters::{BYTE_UNITS, parse_bytes, read, write_quantity};

/// The policies of one TP channel.
pub struct PolicySet {
    /// Decides how much may be in flight.
    pub congestion: Box<dyn CongestionControl>,
    /// Decides which path the next chunk takes.
    pub path: Box<dyn PathChoice>,
    /// Decides which packets are lost.
    pub loss: Box<dyn LossDetector>,
    /// When round trips are measured by probes.
    pub probe: ProbeSpec,
}

impl fmt::Debug for PolicySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (congestion, path) = (self.congestion.name(), self.path.name());
        write!(f, "PolicySet(cc={congestion},path={path},loss={})", self.loss.name())
    }
}

/// Selected policies with their parameters. Parsed from text and printed as text.
///
/// `Display` prints all kinds (but omits probes if there are none), and of the parameters those
/// that are not the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicySpec {
    /// The congestion control.
    pub congestion: CongestionSpec,
    /// The path choice.
    pub path: PathSpec,
    /// The loss detector.
    pub loss: LossSpec,
    /// The scheduler, of which a NIC has one for all its channels.
    pub scheduler: SchedulerSpec,
    /// When round trips are measured by probes.
    pub probe: ProbeSpec,
}

/// A congestion control by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionSpec {
    /// [`FixedWindow`].
    Fixed {
        /// The window in bytes.
        window_bytes: u64,
    },
    /// [`Swift`].
    Swift(SwiftParameters),
    /// [`Cubic`].
    Cubic(CubicParameters),
    /// [`Timely`].
    Timely(TimelyParameters),
    /// [`Dcqcn`].
    Dcqcn(DcqcnParameters),
    /// [`Caqm`].
    Caqm(CaqmParameters),
    /// [`Eqds`] at the receiver, [`CreditSender`] at the sender.
    Eqds(EqdsParameters),
    /// [`Homa`] at the receiver, [`CreditSender`] at the sender.
    Homa(HomaParameters),
    /// [`Backpressure`].
    Backpressure(BackpressureParameters),
    /// [`Nscc`].
    Nscc(NsccParameters),
    /// [`Hpcc`].
    Hpcc(HpccParameters),
}

impl CongestionSpec {
    /// True if data may leave in other classes than the lowest.
    pub fn names_classes_of_data(&self) -> bool {
        matches!(self, CongestionSpec::Homa(_))
    }
}

impl Default for CongestionSpec {
    fn default() -> Self {
        CongestionSpec::Cubic(CubicParameters::default())
    }
}

/// A path choice by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathSpec {
    /// [`Spray`].
    Spray,
    /// [`PowerOfTwo`].
    PowerOfTwo(PowerOfTwoParameters),
    /// [`Plb`].
    Plb(PlbParameters),
    /// [`MultipathWindow`].
    MultipathWindow(MultipathParameters),
    /// [`Bitmap`].
    Bitmap,
    /// [`Reps`].
    Reps(RepsParameters),
    /// [`LeastRoundTrip`].
    LeastRoundTrip,
    /// [`Flowlet`].
    Flowlet(FlowletParameters),
}

impl Default for PathSpec {
    fn default() -> Self {
        PathSpec::Reps(RepsParameters::default())
    }
}

/// A loss detector by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossSpec {
    /// [`PathOrder`].
    #[default]
    PathOrder,
    /// [`SackThreshold`].
    SackThreshold,
    /// [`ReceiverDistance`].
    ReceiverDistance,
    /// [`Rack`].
    Rack,
}

/// A scheduler by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerSpec {
    /// [`Greedy`].
    #[default]
    Greedy,
    /// [`StaticShare`].
    Static(StaticParameters),
    /// [`WaterFilling`].
    WaterFilling(WaterFillingParameters),
    /// [`RoundRobin`].
    RoundRobin(RoundRobinParameters),
}

impl SchedulerSpec {
    /// How the scheduler treats hints.
    fn hints(&self) -> Hints {
        match self {
            SchedulerSpec::Greedy => Hints::Ignore,
            SchedulerSpec::Static(parameters) => parameters.hints,
            SchedulerSpec::WaterFilling(parameters) => parameters.hints,
            SchedulerSpec::RoundRobin(parameters) => parameters.hints,
        }
    }
}

impl PolicySpec {
    /// Returns the policies for a peer on the same host, with which `port_pairs` pairs of ports are
    /// shared. CUBIC begins with 64 KiB for each of them and at most ten times that, as TCP does
    /// over loopback, unless a first window was requested. No link between the two is slower than
    /// they are, and on a busy host each round trip of slow start takes as long as both wait for
    /// a core.
    #[must_use]
    pub fn within_host(mut self, port_pairs: u32) -> PolicySpec {
        if let CongestionSpec::Cubic(parameters) = &mut self.congestion
            && parameters.initial_bytes == 0
        {
            parameters.initial_bytes = 64 * 1024 * u64::from(port_pairs.clamp(1, 10));
        }
        self
    }

    /// These policies, except for the kinds that the text names.
    ///
    /// # Errors
    /// If an item of the text is invalid, or two are of one kind.
    pub fn with(mut self, text: &str) -> Result<PolicySpec, PolicyError> {
        let mut seen = [false; LISTS.len()];
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let kind = apply(&mut self, item)?;
            let seen = &mut seen[kind as usize];
            if core::mem::replace(seen, true) {
                return Err(PolicyError::Twice(kind));
            }
        }
        Ok(self)
    }

    /// The scheduler for a NIC with this many flows, or `None` for `greedy`, which is the behaviour
    /// of a NIC without a scheduler.
    pub fn scheduler_of_nic(&self, flows: u32) -> Option<Box<dyn Scheduler>> {
        (self.scheduler != SchedulerSpec::Greedy).then(|| self.build_scheduler(flows))
    }

    /// The scheduler, for flows 0 to `flows` - 1.
    pub fn build_scheduler(&self, flows: u32) -> Box<dyn Scheduler> {
        let scheduler: Box<dyn Scheduler> = match self.scheduler {
            SchedulerSpec::Greedy => Box::new(Greedy),
            SchedulerSpec::Static(parameters) => Box::new(StaticShare::new(parameters, flows)),
            SchedulerSpec::WaterFilling(parameters) => {
                Box::new(WaterFilling::new(parameters, flows))
            }
            SchedulerSpec::RoundRobin(parameters) => Box::new(RoundRobin::new(parameters, flows)),
        };
        match self.scheduler.hints() {
            Hints::Ignore => scheduler,
            Hints::Weight => Box::new(HintedWeights::new(scheduler, flows)),
        }
    }

    /// The policy that grants credit at the receiver, for a NIC of this many channels; `None` if
    /// the congestion control uses no credit.
    pub fn build_credit(&self, sources: u32) -> Option<Box<dyn CreditPolicy>> {
        match self.congestion {
            CongestionSpec::Eqds(parameters) => Some(Box::new(Eqds::new(parameters, sources))),
            CongestionSpec::Homa(parameters) => Some(Box::new(Homa::new(parameters, sources))),
            _ => None,
        }
    }

    /// Creates the policies of a channel, for packets of `mtu_bytes`.
    pub fn build(&self, mtu_bytes: u32) -> PolicySet {
        let congestion: Box<dyn CongestionControl> = match self.congestion {
            CongestionSpec::Fixed { window_bytes } => {
                Box::new(FixedWindow::new(window_bytes, mtu_bytes))
            }
            CongestionSpec::Swift(parameters) => Box::new(Swift::new(parameters, mtu_bytes)),
            CongestionSpec::Cubic(parameters) => Box::new(Cubic::new(parameters, mtu_bytes)),
            CongestionSpec::Timely(parameters) => Box::new(Timely::new(parameters, mtu_bytes)),
            CongestionSpec::Dcqcn(parameters) => Box::new(Dcqcn::new(parameters, mtu_bytes)),
            CongestionSpec::Caqm(parameters) => Box::new(Caqm::new(parameters, mtu_bytes)),
            CongestionSpec::Hpcc(parameters) => Box::new(Hpcc::new(parameters, mtu_bytes)),
            CongestionSpec::Eqds(parameters) => {
                Box::new(CreditSender::eqds(parameters.sender(), mtu_bytes))
            }
            CongestionSpec::Homa(parameters) => {
                Box::new(CreditSender::homa(parameters.sender(), mtu_bytes))
            }
            CongestionSpec::Backpressure(parameters) => {
                Box::new(Backpressure::new(parameters, mtu_bytes))
            }
            CongestionSpec::Nscc(parameters) => Box::new(Nscc::new(parameters, mtu_bytes)),
        };
        let path: Box<dyn PathChoice> = match self.path {
            PathSpec::Spray => Box::new(Spray::new()),
            PathSpec::PowerOfTwo(parameters) => Box::new(PowerOfTwo::new(parameters)),
            PathSpec::Plb(parameters) => Box::new(Plb::new(parameters)),
            PathSpec::MultipathWindow(parameters) => Box::new(MultipathWindow::new(parameters)),
            PathSpec::Bitmap => Box::new(Bitmap::new()),
            PathSpec::Reps(parameters) => Box::new(Reps::new(parameters)),
            PathSpec::LeastRoundTrip => Box::new(LeastRoundTrip::default()),
            PathSpec::Flowlet(parameters) => Box::new(Flowlet::new(parameters)),
        };
        let loss: Box<dyn LossDetector> = match self.loss {
            LossSpec::PathOrder => Box::new(PathOrder::new()),
            LossSpec::SackThreshold => Box::new(SackThreshold::new()),
            LossSpec::ReceiverDistance => Box::new(ReceiverDistance),
            LossSpec::Rack => Box::new(Rack::new()),
        };
        PolicySet { congestion, path, loss, probe: self.probe }
    }
}

/// The kinds of policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Congestion control, `cc`.
    Congestion,
    /// Path choice, `path`.
    Path,
    /// Loss detection, `loss`.
    Loss,
    /// Scheduling, `sched`.
    Scheduler,
    /// Probes of round trips, `probe`.
    Probe,
}

/// The algorithms of each kind.
const LISTS: [(PolicyKind, &str, &[&str]); 5] = [
    (
        PolicyKind::Congestion,
        "cc",
        &[
            FixedWindow::NAME,
            Swift::NAME,
            Cubic::NAME,
            Timely::NAME,
            Dcqcn::NAME,
            Caqm::NAME,
            Eqds::NAME,
            Homa::NAME,
            Backpressure::NAME,
            Nscc::NAME,
            Hpcc::NAME,
        ],
    ),
    (
        PolicyKind::Path,
        "path",
        &[
            Spray::NAME,
            PowerOfTwo::NAME,
            Plb::NAME,
            MultipathWindow::NAME,
            Bitmap::NAME,
            Reps::NAME,
            LeastRoundTrip::NAME,
            Flowlet::NAME,
        ],
    ),
    (
        PolicyKind::Loss,
        "loss",
        &[PathOrder::NAME, SackThreshold::NAME, ReceiverDistance::NAME, Rack::NAME],
    ),
    (
        PolicyKind::Scheduler,
        "sched",
        &[Greedy::NAME, StaticShare::NAME, WaterFilling::NAME, RoundRobin::NAME],
    ),
    (
        PolicyKind::Probe,
        "probe",
        &[ProbeSpec::OFF, ProbeSpec::PERIODIC, ProbeSpec::SAMPLED, ProbeSpec::ANOMALY],
    ),
];

/// Why a text is not a valid [`PolicySpec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// No algorithm has this name.
    UnknownName(String),
    /// The algorithm exists, but is of another kind than the text states.
    WrongKind(String),
    /// No kind has this name.
    UnknownKind(String),
    /// The text names this kind twice.
    Twice(PolicyKind),
    /// The algorithm has no such parameter, or its value is out of range or cannot be parsed.
    BadParameter {
        /// The algorithm.
        name: &'static str,
        /// The parameter as it was specified.
        parameter: String,
        /// A description of the valid parameters.
        known: &'static str,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::UnknownName(name) => write!(f, "no policy is called \"{name}\"; ")?,
            PolicyError::WrongKind(text) => write!(f, "\"{text}\" is of another kind; ")?,
            PolicyError::UnknownKind(kind) => write!(f, "no kind is called \"{kind}\"; ")?,
            PolicyError::Twice(kind) => return write!(f, "{} is given twice", kind.label()),
            PolicyError::BadParameter { name, parameter, known } => {
                return write!(f, "{name} cannot take \"{parameter}\"; {known}");
            }
        }
        write!(f, "known are")?;
        for (i, (_, label, names)) in LISTS.iter().enumerate() {
            let separator = if i == 0 { " " } else { "; " };
            write!(f, "{separator}{label}={}", names.join("|"))?;
        }
        Ok(())
    }
}

impl core::error::Error for PolicyError {}

impl PolicyKind {
    fn label(self) -> &'static str {
        LISTS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, label, _)| label)
    }
}

impl FromStr for PolicySpec {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        PolicySpec::default().with(text)
    }
}

/// Reads `item`, `[kind=]name[:parameter…]`, into `spec`, and returns its kind.
fn apply(spec: &mut PolicySpec, item: &str) -> Result<PolicyKind, PolicyError> {
    let (head, parameters) = item.split_once(':').unwrap_or((item, ""));
    let (label, name) = match head.split_once('=') {
        Some((label, name)) => (Some(label), name),
        None => (None, head),
    };
    let is_kind = |label: &str| LISTS.iter().any(|(_, known, _)| *known == label);
    if let Some(label) = label.filter(|label| !is_kind(label)) {
        return Err(PolicyError::UnknownKind(label.to_owned()));
    }
    let Some((kind, known, _)) = LISTS.iter().find(|(_, _, names)| names.contains(&name)) else {
        return Err(PolicyError::UnknownName(name.to_owned()));
    };
    if label.is_some_and(|label| label != *known) {
        return Err(PolicyError::WrongKind(head.to_owned()));
    }
    choose(spec, name, parameters)?;
    Ok(*kind)
}

/// Sets the algorithm called `name`, which exists, in `spec`.
fn choose(spec: &mut PolicySpec, name: &str, parameters: &str) -> Result<(), PolicyError> {
    match name {
        FixedWindow::NAME => spec.congestion = fixed(parameters)?,
        Swift::NAME => spec.congestion = CongestionSpec::Swift(read(parameters)?),
        Cubic::NAME => spec.congestion = CongestionSpec::Cubic(read(parameters)?),
        Timely::NAME => spec.congestion = CongestionSpec::Timely(read(parameters)?),
        Dcqcn::NAME => spec.congestion = CongestionSpec::Dcqcn(read(parameters)?),
        Caqm::NAME => spec.congestion = CongestionSpec::Caqm(read(parameters)?),
        Hpcc::NAME => spec.congestion = CongestionSpec::Hpcc(read(parameters)?),
        Eqds::NAME => spec.congestion = CongestionSpec::Eqds(read(parameters)?),
        Homa::NAME => spec.congestion = CongestionSpec::Homa(read(parameters)?),
        Backpressure::NAME => spec.congestion = CongestionSpec::Backpressure(read(parameters)?),
        Nscc::NAME => spec.congestion = CongestionSpec::Nscc(read(parameters)?),
        Spray::NAME => spec.path = none(PathSpec::Spray, Spray::NAME, parameters)?,
        PowerOfTwo::NAME => spec.path = PathSpec::PowerOfTwo(read(parameters)?),
        Plb::NAME => spec.path = PathSpec::Plb(read(parameters)?),
        MultipathWindow::NAME => spec.path = PathSpec::MultipathWindow(read(parameters)?),
        Bitmap::NAME => spec.path = none(PathSpec::Bitmap, Bitmap::NAME, parameters)?,
        Reps::NAME => spec.path = PathSpec::Reps(read(parameters)?),
        LeastRoundTrip::NAME => {
            spec.path = none(PathSpec::LeastRoundTrip, LeastRoundTrip::NAME, parameters)?;
        }
        Flowlet::NAME => spec.path = PathSpec::Flowlet(read(parameters)?),
        PathOrder::NAME => spec.loss = none(LossSpec::PathOrder, PathOrder::NAME, parameters)?,
        SackThreshold::NAME => {
            spec.loss = none(LossSpec::SackThreshold, SackThreshold::NAME, parameters)?;
        }
        ReceiverDistance::NAME => {
            spec.loss = none(LossSpec::ReceiverDistance, ReceiverDistance::NAME, parameters)?;
        }
        Rack::NAME => spec.loss = none(LossSpec::Rack, Rack::NAME, parameters)?,
        Greedy::NAME => {
            spec.scheduler = none(SchedulerSpec::Greedy, Greedy::NAME, parameters)?;
        }
        StaticShare::NAME => spec.scheduler = SchedulerSpec::Static(read(parameters)?),
        WaterFilling::NAME => spec.scheduler = SchedulerSpec::WaterFilling(read(parameters)?),
        RoundRobin::NAME => spec.scheduler = SchedulerSpec::RoundRobin(read(parameters)?),
        ProbeSpec::OFF => spec.probe = none(ProbeSpec::Off, ProbeSpec::OFF, parameters)?,
        ProbeSpec::PERIODIC => spec.probe = probe::periodic(parameters)?,
        ProbeSpec::SAMPLED => spec.probe = probe::sampled(parameters)?,
        ProbeSpec::ANOMALY => spec.probe = probe::anomaly(parameters)?,
        other => return Err(PolicyError::UnknownName(other.to_owned())),
    }
    Ok(())
}

/// `value`, for an algorithm without parameters; an error if any are given.
fn none<T>(value: T, name: &'static str, parameters: &str) -> Result<T, PolicyError> {
    if parameters.is_empty() {
        return Ok(value);
    }
    let parameter = parameters.to_owned();
    Err(PolicyError::BadParameter { name, parameter, known: "it takes none" })
}

fn fixed(parameters: &str) -> Result<CongestionSpec, PolicyError> {
    if parameters.is_empty() {
        return Ok(CongestionSpec::Fixed { window_bytes: FixedWindow::DEFAULT_BYTES });
    }
    match parse_bytes(parameters) {
        Some(window_bytes) if window_bytes > 0 => Ok(CongestionSpec::Fixed { window_bytes }),
        _ => Err(PolicyError::BadParameter {
            name: FixedWindow::NAME,
            parameter: parameters.to_owned(),
            known: "it takes a window in bytes, as 4M",
        }),
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cc={},path={},", self.congestion, self.path)?;
        write!(f, "loss={},sched={}", self.loss, self.scheduler)?;
        if self.probe == ProbeSpec::Off { Ok(()) } else { write!(f, ",probe={}", self.probe) }
    }
}

impl fmt::Display for CongestionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CongestionSpec::Fixed { window_bytes } => {
                write!(f, "{}", FixedWindow::NAME)?;
                if *window_bytes != FixedWindow::DEFAULT_BYTES {
                    write!(f, ":")?;
                    write_quantity(f, *window_bytes, &BYTE_UNITS)?;
                }
                Ok(())
            }
            CongestionSpec::Swift(swift) => parameters::write(f, swift),
            CongestionSpec::Cubic(cubic) => parameters::write(f, cubic),
            CongestionSpec::Timely(timely) => parameters::write(f, timely),
            CongestionSpec::Dcqcn(dcqcn) => parameters::write(f, dcqcn),
            CongestionSpec::Caqm(caqm) => parameters::write(f, caqm),
            CongestionSpec::Hpcc(hpcc) => parameters::write(f, hpcc),
            CongestionSpec::Eqds(eqds) => parameters::write(f, eqds),
            CongestionSpec::Homa(homa) => parameters::write(f, homa),
            CongestionSpec::Backpressure(pressure) => parameters::write(f, pressure),
            CongestionSpec::Nscc(nscc) => parameters::write(f, nscc),
        }
    }
}

impl fmt::Display for PathSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathSpec::Spray => f.write_str(Spray::NAME),
            PathSpec::PowerOfTwo(p2c) => parameters::write(f, p2c),
            PathSpec::Plb(plb) => parameters::write(f, plb),
            PathSpec::MultipathWindow(windows) => parameters::write(f, windows),
            PathSpec::Bitmap => f.write_str(Bitmap::NAME),
            PathSpec::Reps(reps) => parameters::write(f, reps),
            PathSpec::LeastRoundTrip => f.write_str(LeastRoundTrip::NAME),
            PathSpec::Flowlet(flowlet) => parameters::write(f, flowlet),
        }
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossSpec::PathOrder => PathOrder::NAME,
            LossSpec::SackThreshold => SackThreshold::NAME,
            LossSpec::ReceiverDistance => ReceiverDistance::NAME,
            LossSpec::Rack => Rack::NAME,
        })
    }
}

impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulerSpec::Greedy => f.write_str(Greedy::NAME),
            SchedulerSpec::Static(even) => parameters::write(f, even),
            SchedulerSpec::WaterFilling(filling) => parameters::write(f, filling),
            SchedulerSpec::RoundRobin(turns) => parameters::write(f, turns),
        }
    }
}

#[cfg(test)]
mod tests;
