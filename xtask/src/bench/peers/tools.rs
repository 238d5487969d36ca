//! The programs of others, found in PATH or given by options; and why a measurement can't be taken.

use std::io;
use std::path::{Path, PathBuf};

use super::Choice;
use super::interface::Interfaces;
use super::subject::{Carrier, Library, Over, Quantity, Subject};
use crate::bench::place::{LOOPBACK, Place};
use crate::clients::osu;
use crate::verbs::launch;

/// A program, or the reason why it is not there.
type Found = Result<PathBuf, String>;

/// Programs that may be installed.
pub struct Tools {
    perftest: Found,
    pub iperf3: Found,
    pub ucx: Found,
    pub libfabric: Result<Libfabric, String>,
    pub osu: Result<Osu, String>,
}

/// libfabric's benchmarks.
#[derive(Clone, Debug)]
pub enum Libfabric {
    /// `fi_pingpong`, for latency and for bandwidth.
    Pingpong(PathBuf),
    /// `fi_rdm_pingpong` and `fi_rma_bw` of fabtests.
    Fabtests { latency: PathBuf, bandwidth: PathBuf },
}

/// The OSU micro-benchmarks.
#[derive(Clone, Debug)]
pub struct Osu {
    pub latency: OsuProgram,
    pub bandwidth: OsuProgram,
    pub mpirun: PathBuf,
}

/// A program of the OSU micro-benchmarks.
#[derive(Clone, Debug)]
pub struct OsuProgram {
    pub path: PathBuf,
    /// Whether it has an option for the size of messages. Otherwise it measures all sizes.
    pub sized: bool,
}

impl Tools {
    /// Searches for the programs.
    ///
    /// # Errors
    /// A path that was given is wrong, because then the user expects the measurement.
    pub fn find(choice: &Choice) -> io::Result<Tools> {
        Ok(Tools {
            perftest: in_path("ib_write_bw", "perftest"),
            iperf3: given_or(choice.iperf3.as_deref(), "iperf3", "iperf3")?,
            ucx: given_or(choice.ucx.as_deref(), "ucx_perftest", "ucx-utils")?,
            libfabric: match &choice.fabtests {
                Some(folder) => Ok(fabtests(folder)?),
                None => in_path("fi_pingpong", "libfabric-bin").map(Libfabric::Pingpong),
            },
            osu: match &choice.osu {
                Some(folder) => osu_programs(folder)?,
                None => Err("--osu DIR is not given".to_owned()),
            },
        })
    }

    /// Why a measurement can't be taken in this place; `None` if it can. The first text names the
    /// measurements for which the same reason holds.
    pub fn absent(
        &self,
        subject: Subject,
        place: &Place,
        interfaces: &Interfaces,
    ) -> Option<(String, String)> {
        let lacking = |what: &str, reason: Option<&String>| {
            reason.map(|reason| (what.to_owned(), reason.clone()))
        };
        match subject {
            Subject::Perftest(..) => lacking("perftest", self.perftest.as_ref().err()),
            Subject::Iperf3 => lacking("iperf3", self.iperf3.as_ref().err()),
            Subject::Library(Library::Ucx, ..) => lacking("UCX", self.ucx.as_ref().err()),
            Subject::Library(Library::Libfabric, _, over) => {
                let nowhere = match over {
                    Over::Verbs(_) => interfaces.libfabric.as_ref().err(),
                    _ => None,
                };
                lacking("libfabric", self.libfabric.as_ref().err())
                    .or(lacking("libfabric over our verbs", nowhere))
            }
            Subject::Library(Library::Osu, ..) if place.name != LOOPBACK => {
                let reason = "all ranks have to reach one mpirun, which runs in one namespace";
                Some(("OSU over Open MPI".to_owned(), reason.to_owned()))
            }
            Subject::Library(Library::Osu, ..) => {
                lacking("OSU over Open MPI", self.osu.as_ref().err())
            }
            _ => None,
        }
    }

    /// Whether a measurement is a ping-pong, although its name is that of a rate.
    pub fn is_ping_pong(&self, subject: Subject) -> bool {
        let pingpong = matches!(self.libfabric, Ok(Libfabric::Pingpong(_)));
        pingpong
            && matches!(subject, Subject::Library(Library::Libfabric, Quantity::Bandwidth(_), _))
    }
}

fn in_path(program: &str, package: &str) -> Found {
    launch::find(program)
        .ok_or_else(|| format!("{program} is not in PATH; on Debian, apt install {package}"))
}

fn given_or(given: Option<&Path>, program: &str, package: &str) -> io::Result<Found> {
    match given {
        Some(path) => existing(path).map(Ok),
        None => Ok(in_path(program, package)),
    }
}

/// The absolute path of a file, because programs run in another working directory.
fn existing(path: &Path) -> io::Result<PathBuf> {
    let wrong = || io::Error::other(format!("{}: there is no such program", path.display()));
    path.canonicalize().ok().filter(|path| path.is_file()).ok_or_else(wrong)
}

fn fabtests(folder: &Path) -> io::Result<Libfabric> {
    let program = |name: &str| {
        existing(&folder.join(name)).or_else(|_| existing(&folder.join("bin").join(name)))
    };
    Ok(Libfabric::Fabtests {
        latency: program("fi_rdm_pingpong")?,
        bandwidth: program("fi_rma_bw")?,
    })
}

fn osu_programs(folder: &Path) -> io::Result<Result<Osu, String>> {
    let mut programs = Vec::new();
    osu::find(&folder.canonicalize()?, 5, &mut programs)?;
    let program = |name: &str| -> io::Result<OsuProgram> {
        let path = programs.iter().find(|path| path.ends_with(name)).ok_or_else(|| {
            io::Error::other(format!("{}: there is no {name} in it", folder.display()))
        })?;
        Ok(OsuProgram { path: path.clone(), sized: osu::knows(&osu::help(path)?, "-m") })
    };
    let Some(mpirun) = launch::find("mpirun") else {
        return Ok(Err("mpirun is not in PATH; on Debian, apt install openmpi-bin".to_owned()));
    };
    Ok(Ok(Osu { latency: program("osu_latency")?, bandwidth: program("osu_bw")?, mpirun }))
}

/// Options of `fairway run` that choose this carrier.
pub fn carrier_options(carrier: Carrier) -> &'static [&'static str] {
    match carrier {
        Carrier::Fairway => &["--provider", "fairway", "--datapath", "udp"],
        Carrier::SharedMemory => &["--provider", "fairway", "--datapath", "shm"],
        Carrier::Frames => &["--provider", "fairway", "--datapath", "xdp"],
        Carrier::Roce => &["--provider", "roce"],
    }
}
