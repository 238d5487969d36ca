//! Copies a file by remote WRITE: the target's memory is the mapped file itself.
//!
//! The receiver maps a file of the final length and passes its key to the sender. The bytes that
//! the sender writes are in the file without a copy by the receiving program. Several WRITEs are in
//! flight at a time.
//!
//! `cargo run --package fairway --example file_copy -- SOURCE TARGET`. Without arguments, the
//! example generates a file in the folder for temporary files and copies that.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairway::{Context, Error, JettyOptions, Memory, Rights};

const TIMEOUT: Duration = Duration::from_secs(10);
const PIECE: u64 = 256 * 1024;
const IN_FLIGHT: usize = 8;

/// Copies the file that the command line names, or a generated one.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if let [source, target] = paths.as_slice() {
        return copy(source, target);
    }
    let folder = std::env::temp_dir().join(format!("fairway-file-copy-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (source, target) = (folder.join("source"), folder.join("target"));
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at % 251) as u8).collect();
    File::create(&source)?.write_all(&bytes)?;
    let copied = copy(&source, &target);
    let same = std::fs::read(&target).is_ok_and(|found| found == bytes);
    std::fs::remove_dir_all(&folder)?;
    copied?;
    assert!(same, "the copy has the bytes of its source");
    Ok(())
}

fn copy(source: &Path, target: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let source = File::open(source)?;
    let length = source.metadata()?.len();

    // The receiver maps a file of the final length.
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(target)?;
    file.set_len(length)?;
    let receiver = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let exposed = receiver.register(Memory::map_file(&file, true)?, Rights::WRITE)?;

    // The sender maps the source and posts WRITEs of one piece each.
    let sender = Context::builder().bind([127, 0, 0, 1].into()).build()?;
    let peer = sender.connect(receiver.local_addrs()[0], TIMEOUT)?;
    let local = sender.register(Memory::map_file(&source, false)?, Rights::NONE)?;
    let jetty = sender.create_jetty(JettyOptions::default())?;
    let mut in_flight = 0;
    for at in (0..length).step_by(PIECE as usize) {
        if in_flight == IN_FLIGHT {
            wait(&jetty)?;
            in_flight -= 1;
        }
        let piece = local.slice(at..(at + PIECE).min(length));
        jetty.write(&peer, piece, exposed.key().at(at), at)?;
        in_flight += 1;
    }
    for _ in 0..in_flight {
        wait(&jetty)?;
    }
    sender.shutdown(TIMEOUT)?;
    file.sync_all()?;
    println!("{length} bytes are in {}", target.display());
    Ok(())
}

/// Waits for one WRITE, and fails if it has failed.
fn wait(jetty: &fairway::Jetty) -> Result<(), Error> {
    Ok(jetty.wait(TIMEOUT)?.result().map(drop)?)
}
