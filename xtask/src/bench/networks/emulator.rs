//! The network of a cell: `fairway emulate --topology` and the namespaces that it creates.

use std::io;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::cells::Cell;
use super::running::Running;
use crate::programs::{Scratch, command, fairway};

/// Longest wait for the emulator; to create or remove four hosts takes less than a second.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Buffer sizes of a TCP socket for each direction, larger than any bandwidth-delay product of the
/// matrix.
const TCP_MEMORY: &str = "4096 131072 67108864";
/// Number of links that a packet crosses in both directions.
const LINKS: u32 = 8;

/// A running network, which is removed on drop.
pub struct Emulator {
    running: Option<Running>,
    prefix: String,
    _scratch: Scratch,
}

impl Emulator {
    /// Number of hosts of each network.
    pub const HOSTS: usize = 4;

    /// Starts the network of a cell, whose hosts send packets of at most `mtu` bytes.
    ///
    /// # Errors
    /// The emulator did not start: it requires root, `ip` and TUN.
    pub fn start(cell: Cell, mtu: u32, speedup: u32) -> io::Result<Self> {
        Emulator::of_topology(&topology(cell, mtu, speedup), mtu)
    }

    /// Starts the network of a topology file with this text, which has [`Emulator::HOSTS`] hosts.
    ///
    /// # Errors
    /// As [`Emulator::start`].
    pub fn of_topology(text: &str, mtu: u32) -> io::Result<Self> {
        let scratch = Scratch::new("networks")?;
        let file = scratch.0.join("network.txt");
        std::fs::write(&file, text)?;
        let prefix = format!("fwb{}", std::process::id());
        let mut emulate = Command::new(fairway()?);
        emulate.args(["emulate", "--json", "--prefix", &prefix, "--topology"]).arg(&file);
        // SAFETY: all three calls are system calls that allocate nothing and take plain values.
        unsafe {
            emulate.pre_exec(|| {
                // The emulator announces its hosts at its standard error.
                libc::dup2(libc::STDOUT_FILENO, libc::STDERR_FILENO);
                // Ends the emulator with this program, because it must not run on alone.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                // The emulator gets real-time priority, because a real network would not wait for a
                // free core. Where that is not permitted, it runs at normal priority, and the
                // figures are less reliable.
                let priority = libc::sched_param { sched_priority: 1 };
                let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
                libc::sched_setscheduler(0, policy, &raw const priority);
                Ok(())
            });
        }
        let running = Running::start(&mut emulate, "fairway emulate")?;
        let emulator = Emulator { running: Some(running), prefix, _scratch: scratch };
        emulator.await_hosts()?;
        for host in 0..Emulator::HOSTS {
            emulator.prepare(host, mtu)?;
        }
        Ok(emulator)
    }

    /// Waits until the emulator has printed a line for each host, whose namespaces then exist.
    fn await_hosts(&self) -> io::Result<()> {
        let mut last = String::new();
        for _ in 0..=Emulator::HOSTS {
            let line = self.running.as_ref().map_or(Ok(None), |running| running.line(TIMEOUT))?;
            last = line.ok_or_else(|| {
                io::Error::other(format!(
                    "fairway emulate ended before the network was made: {last}"
                ))
            })?;
        }
        Ok(())
    }

    fn prepare(&self, host: usize, mtu: u32) -> io::Result<()> {
        let name = self.namespace(host);
        run(Command::new("ip").args([
            "-n",
            &name,
            "link",
            "set",
            "fairway0",
            "mtu",
            &mtu.to_string(),
        ]))?;
        for setting in ["rmem", "wmem"] {
            let setting = format!("net.ipv4.tcp_{setting}={TCP_MEMORY}");
            run(command("sysctl".as_ref(), Some(&name)).args(["-q", "-w", &setting]))?;
        }
        Ok(())
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// The address of a host.
    pub fn address(host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 83, 0, host as u8 + 1)
    }

    /// Removes the network, and returns its counters.
    ///
    /// # Errors
    /// The emulator failed, or did not end.
    pub fn stop(&mut self) -> io::Result<Value> {
        let Some(running) = self.running.take() else { return Ok(Value::Null) };
        terminate(&running);
        let line = running.last_line(TIMEOUT)?;
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        terminate(&running);
        // The emulator must remove its namespaces, even after an interrupt.
        let _ = running.wait();
    }
}

fn terminate(running: &Running) {
    let id = running.id().try_into().unwrap_or(0);
    if id > 0 {
        // SAFETY: a number and a signal; the process is our child and was not waited for yet.
        unsafe { libc::kill(id, libc::SIGTERM) };
    }
}

/// Two leaves with two hosts each, and two spines; the link from leaf 5 to host 3 is the slowest.
fn topology(cell: Cell, mtu: u32, speedup: u32) -> String {
    let Cell { megabits, round_trip_us, loss, .. } = cell;
    let rate = u64::from(megabits) * u64::from(speedup);
    let latency_ns = round_trip_us * 1000 / LINKS;
    // On the wire a packet takes 38 bytes more.
    let queue = cell.queue_bytes(mtu + 38);
    // Each packet crosses one link from a host.
    let loss = f64::from(loss) / 1e6;
    let hosts = Emulator::HOSTS;
    format!(
        "topology leaf-spine\nnodes {hosts}\nhosts-per-leaf 2\nlink {rate}M\nlatency {latency_ns}ns\n\
         queue {queue}\necn off\nloss {loss:.6}\ndegrade 3-5@0us:{megabits}M\n"
    )
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", text.trim())))
}
