//! Which rank this process is, and how it finds the others.

use super::CollectiveOptions;
use crate::failure::Failure;
use crate::input;
use crate::process::Helper;
use fairway_communicator::TcpRendezvous;
use std::env;
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Port of the rendezvous if none is given; that of torchrun.
const PORT: u16 = 29500;

/// Variables that launchers set: of the rank, of the number of ranks, and of their number on this
/// host.
const LAUNCHERS: [[&str; 3]; 4] = [
    ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"],
    ["SLURM_PROCID", "SLURM_NTASKS", ""],
];

/// The place of this process in its group.
pub(super) struct Place {
    pub(super) rank: u32,
    pub(super) ranks: u32,
    rendezvous: String,
}

impl Place {
    pub(super) fn rendezvous(&self) -> TcpRendezvous {
        TcpRendezvous::new(&self.rendezvous, "fairway collective", self.rank, self.ranks)
    }
}

/// Finds the place of this process, and starts the other ranks if that is its task.
pub(super) fn find(options: &CollectiveOptions) -> Result<(Place, Vec<Helper>), Failure> {
    if let Some(file) = &options.hostfile {
        return start_on_hosts(options, file);
    }
    if let (Some(rank), Some(ranks)) = (options.rank, options.ranks) {
        if rank >= ranks {
            return Err(Failure::usage(format!(
                "--rank {rank} of --ranks {ranks}: ranks count from 0"
            )));
        }
        let rendezvous = options.rendezvous.clone().or_else(from_environment);
        let rendezvous = rendezvous.ok_or_else(|| {
            Failure::usage("--rank needs --rendezvous: the host of rank 0, and a free port there")
        })?;
        return Ok((Place { rank, ranks, rendezvous }, Vec::new()));
    }
    let ranks = match (options.ranks, launched()?) {
        (Some(ranks), _) => ranks,
        (None, Some((rank, ranks, is_local))) => {
            let given = options.rendezvous.clone().or_else(from_environment);
            let here = is_local.then(|| format!("127.0.0.1:{PORT}"));
            let rendezvous = given.or(here).ok_or_else(|| {
                Failure::usage(
                    "the ranks are on several hosts: pass --rendezvous HOST:PORT, or set \
                     MASTER_ADDR to the host of rank 0",
                )
            })?;
            return Ok((Place { rank, ranks, rendezvous }, Vec::new()));
        }
        (None, None) => 2,
    };
    start_here(options, ranks)
}

/// The rank, the number of ranks, and whether all are on this host, as a launcher says.
fn launched() -> Result<Option<(u32, u32, bool)>, Failure> {
    for [rank, ranks, local] in LAUNCHERS {
        let (Ok(rank_text), Ok(ranks_text)) = (env::var(rank), env::var(ranks)) else { continue };
        let (Ok(number), Ok(count)) = (rank_text.parse::<u32>(), ranks_text.parse::<u32>()) else {
            return Err(Failure::usage(format!(
                "{rank}={rank_text} and {ranks}={ranks_text} in the environment are no numbers"
            )));
        };
        if number >= count {
            return Err(Failure::usage(format!(
                "{rank}={number} and {ranks}={count} in the environment: ranks count from 0"
            )));
        }
        let is_local = env::var(local).is_ok_and(|text| text == ranks_text);
        return Ok(Some((number, count, is_local)));
    }
    Ok(None)
}

/// The rendezvous that torchrun and similar launchers name.
fn from_environment() -> Option<String> {
    let host = env::var("MASTER_ADDR").ok()?;
    let port = env::var("MASTER_PORT").unwrap_or_else(|_| PORT.to_string());
    Some(with_port(&host, port))
}

/// Starts the other ranks as processes of this program.
fn start_here(options: &CollectiveOptions, ranks: u32) -> Result<(Place, Vec<Helper>), Failure> {
    let rendezvous = match &options.rendezvous {
        Some(address) => address.clone(),
        None => {
            let listener = TcpListener::bind("127.0.0.1:0");
            let address = listener.and_then(|listener| listener.local_addr());
            address.map_err(|error| Failure::io("find a free port", &error))?.to_string()
        }
    };
    let program = env::current_exe();
    let program = program.map_err(|error| Failure::io("find the path of this program", &error))?;
    let mut helpers = Vec::new();
    for rank in 1..ranks {
        let mut command = Command::new(&program);
        command.args(env::args_os().skip(1));
        command.args(["--rank", &rank.to_string(), "--rendezvous", &rendezvous]);
        command.args(["--parent", &std::process::id().to_string()]);
        if options.ranks.is_none() {
            command.args(["--ranks", &ranks.to_string()]);
        }
        helpers.push(Helper::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?);
    }
    Ok((Place { rank: 0, ranks, rendezvous }, helpers))
}

/// Starts the other ranks on hosts. Rank 0 is this process, which stands for the first slot of the
/// file: run it on the first host.
fn start_on_hosts(
    options: &CollectiveOptions,
    file: &std::path::Path,
) -> Result<(Place, Vec<Helper>), Failure> {
    let text = input::read_text(file);
    let text = text.map_err(|error| Failure::io(format!("read {}", file.display()), &error))?;
    let hosts = parse_hosts(&text).map_err(|error| Failure::file(file.display(), error))?;
    let ranks = hosts.len() as u32;
    let first = hosts.first().expect("a host file has a host");
    let rendezvous = options.rendezvous.clone().unwrap_or_else(|| rendezvous_at(first));
    let mut helpers = Vec::new();
    for (rank, host) in hosts.iter().enumerate().skip(1) {
        let mut launch = options.launch.split_whitespace();
        let mut command = Command::new(launch.next().unwrap_or("ssh"));
        command.args(launch).arg(host).arg("fairway");
        // ssh joins the arguments by spaces, and a shell at the host parses them.
        command.args(without_hosts(env::args().skip(1)).iter().map(|text| quoted(text)));
        command.args(["--rank", &rank.to_string(), "--ranks", &ranks.to_string()]);
        command.args(["--rendezvous", &quoted(&rendezvous)]);
        helpers.push(Helper::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?);
    }
    Ok((Place { rank: 0, ranks, rendezvous }, helpers))
}

