//! The folder with a copy of the files by which a kernel would present the devices.

use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use fairway_rdma::Gid;

use crate::device::{self, DeviceHandle};
use crate::device_state::DeviceState;
use crate::query;

/// The folder of this process.
pub(super) struct Tree {
    root: PathBuf,
    devices: Vec<&'static DeviceHandle>,
}

/// Files and folders of this process's tree, in the order in which they can be removed.
struct Contents {
    /// Id of the process that wrote the tree, because a child of `fork` must not remove it.
    owner: u32,
    /// Path of each entry, and whether it is a folder.
    entries: Vec<(CString, bool)>,
}

static CONTENTS: OnceLock<Contents> = OnceLock::new();

/// Returns the tree, and writes it on first use. `None` if it can't be written.
pub(super) fn tree() -> Option<&'static Tree> {
    static TREE: OnceLock<Option<Tree>> = OnceLock::new();
    TREE.get_or_init(|| {
        let devices = device::devices().ok()?;
        write(devices)
            .inspect_err(|error| eprintln!("fairway: can't show the devices as files: {error}"))
            .ok()
    })
    .as_ref()
}

impl Tree {
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Writes the current values of the counters.
    pub(super) fn refresh(&self) {
        for device in &self.devices {
            // If the disk is full, readers find the old numbers.
            let _ = write_counters(&port(&self.root, device), device);
        }
    }
}

fn name() -> String {
    // Process ids are unique only within their namespace.
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let space: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    // SAFETY: no pointers.
    let user = unsafe { libc::getuid() };
    format!("fairway-verbs-{user}-{space}-")
}

/// Removes the trees of processes that were killed.
fn sweep(parent: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(prefix));
        // The name ends with the process id, and a random number if the name without one was taken.
        let process = process.and_then(|rest| rest.split('.').next());
        let process = process.and_then(|number| number.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another user may have made a folder of that name; it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Removes the tree. A signal handler may call `exit`, so this function takes no lock and allocates
/// no memory: the thread that runs it may have been interrupted while it held the allocator's lock.
extern "C" fn remove() {
    // SAFETY: no pointers.
    let process = unsafe { libc::getpid() } as u32;
    let Some(contents) = CONTENTS.get().filter(|contents| contents.owner == process) else {
        return;
    };
    for (path, is_folder) in &contents.entries {
        // SAFETY: a path that ends with a zero byte and is never freed. A failure is not
        // reported, because the process ends; the next one tries again.
        unsafe {
            if *is_folder { libc::rmdir(path.as_ptr()) } else { libc::unlink(path.as_ptr()) }
        };
    }
}

/// Creates a folder with this name, or with a random suffix if the name is taken.
fn make_root(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let make = |root: PathBuf| fs::DirBuilder::new().mode(0o700).create(&root).map(|()| root);
    let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    let root = parent.join(name);
    match make(root.clone()) {
        // The folder belongs to an earlier program of this process id, for example to this process
        // before `exec`.
        Err(error) if is_taken(&error) && fs::remove_dir_all(&root).is_ok() => make(root),
        // Any user may create such a folder or link and so block the name for this process.
        Err(error) if is_taken(&error) => {
            let random = RandomState::new().build_hasher().finish();
            make(parent.join(format!("{name}.{random:016x}")))
        }
        other => other,
    }
}

/// Adds the contents of a folder, and then the folder itself.
fn collect(folder: &Path, entries: &mut Vec<(CString, bool)>) -> io::Result<()> {
    let named = |path: PathBuf| CString::new(path.into_os_string().into_encoded_bytes());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => collect(&entry.path(), entries)?,
            false => entries.push((named(entry.path())?, false)),
        }
    }
    entries.push((named(folder.to_path_buf())?, true));
    Ok(())
}

fn write(devices: Vec<&'static DeviceHandle>) -> io::Result<Tree> {
    let (parent, prefix) = (std::env::temp_dir(), name());
    let process = std::process::id();
    // Entries that can't be removed belong to another user.
    let _ = sweep(&parent, &prefix);
    let root = make_root(&parent, &format!("{prefix}{process}"))?;
    for folder in ["sys/class/infiniband", "sys/class/infiniband_verbs", "dev/infiniband"] {
        fs::create_dir_all(root.join(folder))?;
    }
    file(&root.join("sys/class/infiniband_verbs/abi_version"), "6")?;
    for device in &devices {
        write_device(&root, device)?;
    }
    let mut entries = Vec::new();
    collect(&root, &mut entries)?;
    if CONTENTS.set(Contents { owner: process, entries }).is_ok() {
        // SAFETY: the function lives as long as the library, which is never unloaded before exit.
        unsafe { libc::atexit(remove) };
    }
    Ok(Tree { root, devices })
}

fn file(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, format!("{text}\n"))
}

fn port(root: &Path, device: &DeviceHandle) -> PathBuf {
    root.join("sys/class/infiniband").join(&device.device.name).join("ports/1")
}

/// Formats bytes as groups of four hexadecimal digits, separated by colons.
fn groups(bytes: &[u8]) -> String {
    let group = |pair: &[u8]| format!("{:02x}{:02x}", pair[0], pair[1]);
    bytes.chunks_exact(2).map(group).collect::<Vec<_>>().join(":")
}

