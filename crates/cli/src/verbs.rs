//! `fairway run` and `fairway devices`: run RDMA programs that were written for hardware.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum, ValueHint};
use fairway::Policies;
use fairway::Spec;
use fairway::{DatapathKind, Dscp};
use fairway_rdma::devices::{self, Device, Filter};
use fairway_rdma::{Gid, PolicySpec, ProviderKind, ServiceLevels};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{net, process, quantity};

pub(crate) const RUN_EXAMPLES: &str = "Examples:
  fairway run ibv_devinfo
  fairway run -- ib_write_bw -F                        # on one machine, and on the other:
  fairway run -- ib_write_bw -F HOST
  fairway run --provider fairway --paths 16 -- ib_write_bw -F HOST
  fairway run --emulate loss=1%,delay=50us -- ibv_rc_pingpong -g 0 HOST
  fairway run --device lo -- PROGRAM ARGUMENTS

The exit status is the program's. Programs find the devices that `fairway devices` prints. The
options set FAIRWAY_* variables, which may be set instead. docs/verbs.md lists them, and the programs
that run. Programs that are linked statically, or that have more rights than their caller (setuid),
cannot be run this way.";

/// Which protocol carries the verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    /// RoCEv2: peers may be RDMA hardware, or Linux' soft-RoCE
    Roce,
    /// Fairway's own transport: many paths, selective repair, one channel per pair of hosts
    Fairway,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunOptions {
    /// Which protocol carries the traffic [default: roce]
    #[arg(long, value_enum, alias = "carrier")]
    provider: Option<Provider>,

    /// Interfaces or addresses that appear as devices, as eth0,192.0.2.7, or all but some, as
    /// ^docker
    #[arg(long, value_name = "LIST", value_parser = checked::<Filter>)]
    device: Option<String>,

    /// Impair the packets that this side sends, as delay=50us,loss=1%,reorder=64
    #[arg(long, value_name = "SPEC", value_parser = net::spec)]
    emulate: Option<Spec>,

    /// Seed of the emulation
    #[arg(long, value_name = "N", requires = "emulate")]
    seed: Option<u64>,

    /// Send each packet by itself, so that captures on virtual interfaces show packets as on a wire
    #[arg(long)]
    no_segmentation: bool,

    /// RoCE: accept packets in any order, and retransmit only missing ones
    #[arg(long)]
    out_of_order: bool,

    /// RoCE: pace every queue pair by DCQCN
    #[arg(long)]
    dcqcn: bool,

    /// Scheduler (greedy, static, water-filling, drr), as sched=drr; with --provider fairway also
    /// congestion control (fixed, swift, cubic, timely, dcqcn, caqm, eqds, homa, backpressure,
    /// nscc, hpcc), path choice (spray, p2c, plb, mp-rdma, bitmap, reps, least-rtt, flowlet) and
    /// loss detection (path-order, sack, receiver, rack), as cc=swift,sched=drr; each kind may also
    /// name a WebAssembly file: cc=./mine.wasm
    #[arg(long, value_name = "NAME", value_parser = checked::<Policies>)]
    policy: Option<String>,

    /// Weights of service levels for the scheduler, as 0=1,3=4
    #[arg(long, value_name = "LIST", value_parser = checked::<ServiceLevels>)]
    weights: Option<String>,

    /// Fairway: number of paths, 1 to 256
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    paths: Option<u32>,

    /// Fairway: way of the packets: udp; shm, memory shared with a peer of the same user on this
    /// host; xdp, frames past the kernel's network stack (needs capabilities), else udp; or auto,
    /// shm where that is possible, else udp [default: auto]
    #[arg(long, value_name = "NAME")]
    datapath: Option<DatapathKind>,

    /// Code point (DSCP) of control packets (Fairway: acknowledgements and others; RoCE: CNPs), 0
    /// to 63, or off: everything is sent as best effort [default: 48]
    #[arg(long, value_name = "N|off")]
    dscp: Option<Dscp>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true,
          value_hint = ValueHint::CommandWithArguments)]
    program: Vec<OsString>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DevicesOptions {
    /// Interfaces or addresses that appear as devices, as eth0,192.0.2.7, or all but some, as
    /// ^docker
    #[arg(long, value_name = "LIST")]
    device: Option<Filter>,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Returns the text unchanged, if it parses.
fn checked<T: std::str::FromStr>(text: &str) -> Result<String, T::Err> {
    text.parse::<T>().map(|_| text.to_owned())
}

impl RunOptions {
    /// Refuses options of the other provider.
    fn check(&self) -> Result<(), Failure> {
        // Earlier versions used the second name.
        let named = ["FAIRWAY_PROVIDER", "FAIRWAY_CARRIER"].map(|name| std::env::var(name).ok());
        let chosen =
            self.provider.or_else(|| match named.into_iter().flatten().next().as_deref() {
                Some("fairway") => Some(Provider::Fairway),
                _ => None,
            });
        let fairway = chosen == Some(Provider::Fairway);
        if self.datapath.is_some_and(DatapathKind::is_over_rnic) {
            return Err(Failure::usage(
                "--datapath rdma is not for the verbs library, which would lie below itself: use \
                 auto, udp, shm or xdp",
            ));
        }
        let policy = self.policy.as_ref().is_some_and(|policy| {
            !policy.parse().is_ok_and(|policy: PolicySpec| ProviderKind::Roce.takes(&policy))
        });
        let misplaced = [
            (policy, "--policy with more than a scheduler", !fairway, "fairway"),
            (self.paths.is_some(), "--paths", !fairway, "fairway"),
            (self.datapath.is_some(), "--datapath", !fairway, "fairway"),
            (self.out_of_order, "--out-of-order", fairway, "roce"),
            (self.dcqcn, "--dcqcn", fairway, "roce"),
        ];
        match misplaced.iter().find(|(given, _, other, _)| *given && *other) {
            None => Ok(()),
            Some((_, option, _, provider)) => Err(Failure::usage(format!(
                "{option} is an option of the other provider: add --provider {provider}, or leave it out"
            ))),
        }
    }

    /// The options as environment variables of the library.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let provider = self.provider.map(|provider| match provider {
            Provider::Roce => "roce".to_owned(),
            Provider::Fairway => "fairway".to_owned(),
        });
        let on = |given: bool| given.then(|| "1".to_owned());
        [
            ("FAIRWAY_PROVIDER", provider),
            ("FAIRWAY_DEVICES", self.device.clone()),
            ("FAIRWAY_EMULATE", self.emulate.as_ref().map(ToString::to_string)),
            ("FAIRWAY_EMULATE_SEED", self.seed.map(|seed| seed.to_string())),
            ("FAIRWAY_SEGMENTATION", self.no_segmentation.then(|| "0".to_owned())),
            ("FAIRWAY_OUT_OF_ORDER", on(self.out_of_order)),
            ("FAIRWAY_DCQCN", on(self.dcqcn)),
            ("FAIRWAY_POLICY", self.policy.clone()),
            ("FAIRWAY_WEIGHTS", self.weights.clone()),
            ("FAIRWAY_DATAPATH", self.datapath.map(|datapath| datapath.to_string())),
            ("FAIRWAY_DSCP", self.dscp.map(|dscp| dscp.to_string())),
            ("FAIRWAY_PATHS", self.paths.map(|paths| paths.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// File name of the verbs library, as programs request it.
pub(crate) const LIBRARY: &str = "libibverbs.so.1";

/// Why there is no verbs library, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoLibrary {
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
}

impl From<NoLibrary> for Failure {
    fn from(NoLibrary { reason, remedy }: NoLibrary) -> Failure {
        Failure::failed(format!("{reason}: {remedy}"))
    }
}

/// Folder of the library: given by `FAIRWAY_VERBS_LIB`, installed beside this program, or built
/// beside it.
pub(crate) fn library() -> Result<PathBuf, NoLibrary> {
    if let Some(said) = std::env::var_os("FAIRWAY_VERBS_LIB") {
        let said = PathBuf::from(said);
        let folder =
            if said.is_dir() { said } else { said.parent().map_or(said.clone(), Path::to_owned) };
        if folder.join(LIBRARY).is_file() {
            return absolute(&folder);
        }
        return Err(NoLibrary {
            reason: format!("FAIRWAY_VERBS_LIB={}: there is no {LIBRARY}", folder.display()),
            remedy: "name the folder that has it, or unset it",
        });
    }
    let this =
        std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| NoLibrary {
            reason: format!("could not find this program's own path: {error}"),
            remedy: "name the library's folder in FAIRWAY_VERBS_LIB",
        })?;
    let beside = this.parent().unwrap_or(Path::new("/"));
    ["../lib/fairway", "fairway-verbs", "../release/fairway-verbs"]
        .into_iter()
        .map(|place| beside.join(place))
        .find(|folder| folder.join(LIBRARY).is_file())
        .map_or_else(
            || {
                Err(NoLibrary {
                    reason: format!("there is no {LIBRARY} near {}", this.display()),
                    remedy: "build it with `make verbs`, install it with `make install-verbs`, or \
                             name its folder in FAIRWAY_VERBS_LIB",
                })
            },
            |folder| absolute(&folder),
        )
}

fn absolute(folder: &Path) -> Result<PathBuf, NoLibrary> {
    let folder = folder.canonicalize().map_err(|error| NoLibrary {
        reason: format!("could not find {}: {error}", folder.display()),
        remedy: "name a folder that this user may open in FAIRWAY_VERBS_LIB",
    })?;
    // These characters separate entries of the loader's lists, and can't be quoted.
    if folder.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b';')) {
        return Err(NoLibrary {
            reason: format!(
                "{}: the loader takes no path with a space, colon or semicolon",
                folder.display()
            ),
            remedy: "install it elsewhere",
        });
    }
    Ok(folder)
}