/// Fails if one of the ranks that this process has started has ended. Rank 1 is the first.
pub(super) fn check_started(helpers: &mut [Helper]) -> Result<(), Failure> {
    for (rank, helper) in (1..).zip(helpers) {
        if let Ok(Some(status)) = helper.0.try_wait() {
            return Err(Failure::failed(format!(
                "rank {rank} has ended before the ranks were connected ({status}): \
                 its own message says why"
            )));
        }
    }
    Ok(())
}

/// The arguments without those that name hosts.
fn without_hosts(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--hostfile" | "--launch" | "--rendezvous" => drop(arguments.next()),
            other
                if ["--hostfile=", "--launch=", "--rendezvous="]
                    .iter()
                    .any(|prefix| other.starts_with(prefix)) => {}
            _ => kept.push(argument),
        }
    }
    kept
}

/// The rendezvous at a host of the file, which may be written with the name of a user.
fn rendezvous_at(host: &str) -> String {
    with_port(host.rsplit('@').next().unwrap_or(host), PORT)
}

fn with_port(host: &str, port: impl std::fmt::Display) -> String {
    let is_bare = host.contains(':') && !host.starts_with('[');
    if is_bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// An argument in the form in which a POSIX shell takes it for one word, unchanged.
fn quoted(argument: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(plain) {
        return argument.to_string();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

/// Whether the text can be a host's name or address, or `user@host`, and no option of the program
/// that starts a rank there.
fn is_host(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte);
    let is_name =
        |part: &str| !part.is_empty() && !part.starts_with('-') && part.bytes().all(allowed);
    match text.split_once('@') {
        Some((user, host)) => is_name(user) && is_name(host),
        None => is_name(text),
    }
}

/// The host of each rank.
fn parse_hosts(text: &str) -> Result<Vec<String>, Failure> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(host) = words.next() else { continue };
        if !is_host(host) {
            return Err(Failure::usage(format!(
                "line {number}: '{host}' is no host: write a name, an address or user@host, of \
                 letters, digits and . - _ : [ ] %, that does not begin with -"
            )));
        }
        let slots = words.next().map(|word| word.strip_prefix("slots=").map(str::parse));
        let slots = match (slots, words.next()) {
            (None, _) => Ok(1),
            (Some(Some(Ok(slots))), None) if (1..=1024).contains(&slots) => Ok(slots),
            (Some(_), _) => Err(Failure::usage(format!(
                "line {number}: {line:?} is no host: write a name, and slots=N for several ranks"
            ))),
        }?;
        hosts.extend(std::iter::repeat_n(host.to_string(), slots));
    }
    match hosts.is_empty() {
        true => Err(Failure::usage("the file names no host: write one for each line")),
        false => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_files_name_a_host_for_each_rank() {
        let hosts = parse_hosts("# both\nhost1 slots=2\n\nhost2 # one\n").expect("it is right");
        assert_eq!(hosts, ["host1", "host1", "host2"]);
        for wrong in
            ["", "# none", "host1 slots=0", "host1 slots=x", "host1 2", "host1 slots=1 slots=2"]
        {
            assert!(parse_hosts(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn hosts_that_could_be_options_or_commands_are_refused() {
        let hosts = "host-1\nme@10.0.0.1\n_x.example.org\nfe80::1%eth0\n[::1]\n";
        assert_eq!(parse_hosts(hosts).expect("they are right").len(), 5);
        for wrong in
            ["-oProxyCommand=x", "me@-x", "-x@host", "a;b", "$(x)", "a`b`", "a@b@c", "@a", "a@"]
        {
            let error = parse_hosts(&format!("host1\n{wrong} slots=2\n")).expect_err(wrong);
            let text = error.to_string();
            assert!(text.contains(&format!("line 2: '{wrong}' is no host")), "{text}");
        }
    }

    #[test]
    fn arguments_pass_a_shell_unchanged() {
        for (text, shell) in [
            ("--sizes=1K..64M", "--sizes=1K..64M"),
            ("loss=1%;delay=1ms", "'loss=1%;delay=1ms'"),
            ("it's", r"'it'\''s'"),
            ("$(touch x)", "'$(touch x)'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), shell);
            let echo = Command::new("sh").args(["-c", &format!("printf %s {shell}")]).output();
            assert_eq!(echo.expect("a shell").stdout, text.as_bytes());
        }
    }

    #[test]
    fn rendezvous_is_at_the_host_of_the_first_rank() {
        for (host, address) in [
            ("host1", "host1:29500"),
            ("me@10.0.0.1", "10.0.0.1:29500"),
            ("fe80::1", "[fe80::1]:29500"),
            ("[fe80::1]", "[fe80::1]:29500"),
        ] {
            assert_eq!(rendezvous_at(host), address);
        }
    }

    #[test]
    fn ranks_on_other_hosts_get_all_arguments_but_the_hosts() {
        let arguments =
            ["collective", "--hostfile", "f", "all-reduce", "--launch=ssh -q", "--json"];
        let kept = without_hosts(arguments.into_iter().map(str::to_string));
        assert_eq!(kept, ["collective", "all-reduce", "--json"]);
    }
}
