//! The exported symbols and their versions.

mod common;

use common::{has, library, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn table(file: &Path) -> String {
    let result = Command::new("readelf").args(["--dyn-syms", "-W"]).arg(file).output();
    String::from_utf8(result.expect("readelf runs").stdout).expect("text")
}

/// Names that a file exports, with their versions; the version is empty for names without one.
fn exported(file: &Path) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in table(file).lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, kind, _, _, section, name, ..] = fields[..] else { continue };
        if section == "UND" || !matches!(kind, "FUNC" | "OBJECT") {
            continue;
        }
        let (name, version) = name.split_once("@@").unwrap_or((name, ""));
        if section != "ABS" {
            names.insert(name.to_owned(), version.to_owned());
        }
    }
    names
}

/// `name@VERSION` of every symbol that a file imports from libibverbs.
fn imported(file: &Path) -> BTreeSet<(String, String)> {
    let table = table(file);
    let wanted = table.lines().filter(|line| line.contains(" UND ")).filter_map(|line| {
        let name = line.split_whitespace().nth(7)?;
        let (name, version) = name.split_once('@')?;
        version.starts_with("IBVERBS_").then(|| (name.to_owned(), version.to_owned()))
    });
    wanted.collect()
}

#[test]
fn every_name_has_its_version() {
    if !has("readelf") {
        return;
    }
    let names = exported(&library().join("libibverbs.so.1"));
    for (name, version) in [
        ("ibv_get_device_list", "IBVERBS_1.1"),
        ("ibv_create_comp_channel", "IBVERBS_1.0"),
        ("ibv_get_pkey_index", "IBVERBS_1.5"),
        ("ibv_qp_to_qp_ex", "IBVERBS_1.6"),
        ("ibv_reg_mr_iova", "IBVERBS_1.7"),
        ("ibv_reg_mr_iova2", "IBVERBS_1.8"),
        ("_ibv_query_gid_ex", "IBVERBS_1.11"),
        ("ibv_query_qp_data_in_order", "IBVERBS_1.14"),
        ("ibv_query_port_speed", "IBVERBS_1.16"),
        ("ibv_query_gid_type", "IBVERBS_PRIVATE_34"),
        ("verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_34"),
        // This name comes before the C library's, whatever version a program requires.
        ("open", ""),
        ("__xstat", ""),
    ] {
        assert_eq!(names.get(name).map(String::as_str), Some(version), "{name}");
    }
}

#[test]
fn no_other_symbols_are_exported() {
    if !has("readelf") {
        return;
    }
    let preloaded = include_str!("../src/sysfs/preload.rs");
    for (name, version) in exported(&library().join("libibverbs.so.1")) {
        let known = if version.is_empty() {
            preloaded.contains(&format!("\n    {name} ["))
        } else {
            let ours = ["ibv_", "_ibv_", "mult_to_ibv_", "mbps_to_ibv_", "verbs_", "_verbs_"];
            let private = ["__verbs_log", "__ioctl_final_num_attrs", "execute_ioctl"];
            ours.iter().any(|prefix| name.starts_with(prefix))
                || private.contains(&name.as_str())
                || version.starts_with("RDMACM_")
        };
        assert!(known, "{name} {version} is exported");
    }
}

/// The RDMA libraries and programs that this machine has.
fn installed() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"]
        .map(Path::new)
        .into_iter()
        .flat_map(|folder| [folder.to_owned(), folder.join("libibverbs"), folder.join("ucx")])
    {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let rdma = ["ib", "lib", "raw_ethernet", "rping", "ucmatose", "fi_"]
                .iter()
                .any(|prefix| name.starts_with(prefix));
            let links = ["ibv", "mlx", "efa", "mana", "rdma", "fabric", "uct", "ib_", "rping"];
            if rdma && links.iter().any(|part| name.contains(part)) && entry.path().is_file() {
                files.push(entry.path());
            }
        }
    }
    files
}

#[test]
fn installed_programs_find_their_symbols() {
    if !has("readelf") {
        return;
    }
    let names = exported(&library().join("libibverbs.so.1"));
    let mut wanted = 0;
    for file in installed() {
        // The distribution's own library is skipped.
        if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libibverbs.")) {
            continue;
        }
        for (name, version) in imported(&file) {
            // Other versions of the private interface are not supported.
            if version.starts_with("IBVERBS_PRIVATE_") && version != "IBVERBS_PRIVATE_34" {
                continue;
            }
            wanted += 1;
            let found = names.get(&name);
            assert_eq!(found, Some(&version), "{} wants {name}", file.display());
        }
    }
    if wanted == 0 {
        skip("symbols of installed RDMA programs: there are none");
    }
}