/// The value of a loader's list variable with one more entry in front.
fn in_front(entry: &OsStr, variable: &str) -> OsString {
    let mut list = entry.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        list.push(":");
        list.push(rest);
    }
    list
}

/// Replaces this process by the program. Returns only if that fails.
pub(crate) fn run(options: &RunOptions) -> Result<(), Failure> {
    options.check()?;
    let folder = library()?;
    let (program, arguments) = options.program.split_first().ok_or_else(|| {
        Failure::usage("name the program to run, as in `fairway run -- ib_write_bw`")
    })?;
    let error = self::program(&folder, program).args(arguments).envs(options.environment()).exec();
    Err(Failure::io(format_args!("run {}", program.to_string_lossy()), &error))
}

/// A command that runs a program with the library of this folder in front of the system's.
pub(crate) fn program(folder: &Path, program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", in_front(folder.as_os_str(), "LD_LIBRARY_PATH"))
        .env("LD_PRELOAD", in_front(folder.join(LIBRARY).as_os_str(), "LD_PRELOAD"));
    command
}

/// Runs the command.
pub(crate) fn devices(options: &DevicesOptions) -> Result<(), Failure> {
    let filter = match (&options.device, std::env::var("FAIRWAY_DEVICES")) {
        (Some(filter), _) => filter.clone(),
        (None, Ok(text)) => text
            .parse()
            .map_err(|error| Failure::usage(format!("FAIRWAY_DEVICES={text}: {error}")))?,
        (None, Err(_)) => Filter::default(),
    };
    let found = devices::list(&filter)
        .map_err(|error| Failure::io("list the network interfaces", &error))?;
    if options.json {
        let list: Vec<Value> = found.iter().map(described).collect();
        return process::print(&format!("{}\n", Value::from(list)));
    }
    if found.is_empty() {
        return Err(Failure::failed(
            "no interface that is up and has an address is left: widen --device or FAIRWAY_DEVICES",
        ));
    }
    process::print(&found.iter().map(text).collect::<String>())
}

fn guid(device: &Device) -> String {
    let digits = format!("{:016x}", device.guid());
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..]].join(":")
}

fn described(device: &Device) -> Value {
    let gids: Vec<String> =
        device.addresses.iter().map(|address| Gid::from(*address).ip().to_string()).collect();
    json!({
        "name": device.name,
        "interface": device.interface,
        "node_guid": guid(device),
        "state": if device.running { "active" } else { "down" },
        "interface_mtu": device.interface_mtu,
        "active_mtu": device.mtu(),
        "speed_mbps": device.speed_mbps,
        "gids": gids,
    })
}

fn text(device: &Device) -> String {
    let state = if device.running { "active" } else { "down" };
    let speed = device
        .speed_mbps
        .map_or(String::new(), |speed| format!(", {} Gbit/s", f64::from(speed) / 1000.0));
    let mut text = format!(
        "{}  interface {}, {state}{speed}, MTU {} ({} on the interface), node GUID {}\n",
        device.name,
        device.interface,
        quantity::show_size(u64::from(device.mtu())),
        device.interface_mtu,
        guid(device),
    );
    for (index, address) in device.addresses.iter().enumerate() {
        text += &format!("  GID {index}  {address} (RoCE v2)\n");
    }
    text
}