fn write_device(root: &Path, device: &DeviceHandle) -> io::Result<()> {
    let (number, known) = (device.index, &device.device);
    let folder = root.join("sys/class/infiniband").join(&known.name);
    let port = port(root, device);
    for part in ["device/net", "ports/1/gids", "ports/1/pkeys", "ports/1/counters"] {
        fs::create_dir_all(folder.join(part))?;
    }
    for part in ["ports/1/hw_counters", "ports/1/gid_attrs/types", "ports/1/gid_attrs/ndevs"] {
        fs::create_dir_all(folder.join(part))?;
    }
    let guid = groups(&known.guid().to_be_bytes());
    for (name, text) in [
        ("node_type", "1: CA"),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_desc", &format!("Fairway on {}", known.interface)),
        ("fw_ver", env!("CARGO_PKG_VERSION")),
        ("hca_type", "Fairway"),
        ("board_id", "Fairway"),
        ("hw_rev", "0"),
    ] {
        file(&folder.join(name), text)?;
    }
    for (name, text) in [
        ("vendor", "0x0000"),
        ("device", "0x0000"),
        ("subsystem_vendor", "0x0000"),
        ("subsystem_device", "0x0000"),
        ("class", "0x020700"),
        ("numa_node", "-1"),
        ("local_cpus", "ffffffff"),
        ("local_cpulist", "0-31"),
    ] {
        file(&folder.join("device").join(name), text)?;
    }
    // Only a link is created; the interface itself stays in the kernel's sysfs.
    symlink(
        Path::new("/sys/class/net").join(&known.interface),
        folder.join("device/net").join(&known.interface),
    )?;
    write_port(&port, device)?;
    let verbs = root.join(format!("sys/class/infiniband_verbs/uverbs{number}"));
    fs::create_dir_all(&verbs)?;
    file(&verbs.join("ibdev"), &known.name)?;
    file(&verbs.join("abi_version"), "1")?;
    file(&verbs.join("dev"), &format!("231:{}", 192 + number))?;
    symlink(folder.join("device"), verbs.join("device"))?;
    file(&root.join(format!("dev/infiniband/uverbs{number}")), "")
}

fn write_port(port: &Path, device: &DeviceHandle) -> io::Result<()> {
    let known = &device.device;
    let (state, physical) =
        if known.running { ("4: ACTIVE", "5: LinkUp") } else { ("1: DOWN", "3: Disabled") };
    let gigabits = known.port_mbps() / 1000;
    for (name, text) in [
        ("state", state),
        ("phys_state", physical),
        ("link_layer", "Ethernet"),
        ("rate", &format!("{gigabits} Gb/sec (1X)")),
        ("lid", "0x0"),
        ("lid_mask_count", "0"),
        ("sm_lid", "0x0"),
        ("sm_sl", "0"),
        ("cap_mask", "0x04010000"),
        ("pkeys/0", "0xffff"),
    ] {
        file(&port.join(name), text)?;
    }
    for (index, Gid(bytes)) in query::gids(device).enumerate() {
        file(&port.join(format!("gids/{index}")), &groups(&bytes))?;
        file(&port.join(format!("gid_attrs/types/{index}")), "RoCE v2")?;
        file(&port.join(format!("gid_attrs/ndevs/{index}")), &known.interface)?;
    }
    write_counters(port, device)
}

/// Writes the counters of the port, and those that soft-RoCE names. They count this process only.
fn write_counters(port: &Path, device: &DeviceHandle) -> io::Result<()> {
    let device_state = DeviceState::of(&device.device);
    let counted =
        device_state.open_provider().map(|provider| provider.counters()).unwrap_or_default();
    for (name, count) in [
        ("counters/port_xmit_packets", counted.sent_packets),
        ("counters/port_rcv_packets", counted.received_packets),
        ("hw_counters/sent_pkts", counted.sent_packets),
        ("hw_counters/rcvd_pkts", counted.received_packets),
        ("hw_counters/duplicate_request", counted.duplicate_requests),
        ("hw_counters/out_of_seq_request", counted.out_of_sequence),
        ("hw_counters/rcvd_rnr_err", counted.rnr_naks_received),
        ("hw_counters/send_rnr_err", counted.rnr_naks_sent),
        ("hw_counters/rcvd_seq_err", counted.sequence_naks_received),
        ("hw_counters/completer_retry_err", counted.timeouts),
    ] {
        file(&port.join(name), &count.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise another user could create the folder of a process first, and its devices would
    /// have no files.
    #[test]
    fn folder_that_is_taken_by_another_user_is_replaced_by_one_of_another_name() {
        let parent = std::env::temp_dir().join(format!("fairway-squat-{}", std::process::id()));
        fs::create_dir_all(&parent).expect("a folder");
        let root = make_root(&parent, "tree").expect("it is free");
        assert_eq!(root, parent.join("tree"));
        fs::write(root.join("old"), "").expect("a file");
        assert_eq!(make_root(&parent, "tree").expect("it is ours"), root);
        assert!(!root.join("old").exists());
        // A link is not followed, and an entry that can't be removed as a folder stays, such as
        // another user's folder in `/tmp`.
        fs::remove_dir(&root).expect("it is empty");
        let elsewhere = parent.join("elsewhere");
        fs::create_dir(&elsewhere).expect("a folder");
        fs::write(&root, "no folder").expect("a file");
        let other = make_root(&parent, "tree").expect("another name");
        assert!(other.is_dir() && other.to_string_lossy().starts_with(&*root.to_string_lossy()));
        assert_ne!(other, make_root(&parent, "tree").expect("another name"));
        fs::remove_file(&root).expect("it is left");
        symlink(&elsewhere, &root).expect("a link");
        make_root(&parent, "tree").expect("the same or another name");
        assert!(elsewhere.is_dir());
        fs::remove_dir_all(&parent).expect("it is ours");
    }
}
