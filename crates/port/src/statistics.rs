//! Counters of the drivers of a host's interfaces, as `ethtool -S` shows them. Every user may read
//! them.

use std::ffi::CStr;
use std::io;

use crate::ethtool::{Names, Request};

/// Returns the names of the host's interfaces, in this network namespace.
///
/// # Errors
/// Of the system.
pub fn interfaces() -> io::Result<Vec<String>> {
    // SAFETY: has no conditions.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut names = Vec::new();
    let mut next = list;
    // SAFETY: the list ends with an entry without a name, and each name with a zero.
    unsafe {
        while !(*next).if_name.is_null() {
            names.push(CStr::from_ptr((*next).if_name).to_string_lossy().into_owned());
            next = next.add(1);
        }
        libc::if_freenameindex(list);
    }
    Ok(names)
}

/// Returns the counters of an interface's driver, by name.
///
/// # Errors
/// There is no such interface, or its driver counts nothing (`Unsupported`).
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    let mut request = Request::new(interface)?;
    let names = request.names(Names::Statistics)?;
    let values = request.statistics(names.len())?;
    Ok(names.into_iter().zip(values).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there_and_counts_nothing() {
        assert!(interfaces().unwrap().iter().any(|name| name == "lo"));
        let error = statistics("lo").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "a\0b", "sixteen-letters-"] {
            assert_eq!(statistics(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(statistics("no-such-nic").is_err());
    }

    /// On whatever host this runs: every counter has a name.
    #[test]
    fn counters_have_names() {
        for interface in interfaces().unwrap() {
            let Ok(counters) = statistics(&interface) else { continue };
            let named = |(name, _): &(String, u64)| {
                !name.is_empty() && name.chars().all(|letter| letter.is_ascii_graphic())
            };
            assert!(counters.iter().any(named), "{interface}: {counters:?}");
        }
    }
}
