//! Selects interfaces, as variables of NCCL do.

/// The address family that is preferred where an interface has addresses of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Selects interfaces by name, in the form of `NCCL_SOCKET_IFNAME`: a list of beginnings of names;
/// after `=` of whole names; after `^` of those to leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    is_given: bool,
    excludes: bool,
    is_exact: bool,
    names: Vec<String>,
}

impl Filter {
    /// `None` selects all interfaces except loopback and docker's.
    pub(crate) fn new(text: Option<&str>) -> Filter {
        let is_given = text.is_some();
        let text = text.unwrap_or("^docker,lo");
        let (excludes, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (is_exact, text) = text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
        // NCCL allows a port after a name, which has no meaning here.
        let names = text.split(',').map(|name| name.split(':').next().unwrap_or(name).trim());
        let names = names.filter(|name| !name.is_empty()).map(String::from).collect();
        Filter { is_given, excludes, is_exact, names }
    }

    /// Whether the user has chosen interfaces.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    pub(crate) fn selects(&self, name: &str) -> bool {
        let fits = |wanted: &String| match self.is_exact {
            true => name == wanted,
            false => name.starts_with(wanted.as_str()),
        };
        self.names.iter().any(fits) != self.excludes
    }
}
